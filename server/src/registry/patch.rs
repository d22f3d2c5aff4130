//! Patch: a change told as a difference (RFC 6902, RFC 7386, a strategic merge), or as all that a manager wants (apply).

use listwatch_proto::resource::{Kind, Object, Reason, Status};

use super::authorship::Authorship;
use super::body::Expected;
use super::create::kept;
use super::current::{Current, ROUNDS_MAX};
use super::custom::custom;
use super::difference::{Changed, Difference};
use super::error::MODIFIED;
use super::kinds::{Part, read_scale, strategy, write_scale};
use super::update::{parse_revision, part, too_busy, wrong_name};
use super::{Patch, PatchKind, Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

/// What is patched: an object or its Scale.
#[derive(Clone, Copy)]
struct Subject<'a> {
    target: &'a Target,
    part: Part,
    expected: Expected<'a>,
}

impl Subject<'_> {
    fn is_scale(self) -> bool {
        self.target.subresource == "scale"
    }
}

impl Registry {
    /// 415: a form of patch that custom resources do not take.
    pub(crate) fn unsupported_custom_patch() -> Status {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Status::new(Reason::UnsupportedMediaType, message)
    }

    /// Changes an object or a part of it; an apply makes it if there is none.
    pub(super) async fn patch_object(
        &self,
        context: &RequestContext,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let (kind, scale) = (target.kind, target.subresource == "scale");
        if custom(kind).is_some() && patch.kind == PatchKind::Strategic && !scale {
            return Err(Self::unsupported_custom_patch());
        }
        let part = if scale { Part::Main } else { part(target)? };
        let api_version = kind.api_version();
        let expected = if scale { super::scaling::SCALE } else { Expected::of(kind, &api_version) };
        let subject = Subject { target, part, expected };
        let author = Authorship::of(self, context, target, part, options);
        let difference = Difference::read(patch, options.field_validation);
        let makes = patch.kind == PatchKind::Apply && target.subresource.is_empty();
        for _ in 0..ROUNDS_MAX {
            let current = self.current(kind, &target.namespace, &target.name).await?;
            if current.is_none() && !makes {
                return Err(Status::not_found(kind, &target.name));
            }
            let difference = difference.as_ref().map_err(Clone::clone)?;
            let written = match &current {
                None => self.make_applied(context, subject, difference, &author, options).await?,
                Some(current) => self.patch_current(context, subject, difference, &author, (current, options)).await?,
            };
            if let Some(written) = written {
                return Ok(written);
            }
            if difference.names_revision() {
                return Err(Status::conflict(kind, &target.name, MODIFIED));
            }
        }
        Err(too_busy(kind, &target.name))
    }

    /// Patches the object as it is now. `None` = somebody else was faster.
    async fn patch_current(
        &self,
        context: &RequestContext,
        subject: Subject<'_>,
        difference: &Difference,
        author: &Authorship,
        (current, options): (&Current, &WriteOptions),
    ) -> Result<Option<Written>, Status> {
        let kind = subject.target.kind;
        let mut live = match strategy(kind).view() {
            Some(view) => view.shown(current.object.clone()),
            None => current.object.clone(),
        };
        live.set(&["metadata", "resourceVersion"], current.revision.to_string());
        if subject.is_scale() {
            live = scale_object(kind, &live)?;
            author.show_in_scale(&mut live, &current.object);
        }
        let Changed { object, mut warnings } =
            difference.changed(subject.expected, Some(&live), author, |object| subject.default(object))?;
        let changed = self.change_to(context, subject, object, author, (current, options), &mut warnings).await;
        let object = match changed {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(None),
            Err(status) => return Err(status.beside(warnings)),
        };
        Ok(Some(Written { revision: self.revision(), object, created: false, warnings }))
    }

    /// Writes what a patch has made of the current object. `None` = somebody else was faster.
    async fn change_to(
        &self,
        context: &RequestContext,
        subject: Subject<'_>,
        mut object: Object,
        author: &Authorship,
        (current, options): (&Current, &WriteOptions),
        warnings: &mut Vec<String>,
    ) -> Result<Option<StoredObject>, Status> {
        let (kind, target) = (subject.target.kind, subject.target);
        check_place(target, &mut object)?;
        // The patched text carries the current revision unless the patch itself named another one.
        let named = parse_revision(object.text(&["metadata", "resourceVersion"]))?;
        if named != 0 && named != current.revision {
            return Err(Status::conflict(kind, &target.name, MODIFIED));
        }
        let new = if subject.is_scale() {
            let mut new = write_scale(kind, current, &object)?;
            author.take_from_scale(&mut new, &object);
            new
        } else {
            kept(strategy(kind), object)
        };
        let Some(stored) = self.change(context, kind, subject.part, new, current, options.dry_run).await? else {
            return Ok(None);
        };
        if subject.is_scale() {
            return scale_of(kind, &stored).map(Some);
        }
        warnings.extend(strategy(kind).update_warnings(subject.part, stored.object(), &current.object));
        Ok(Some(stored))
    }

    /// Makes the object that an apply describes. `None` = somebody else was faster.
    async fn make_applied(
        &self,
        context: &RequestContext,
        subject: Subject<'_>,
        difference: &Difference,
        author: &Authorship,
        options: &WriteOptions,
    ) -> Result<Option<Written>, Status> {
        let target = subject.target;
        let Changed { object, mut warnings } =
            difference.changed(subject.expected, None, author, |object| subject.default(object))?;
        match self.make_decoded(context, target, object, options, &mut warnings).await {
            Ok(object) => Ok(Some(Written { revision: self.revision(), object, created: true, warnings })),
            Err(status) if status.reason == Reason::AlreadyExists => Ok(None),
            Err(status) => Err(status.beside(warnings)),
        }
    }

    async fn make_decoded(
        &self,
        context: &RequestContext,
        target: &Target,
        mut object: Object,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<StoredObject, Status> {
        let kind = target.kind;
        let uid = object.uid();
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(kind, &target.name, &why));
        }
        check_place(target, &mut object)?;
        object = kept(strategy(kind), object);
        self.may_create(context, target).await?;
        self.give_birth(context, target, object, options.dry_run, warnings).await
    }
}

impl Subject<'_> {
    fn default(self, object: &mut Object) {
        if !self.is_scale() {
            strategy(self.target.kind).default(object);
        }
    }
}

/// The object must be the one that the request names; one without a namespace is in that of the request.
fn check_place(target: &Target, object: &mut Object) -> Result<(), Status> {
    let namespace = object.namespace().to_owned();
    if !target.kind.namespaced {
        object.remove(&["metadata", "namespace"]);
    } else if namespace.is_empty() {
        object.set(&["metadata", "namespace"], target.namespace.as_str());
    } else if namespace != target.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if object.name() != target.name {
        return Err(wrong_name(object.name(), &target.name));
    }
    Ok(())
}

/// The Scale of a stored object.
pub(super) fn scale_of(kind: &'static Kind, stored: &StoredObject) -> Result<StoredObject, Status> {
    Ok(StoredObject::of(kind, scale_object(kind, stored.object())?, stored.revision()))
}

/// The Scale of an object.
pub(super) fn scale_object(kind: &'static Kind, object: &Object) -> Result<Object, Status> {
    match custom(kind).and_then(|rules| rules.scale.as_ref()) {
        Some(paths) => paths.scale_of(object),
        None => Ok(read_scale(kind, object)),
    }
}
