//! Server-side apply: a manager says all that it wants of an object, and the object becomes so.
//!
//! What it wants is merged in; what it wanted before and nobody else does is taken away; what another manager has set
//! differently is a conflict, unless it is forced.

use listwatch_proto::resource::{Object, Status};
use serde_json::{Map, Value};

use super::conflict::{Conflict, conflicts, refuse};
use super::managers::{Entry, Managers, Operation};
use super::set::FieldSet;
use super::shape::Shape;
use super::track::{Tracking, compared, nobodys, set, update};
use super::{last_applied, merge, owned, remove, validate};

/// The manager of what was there before the first apply.
const BEFORE: &str = "before-first-apply";

/// A configuration to be applied.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Configured<'a> {
    /// As it was sent.
    pub(in super::super) config: &'a Map<String, Value>,
    /// `ConfigMap`.
    pub(in super::super) kind: &'a str,
    /// Whether fields of others are taken.
    pub(in super::super) force: bool,
}

/// The object after an apply: not yet decoded and defaulted, with its managers.
#[derive(Debug)]
pub(in super::super) struct Applied {
    /// The object; managedFields are in it.
    pub(in super::super) object: Object,
}

/// Why an apply is not done.
enum Failure {
    Refused(Status),
    Conflicts(Vec<Conflict>),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Refused(status)
    }
}

/// Applies a configuration. `live` is the object as it is served; `None` = there is none yet.
///
/// # Errors
/// `BadRequest` for a configuration of another kind, 500 without a reason for one that has not the declared shape,
/// `Conflict` for fields of others.
pub(in super::super) fn apply(
    write: Tracking<'_>,
    live: Option<&Object>,
    wanted: Configured<'_>,
) -> Result<Applied, Status> {
    check_kind(write, wanted)?;
    let blank;
    let live = match live {
        Some(live) => &live.0,
        None => {
            blank = write.blank();
            &blank
        }
    };
    let applied = match try_apply(write, live, wanted) {
        Err(Failure::Conflicts(found)) if write.manager == last_applied::KUBECTL => {
            // What client-side apply had set is kubectl's own.
            let allowed = last_applied::allowed(write, live);
            let left: Vec<_> = found.into_iter().filter(|c| !allowed.has(&c.path)).collect();
            if left.is_empty() {
                try_apply(write, live, Configured { force: true, ..wanted })
            } else {
                Err(Failure::Conflicts(left))
            }
        }
        other => other,
    };
    let mut applied = applied.map_err(|failure| match failure {
        Failure::Refused(status) => status,
        Failure::Conflicts(found) => refuse(&found),
    })?;
    if write.manager == last_applied::KUBECTL {
        last_applied::refresh(&mut applied.object, wanted.config);
    }
    Ok(applied)
}

fn check_kind(write: Tracking<'_>, wanted: Configured<'_>) -> Result<(), Status> {
    let text = |key: &str| wanted.config.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if (api_version, kind) != (write.api_version, wanted.kind) {
        return Err(Status::bad_request(format!("invalid object type: {}", group_kind(api_version, kind))));
    }
    Ok(())
}

/// `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn group_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn try_apply(write: Tracking<'_>, live: &Map<String, Value>, wanted: Configured<'_>) -> Result<Applied, Failure> {
    let shape = write.shape();
    let mut managers = Managers::stored(live);
    if managers.0.is_empty() {
        managers = update(Tracking { manager: BEFORE, ..write }, &write.blank(), live, managers);
    }
    let metadata = wanted.config.get("metadata");
    if metadata.and_then(|metadata| metadata.get("managedFields")).is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil").into());
    }
    let config = Value::Object(wanted.config.clone());
    validate::check(&config, shape).map_err(|why| {
        let name = |key: &str| metadata.and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default();
        let kind = group_kind(write.api_version, wanted.kind);
        fault(format!("failed to create typed patch object ({}/{}; {kind}): {why}", name("namespace"), name("name")))
    })?;
    let mut old = live.clone();
    strip(&mut old);
    let old = Value::Object(old);
    let merged = merge::merge(Some(&old), Some(&config), shape)
        .map_err(|why| fault(format!("failed to merge config: {why}")))?
        .unwrap_or(Value::Null);
    let manager = write.manager(Operation::Apply);
    let last = managers.remove(&manager);
    let mut fields = owned::fields(&config, shape);
    write.leave_out_reset(&mut fields);
    let time = last.as_ref().and_then(|last| last.time.clone());
    managers.put(Entry { manager: manager.clone(), time, fields });
    let new = match last.filter(|last| !last.fields.is_empty()) {
        Some(last) => prune(&merged, &managers, &last.fields, shape),
        None => merged,
    };
    let new = new.as_object().cloned().unwrap_or_default();
    settle(write, old.as_object().unwrap_or(&Map::new()), &new, &mut managers, wanted.force)?;
    let changed = old.as_object() != Some(&new);
    if let Some(entry) = managers.get_mut(&manager) {
        entry.fields.subtract(nobodys());
        if changed {
            entry.time = Some(write.now.to_owned());
        }
    }
    let mut object = Object(new);
    set(&mut object, managers);
    Ok(Applied { object })
}

/// Takes what the apply has set away from the others.
fn settle(
    write: Tracking<'_>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    managers: &mut Managers,
    force: bool,
) -> Result<(), Failure> {
    let manager = write.manager(Operation::Apply);
    let compared = compared(old, new, write.shape())
        .map_err(|why| fault(format!("failed to compare objects: {why}")))?
        .without(|fields| write.leave_out_reset(fields));
    let written = compared.written();
    let others = managers.0.iter().filter(|entry| !entry.manager.is(&manager));
    let taken: Vec<_> = others
        .map(|entry| (entry.manager.clone(), entry.fields.common(&written)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect();
    if !force && !taken.is_empty() {
        return Err(Failure::Conflicts(conflicts(taken)));
    }
    let mut gone = written;
    gone.add(&compared.removed);
    managers.take_from_others(&gone, Some(&manager));
    Ok(())
}

/// The merged object without what the manager wanted before and nobody wants now.
fn prune(merged: &Value, managers: &Managers, last: &FieldSet, shape: Shape) -> Value {
    let whole = |set: &FieldSet| set.with_declared(shape, &|shape: Shape, step: &str| shape.step(step));
    let pruned = remove::without(merged, &whole(last), shape);
    // What others own comes back,
    let mut all = FieldSet::default();
    for entry in &managers.0 {
        all.add(&entry.fields);
    }
    let had = whole(&owned::fields(merged, shape));
    let mut kept = whole(&owned::fields(&pruned, shape));
    kept.add(&whole(&all));
    let mut gone = had.clone();
    gone.subtract(&kept);
    let pruned = remove::without(merged, &gone, shape);
    // and what the manager did not own goes back too.
    let mut gone = had;
    gone.subtract(&whole(&owned::fields(&pruned, shape)));
    remove::without(merged, &gone.common(&whole(last)), shape)
}

/// Without the managers, which are nobody's.
pub(super) fn strip(object: &mut Map<String, Value>) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// 500 without a reason, as upstream.
fn fault(why: String) -> Status {
    Status::new(listwatch_proto::resource::Reason::Unknown, why)
}
