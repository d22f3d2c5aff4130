//! A patch, read: how it changes an object, and what a person should be told of it.

use listwatch_proto::resource::{Cause, Object, Reason, Status};
use serde_json::{Map, Value};

use super::apply::{Applied, Configured, apply};
use super::authorship::Authorship;
use super::body::{BODY_BYTES_MAX, Expected, Read, read_node, read_patched};
use super::kinds::quoted;
use super::patches::json_patch::JsonPatch;
use super::patches::merge_patch::{duplicates, merge};
use super::patches::strategic_merge;
use super::schema::declared;
use super::schema::json::Node;
use super::{FieldValidation, Patch, PatchKind, unstructured};

/// A patch, read.
#[derive(Debug)]
pub(super) struct Difference {
    form: Form,
    force: bool,
    /// What strict validation has to say of the patch itself.
    strict: Vec<String>,
    validation: FieldValidation,
}

#[derive(Debug)]
enum Form {
    Json(JsonPatch),
    Merge(Map<String, Value>),
    Strategic(Map<String, Value>),
    Apply(Map<String, Value>),
}

/// An object that a patch has made: decoded, with its managers, not yet defaulted.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) object: Object,
    pub(super) warnings: Vec<String>,
}

impl Difference {
    /// Reads a patch.
    ///
    /// # Errors
    /// `BadRequest` for what is no patch of its form, `RequestEntityTooLarge`.
    pub(super) fn read(patch: &Patch, validation: FieldValidation) -> Result<Self, Status> {
        if patch.body.len() > BODY_BYTES_MAX {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return Err(Status::new(Reason::RequestEntityTooLarge, message));
        }
        let lax = validation == FieldValidation::Ignore;
        let node = Node::parse(&patch.body).map_err(|why| {
            Status::bad_request(match patch.kind {
                PatchKind::Apply => format!("error decoding YAML: {why}"),
                PatchKind::Strategic => why,
                PatchKind::Merge if lax => "Invalid JSON Patch".to_owned(),
                PatchKind::Json if lax => why,
                PatchKind::Json | PatchKind::Merge => format!("error decoding patch: {why}"),
            })
        })?;
        let not_a_map =
            || format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", node.go_kind());
        let mut strict = Vec::new();
        let form = match (patch.kind, node.to_value()) {
            (PatchKind::Json, _) => {
                let (patch, told) = JsonPatch::read(&node, lax)?;
                strict = told;
                Form::Json(patch)
            }
            (PatchKind::Merge, Value::Object(map)) => Form::Merge(map),
            (PatchKind::Merge, Value::Null) => return Err(Status::bad_request("Invalid JSON Patch")),
            (PatchKind::Merge, _) if lax => return Err(Status::bad_request("Invalid JSON Patch")),
            (PatchKind::Merge, _) => return Err(Status::bad_request(format!("error decoding patch: {}", not_a_map()))),
            (PatchKind::Strategic, Value::Object(map)) => Form::Strategic(map),
            (PatchKind::Strategic, Value::Null) => Form::Strategic(Map::new()),
            (PatchKind::Strategic, _) => return Err(Status::bad_request(not_a_map())),
            (PatchKind::Apply, Value::Object(map)) => Form::Apply(map),
            (PatchKind::Apply, Value::Null) => Form::Apply(Map::new()),
            (PatchKind::Apply, _) => {
                let why = format!("error decoding YAML: error unmarshaling JSON: while decoding JSON: {}", not_a_map());
                return Err(Status::bad_request(why));
            }
        };
        if matches!(form, Form::Merge(_) | Form::Strategic(_)) {
            strict = duplicates(&node);
        }
        Ok(Difference { form, force: patch.force, strict, validation })
    }

    /// Whether the client wants one certain revision changed, so that no other may be.
    pub(super) fn names_revision(&self) -> bool {
        match &self.form {
            Form::Json(patch) => patch.touches("/metadata/resourceVersion"),
            Form::Merge(map) | Form::Strategic(map) | Form::Apply(map) => {
                map.get("metadata").is_some_and(|metadata| !metadata["resourceVersion"].is_null())
            }
        }
    }

    /// The changed object. `live` is the object as it is served, with its managers; `None` = there is none yet, which only
    /// an apply can do something about. `default` fills in what the kind fills in.
    ///
    /// # Errors
    /// Why the patch does not apply, or makes no object of the kind.
    pub(super) fn changed(
        &self,
        expected: Expected<'_>,
        live: Option<&Object>,
        author: &Authorship,
        default: impl FnOnce(&mut Object),
    ) -> Result<Changed, Status> {
        let shown;
        let read = match (&self.form, live) {
            (Form::Apply(config), live) => {
                let wanted = Configured { config, kind: expected.kind, force: self.force };
                let applied = apply(author.tracking(), live, wanted)?;
                return self.configured(expected, config, applied, default);
            }
            (_, None) => return Err(Status::new(Reason::NotFound, "there is nothing to patch")),
            (Form::Json(patch), Some(live)) => {
                let mut value = live.clone().into_value();
                patch.apply(&mut value)?;
                shown = declared::patched_text(&value, expected.schema, &patch.touched());
                read_patched(expected, &Node::of(&value))
            }
            (Form::Merge(patch), Some(live)) => {
                let mut value = live.clone();
                merge(&mut value.0, patch);
                let value = value.into_value();
                shown = declared::patched_text(&value, expected.schema, &Value::Object(patch.clone()));
                read_patched(expected, &Node::of(&value))
            }
            (Form::Strategic(patch), Some(live)) => {
                shown = strategic_merge::go_map(patch);
                strategic(expected, live, patch)?
            }
        };
        let refuse = |why: &str| {
            let message = format!("Invalid value: {}: {why}", quoted(&shown));
            let mut status = Status::new(Reason::Invalid, format!(" \"\" is invalid: patch: {message}"));
            status.causes = vec![Cause { reason: "FieldValueInvalid".into(), message, field: "patch".into() }];
            status
        };
        let read = read.map_err(|why| refuse(&why))?;
        let told: Vec<String> = self.strict.iter().chain(&read.strict).cloned().collect();
        if self.validation == FieldValidation::Strict && !told.is_empty() {
            return Err(refuse(&format!("strict decoding error: {}", told.join(", "))));
        }
        let warnings = if self.validation == FieldValidation::Ignore { Vec::new() } else { told };
        let mut object = read.object;
        default(&mut object);
        author.sign(live, &mut object, &read.managed);
        Ok(Changed { object, warnings })
    }

    /// What an apply has made, decoded.
    fn configured(
        &self,
        expected: Expected<'_>,
        config: &Map<String, Value>,
        mut applied: Applied,
        default: impl FnOnce(&mut Object),
    ) -> Result<Changed, Status> {
        const MANAGERS: [&str; 2] = ["metadata", "managedFields"];
        let managers = applied.object.remove(&MANAGERS);
        applied.object.set(&["apiVersion"], expected.api_version);
        applied.object.set(&["kind"], expected.kind);
        let value = applied.object.into_value();
        let read = read_patched(expected, &Node::of(&value)).map_err(|why| {
            let text = |key: &str| config.get("metadata").and_then(|m| m[key].as_str()).unwrap_or_default();
            let kind = format!("{}, Kind={}", expected.api_version, expected.kind);
            let slash = if expected.api_version.contains('/') { "" } else { "/" };
            let of = format!("{}/{}; {slash}{kind}", text("namespace"), text("name"));
            Status::new(Reason::Unknown, format!("failed to convert new typed object ({of}) to object: {why}"))
        })?;
        let mut object = read.object;
        default(&mut object);
        if let Some(managers) = managers {
            object.set(&MANAGERS, managers);
        }
        Ok(Changed { object, warnings: self.strict.clone() })
    }
}

/// A strategic merge is no JSON that is read, but a map that is put into a struct.
fn strategic(
    expected: Expected<'_>,
    live: &Object,
    patch: &Map<String, Value>,
) -> Result<Result<Read, String>, Status> {
    let mut value = live.clone().into_value();
    strategic_merge::merge(&mut value, &Value::Object(patch.clone()), expected.schema)?;
    if let Some(why) = unstructured::misfit(&value, expected.schema) {
        return Ok(Err(why));
    }
    unstructured::narrow(&mut value, expected.schema);
    if let Some(map) = value.as_object_mut() {
        // The kind is that of the request, whatever the patch says.
        map.insert("apiVersion".to_owned(), expected.api_version.into());
        map.insert("kind".to_owned(), expected.kind.into());
    }
    let mut read = read_node(expected, &Node::of(&value))?;
    read.strict.sort();
    Ok(Ok(read))
}
