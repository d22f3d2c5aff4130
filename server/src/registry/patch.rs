//! Patch: a change told as a difference (RFC 6902, RFC 7386, or a strategic merge).

use bytes::Bytes;
use listwatch_proto::resource::{Cause, Kind, Object, Reason, Status};
use serde_json::Value;

use super::body::{BODY_BYTES_MAX, Expected, read_node};
use super::current::{Current, ROUNDS_MAX};
use super::custom::custom;
use super::error::MODIFIED;
use super::kinds::{Part, read_scale, strategy, write_scale};
use super::schema::json::Node;
use super::strategic_merge;
use super::update::{parse_revision, part, too_busy};
use super::{FieldValidation, Patch, PatchKind, Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

/// How many operations a JSON patch may have (Kubernetes 1.36).
const OPERATIONS_MAX: usize = 10_000;

/// A patch, read.
struct Difference {
    form: Form,
    /// As the client wrote it.
    written: Bytes,
}

enum Form {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Registry {
    /// 415: a form of patch that custom resources do not take.
    pub(crate) fn unsupported_custom_patch() -> Status {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Status::new(Reason::UnsupportedMediaType, message)
    }

    /// Changes an object or a part of it.
    pub(super) async fn patch_object(
        &self,
        context: &RequestContext,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let (kind, scale) = (target.kind, target.subresource == "scale");
        let part = if scale { Part::Main } else { part(target)? };
        if custom(kind).is_some() && patch.kind == PatchKind::Strategic && !scale {
            return Err(Self::unsupported_custom_patch());
        }
        let difference = Difference::read(patch)?;
        let mut warnings = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let Some(current) = self.current(kind, &target.namespace, &target.name).await? else {
                return Err(Status::not_found(kind, &target.name));
            };
            let (new, told) = difference.changed(kind, &current, scale, options.field_validation)?;
            warnings = told;
            // The patched text carries the current revision unless the patch itself named another one.
            let named = parse_revision(new.text(&["metadata", "resourceVersion"]))?;
            if named != 0 && named != current.revision {
                return Err(Status::conflict(kind, &target.name, MODIFIED));
            }
            if let Some(stored) = self.change(context, kind, part, new, &current, options.dry_run).await? {
                if !scale {
                    warnings.extend(strategy(kind).update_warnings(part, stored.object(), &current.object));
                }
                let object = if scale { scale_of(kind, &stored)? } else { stored };
                return Ok(Written { revision: self.revision(), object, created: false, warnings });
            }
            if difference.names_revision() {
                return Err(Status::conflict(kind, &target.name, MODIFIED));
            }
        }
        let _ = warnings;
        Err(too_busy(kind, &target.name))
    }
}

/// The Scale of a stored object.
pub(super) fn scale_of(kind: &'static Kind, stored: &StoredObject) -> Result<StoredObject, Status> {
    let scale = match custom(kind).and_then(|rules| rules.scale.as_ref()) {
        Some(paths) => paths.scale_of(stored.object())?,
        None => read_scale(kind, stored.object()),
    };
    Ok(StoredObject::of(kind, scale, stored.revision()))
}

/// Applies a JSON patch, one operation after the other, so that copies of copies cannot grow without bound: what is copied
/// counts, as in kube-apiserver.
fn apply_json(patch: &json_patch::Patch, value: &mut Value) -> Result<(), Status> {
    let mut copied = 0;
    for operation in &patch.0 {
        if let json_patch::PatchOperation::Copy(copy) = operation
            && let Some(source) = value.pointer(copy.from.as_str())
        {
            copied += source.to_string().len();
            if copied > BODY_BYTES_MAX {
                let message = format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                     {BODY_BYTES_MAX}"
                );
                return Err(Status::new(Reason::RequestEntityTooLarge, message));
            }
        }
        json_patch::patch(value, std::slice::from_ref(operation)).map_err(|_| {
            Status::new(Reason::Invalid, "the server rejected our request due to an error in our request")
        })?;
    }
    Ok(())
}

impl Difference {
    fn read(patch: &Patch) -> Result<Self, Status> {
        if patch.body.len() > BODY_BYTES_MAX {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return Err(Status::new(Reason::RequestEntityTooLarge, message));
        }
        let refused = |form: &str| {
            let message = format!("{form} is not served yet; use a merge patch (RFC 7386) or a JSON patch (RFC 6902)");
            Status::new(Reason::UnsupportedMediaType, message)
        };
        let form = match patch.kind {
            PatchKind::Apply => Err(refused("server-side apply")),
            _ if patch.force => Err(Status::bad_request("force is only allowed for server-side apply")),
            PatchKind::Json => {
                let patch: json_patch::Patch = serde_json::from_slice(&patch.body)
                    .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
                if patch.0.len() > OPERATIONS_MAX {
                    let message = format!(
                        "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                        patch.0.len()
                    );
                    return Err(Status::new(Reason::RequestEntityTooLarge, message));
                }
                Ok(Form::Json(patch))
            }
            PatchKind::Merge | PatchKind::Strategic => {
                let value: Value = serde_json::from_slice(&patch.body)
                    .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
                if !value.is_object() {
                    return Err(Status::bad_request("error decoding patch: a merge patch must be an object"));
                }
                Ok(if patch.kind == PatchKind::Strategic { Form::Strategic(value) } else { Form::Merge(value) })
            }
        }?;
        Ok(Difference { form, written: patch.body.clone() })
    }

    /// Whether the client wants one certain revision changed, so that no other may be.
    fn names_revision(&self) -> bool {
        match &self.form {
            Form::Json(patch) => {
                patch.0.iter().any(|operation| operation.path().as_str() == "/metadata/resourceVersion")
            }
            Form::Merge(value) | Form::Strategic(value) => !value["metadata"]["resourceVersion"].is_null(),
        }
    }

    fn apply(&self, value: &mut Value, schema: &str) -> Result<(), Status> {
        match &self.form {
            Form::Strategic(patch) => strategic_merge::merge(value, patch, schema),
            Form::Merge(patch) => {
                json_patch::merge(value, patch);
                Ok(())
            }
            Form::Json(patch) => apply_json(patch, value),
        }
    }

    /// The whole changed object, decoded, and what a person should be told.
    fn changed(
        &self,
        kind: &'static Kind,
        current: &Current,
        scale: bool,
        validation: FieldValidation,
    ) -> Result<(Object, Vec<String>), Status> {
        let mut served = current.object.clone();
        served.set(&["metadata", "resourceVersion"], current.revision.to_string());
        let paths = custom(kind).and_then(|rules| rules.scale.as_ref());
        let mut value = match paths {
            Some(paths) if scale => paths.scale_of(&served)?,
            None if scale => read_scale(kind, &served),
            _ => served.clone(),
        }
        .into_value();
        let api_version = kind.api_version();
        let rules = strategy(kind);
        let expected = if scale { super::scaling::SCALE } else { Expected::of(kind, &api_version) };
        self.apply(&mut value, expected.schema)?;
        let read = read_node(expected, &Node::of(&value))?;
        if validation == FieldValidation::Strict && !read.strict.is_empty() {
            return Err(self.strict(&read.strict));
        }
        let warnings = if validation == FieldValidation::Ignore { Vec::new() } else { read.strict };
        let mut object = read.object;
        if object.name() != current.object.name() {
            return Err(super::update::wrong_name(object.name(), current.object.name()));
        }
        if object.namespace() != current.object.namespace() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if scale {
            object = write_scale(kind, current, &object)?;
        } else {
            rules.default(&mut object);
        }
        Ok((object, warnings))
    }

    /// 422: the patch brings in fields that there are not.
    fn strict(&self, faults: &[String]) -> Status {
        let shown = String::from_utf8_lossy(&self.written);
        let message = format!("Invalid value: {shown:?}: strict decoding error: {}", faults.join(", "));
        let mut status = Status::new(Reason::Invalid, format!(" \"\" is invalid: patch: {message}"));
        status.causes = vec![Cause { reason: "FieldValueInvalid".into(), message, field: "patch".into() }];
        status
    }
}
