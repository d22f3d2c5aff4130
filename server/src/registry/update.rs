//! Update and patch: an object, or the part of it that a subresource owns, is changed.
//!
//! Invariant: a change is judged on the object as it was read and written under a guard that it still is so. Only a
//! client that named no resourceVersion has its change judged anew when somebody else was faster.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, Kind, Object, Reason, Status, time};
use serde_json::Value;

use super::apply::{Sent, keep_times};
use super::authorship::Authorship;
use super::body::{self, Expected};
use super::create::{judged_as, kept, shown};
use super::current::{Current, ROUNDS_MAX};
use super::error::MODIFIED;
use super::kinds::{Faults, Part, Strategy, strategy, validate_metadata_update};
use super::{Change, ChangeVerb, Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

/// Metadata that a client cannot change: it is taken from the stored object.
const KEPT: [&str; 5] =
    ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// Where the entries of managers stand.
const MANAGERS: [&str; 2] = ["metadata", "managedFields"];

impl Registry {
    /// Replaces an object or a part of it.
    pub(super) async fn update_object(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let part = part(target)?;
        let api_version = target.kind.api_version();
        let expected = Expected::of(target.kind, &api_version);
        let body = body::read(expected, body, options.field_validation)?;
        let mut warnings = body.warnings;
        match self.update_decoded(context, (target, part), (body.object, &body.managed), options, &mut warnings).await {
            Ok((object, created)) => Ok(Written { revision: self.revision(), object, created, warnings }),
            Err(status) => Err(status.beside(warnings)),
        }
    }

    /// The object after the change, and whether it was made by it.
    async fn update_decoded(
        &self,
        context: &RequestContext,
        (target, part): (&Target, Part),
        (mut new, managed): (Object, &Sent),
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<(StoredObject, bool), Status> {
        let kind = target.kind;
        let rules = strategy(kind);
        self.place(target, &mut new)?;
        if new.name() != target.name {
            return Err(wrong_name(new.name(), &target.name));
        }
        rules.default(&mut new);
        let wanted = wanted_revision(&new)?;
        let author = Authorship::of(self, context, target, part, options);
        for _ in 0..ROUNDS_MAX {
            let Some(current) = self.current(kind, new.namespace(), &target.name).await? else {
                if part != Part::Main || !rules.habits().allows_create_on_update {
                    return Err(Status::not_found(kind, &target.name));
                }
                if wanted.is_some() {
                    return Err(Status::conflict(kind, &target.name, MODIFIED));
                }
                self.may_create(context, target).await?;
                author.sign(None, &mut new, managed);
                new = kept(rules, new);
                return Ok((self.give_birth(context, target, new, options.dry_run, warnings).await?, true));
            };
            check_identity(kind, &new, &current)?;
            match wanted {
                Some(revision) if revision != current.revision => {
                    return Err(Status::conflict(kind, &target.name, MODIFIED));
                }
                None if !rules.habits().allows_unconditional_update => {
                    return Err(revision_required(kind, &target.name));
                }
                _ => {}
            }
            let mut changed = new.clone();
            author.sign(Some(&shown(rules, &current.object)), &mut changed, managed);
            changed = kept(rules, changed);
            if let Some(object) = self.change(context, kind, part, changed, &current, options.dry_run).await? {
                warnings.extend(rules.update_warnings(part, object.object(), &current.object));
                return Ok((object, false));
            }
            if wanted.is_some() {
                return Err(Status::conflict(kind, &target.name, MODIFIED));
            }
        }
        Err(too_busy(kind, &target.name))
    }

    /// Judges a change of the current object and writes it. `None` = somebody else was faster.
    pub(super) async fn change(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        part: Part,
        mut new: Object,
        current: &Current,
        dry_run: bool,
    ) -> Result<Option<StoredObject>, Status> {
        let rules = strategy(kind);
        let old = &current.object;
        keep_metadata(&mut new, old);
        if part == Part::Main {
            self.allot(kind, &mut new, Some(old), dry_run).await?;
        }
        // Who owns what is settled; how a part keeps the rest of the metadata is the kind's business.
        let managers = new.remove(&MANAGERS);
        rules.prepare_update(part, &mut new, old);
        rules.mark_time(part, &mut new, old, &time(self.now()));
        match managers {
            Some(managers) => new.set(&MANAGERS, managers),
            None => drop(new.remove(&MANAGERS)),
        }
        bump_generation(rules, &mut new, old);
        let subresource = part.subresource();
        let (verb, asked_name) = (ChangeVerb::Update, old.name());
        let change = Change { verb, kind, subresource, asked_name, new: Some(&new), old: Some(old) };
        self.admit_change(context, &change).await?;
        let mut faults = Faults::new();
        validate_metadata_update(kind, rules, part, &new, old, &mut faults);
        rules.validate_update(part, &new, old, &mut faults);
        if !faults.is_empty() {
            return Err(Status::invalid(judged_as(kind, rules), old.name(), faults.into_causes()));
        }
        let mut beside = self.admit_valid(kind, part, &new, Some(old)).await?;
        if old.is_terminating() && rules.may_go(&new) {
            // The last finalizer is gone: the object goes with it, in this request.
            if !dry_run && self.remove(context, kind, current).await?.is_none() {
                return Ok(None);
            }
            return Ok(Some(StoredObject::of(kind, new, current.revision)));
        }
        keep_times(&mut new, old);
        if new == *old && !current.is_converted {
            return Ok(Some(current.stored(kind)));
        }
        if dry_run {
            return Ok(Some(StoredObject::of(kind, new, current.revision)));
        }
        for _ in 0..ROUNDS_MAX {
            let charged = !beside.guards.is_empty();
            if let Some(stored) = self.write_back_beside(context, kind, current, new.clone(), beside).await? {
                return Ok(Some(stored));
            }
            // If it was a quota that somebody else changed, only that is looked at again.
            let now = self.current(kind, old.namespace(), old.name()).await?;
            if !charged || now.is_none_or(|now| now.revision != current.revision) {
                break;
            }
            beside = self.admit_valid(kind, part, &new, Some(old)).await?;
        }
        Ok(None)
    }
}

/// Which part a target's subresource owns.
pub(super) fn part(target: &Target) -> Result<Part, Status> {
    Part::of(&target.subresource).ok_or_else(super::error::not_served)
}

/// The revision that an object's resourceVersion wants; none and 0 want any.
///
/// # Errors
/// 500 without a reason, as upstream, for what is no number, in the words of Go's parser.
pub(super) fn wanted_revision(object: &Object) -> Result<Option<i64>, Status> {
    let text = object.text(&["metadata", "resourceVersion"]);
    parse_revision(text).map(|revision| Some(revision).filter(|r| *r != 0))
}

/// A resourceVersion as a number; empty is 0.
pub(super) fn parse_revision(text: &str) -> Result<i64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<i64>() {
        Ok(revision) if digits => Ok(revision),
        // Beyond any revision there will ever be.
        Err(_) if digits => Ok(i64::MAX),
        _ => Err(Status::without_reason(format!("strconv.ParseUint: parsing {}: invalid syntax", quote(&text)))),
    }
}

/// 400: the object is not the one that the request names.
pub(super) fn wrong_name(own: &str, sent: &str) -> Status {
    Status::bad_request(if own.is_empty() {
        format!("the name of the object ({sent} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({own}) does not match the name on the URL ({sent})")
    })
}

/// 429: the object changed each time it was judged.
pub(super) fn too_busy(kind: &'static Kind, name: &str) -> Status {
    let message = format!("{} \"{name}\" is changed too often by others for this change to be made", kind.name());
    let mut status = Status::new(Reason::TooManyRequests, message);
    status.retry_after_seconds = 1;
    status
}

fn revision_required(kind: &'static Kind, name: &str) -> Status {
    let cause = Cause {
        reason: "FieldValueInvalid".into(),
        message: "Invalid value: 0: must be specified for an update".into(),
        field: "metadata.resourceVersion".into(),
    };
    let mut status = Status::invalid(kind, name, vec![cause]);
    status.message = status.message.replacen(&status.kind, kind.plural, 1);
    status.kind = kind.plural.to_owned();
    status
}

/// An object sent with a uid wants the object of that uid.
fn check_identity(kind: &'static Kind, new: &Object, current: &Current) -> Result<(), Status> {
    let (wanted, own) = (new.uid(), current.object.uid());
    if wanted.is_empty() || wanted == own {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {own}");
    Err(Status::conflict(kind, current.object.name(), &invalid_object(current, &why)))
}

/// Upstream's words for an object that is not the one meant.
pub(super) fn invalid_object(current: &Current, why: &str) -> String {
    let key = String::from_utf8_lossy(&current.key);
    format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")
}

fn keep_metadata(new: &mut Object, old: &Object) {
    new.remove(&["metadata", "resourceVersion"]);
    for key in KEPT {
        match old.at(&["metadata", key]) {
            Some(value) => new.set(&["metadata", key], value.clone()),
            None => {
                new.remove(&["metadata", key]);
            }
        }
    }
    if new.uid().is_empty() {
        new.set(&["metadata", "uid"], old.uid());
    }
}

/// The generation counts changes of the spec.
fn bump_generation(rules: &dyn Strategy, new: &mut Object, old: &Object) {
    if rules.habits().has_generation && rules.is_new_generation(new, old) {
        new.set(&["metadata", "generation"], Value::from(old.generation() + 1));
    }
}
