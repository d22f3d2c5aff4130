//! Delete: an object goes, or is marked to go.
//!
//! Invariant: what goes without having been marked had neither grace nor finalizers to wait for; every other object is
//! first seen with its deletionTimestamp.

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use listwatch_proto::resource::{Kind, Object, Status, parse_time, time};

use super::current::{Current, ROUNDS_MAX};
use super::kinds::{Grace, strategy};
use super::update::too_busy;
use super::{Change, ChangeVerb, DeleteOptions, Deleted, Propagation, Registry, RequestContext, StoredObject, Target};

/// The finalizer that lets dependents go first; the garbage collector takes it off.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that lets dependents stay; the garbage collector takes it off.
const ORPHAN: &str = "orphan";

/// What a deletion does to the object as it is now.
enum Step {
    /// It is gone at once.
    Remove,
    /// It is written with these marks; `then_remove`: and gone right after.
    Mark { object: Box<Object>, then_remove: bool },
    /// It is on its way already.
    Pending,
}

impl Registry {
    /// Deletes an object or marks it.
    pub(super) async fn delete_object(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let kind = target.kind;
        if let Some(deleted) = self.delete_damaged(context, target, options).await? {
            return Ok(deleted);
        }
        if let Some(why) = strategy(kind).stays(&target.name) {
            return Err(Status::forbidden(kind, &target.name, why));
        }
        let mut last: Option<Current> = None;
        for _ in 0..ROUNDS_MAX {
            let current = self.current(kind, &target.namespace, &target.name).await?;
            if let Some(last) =
                last.filter(|last| current.as_ref().is_none_or(|now| now.object.uid() != last.object.uid()))
            {
                // It went while it was being deleted here, as when a kubelet is faster with a pod that has been marked:
                // what was asked for has happened, and the state it was last seen in is the best that can be told.
                return Ok(deleted(last.stored(kind), self.revision(), true));
            }
            let Some(current) = current else {
                return Err(Status::not_found(kind, &target.name));
            };
            check_preconditions(kind, &current, options)?;
            let old = Some(&current.object);
            let (verb, asked_name) = (ChangeVerb::Delete, target.name.as_str());
            let change = Change { verb, kind, subresource: "", asked_name, new: None, old };
            self.admit_change(context, &change).await?;
            let step = self.step(kind, &current.object, options);
            if let Some(deleted) = self.take(context, kind, &current, step, options.dry_run).await? {
                return Ok(deleted);
            }
            if options.resource_version.is_some() {
                return Err(Status::conflict(kind, &target.name, super::error::MODIFIED));
            }
            last = Some(current);
        }
        Err(too_busy(kind, &target.name))
    }

    /// Removes a value that is no object, if that is what lies there: nothing of it can be waited for, and as long as it
    /// lies there the name cannot be used. What must always be there is made anew.
    async fn delete_damaged(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>, Status> {
        let kind = target.kind;
        for _ in 0..ROUNDS_MAX {
            let key = kind.key(&target.namespace, &target.name);
            let Some(kv) = self.shared.store.get(key.as_bytes()).await?.0 else { return Ok(None) };
            let (key, revision) = (kv.key.clone(), kv.mod_revision);
            if Current::of(kv).is_ok() {
                return Ok(None);
            }
            // All that is known of it is its place.
            let mut object = Object::default();
            object.set(&["apiVersion"], kind.api_version());
            object.set(&["kind"], kind.kind);
            object.set(&["metadata", "name"], target.name.as_str());
            if kind.namespaced {
                object.set(&["metadata", "namespace"], target.namespace.as_str());
            }
            let damaged = Current { key, revision, raw: Bytes::new(), object: object.clone(), is_converted: false };
            check_preconditions(kind, &damaged, options)?;
            let answer = StoredObject::of(kind, object, revision);
            if options.dry_run {
                return Ok(Some(deleted(answer, self.revision(), true)));
            }
            if let Some(at) = self.remove(context, kind, &damaged).await? {
                self.write_first_objects().await?;
                return Ok(Some(deleted(answer, at, true)));
            }
        }
        Err(too_busy(kind, &target.name))
    }

    /// `None` = somebody else was faster.
    async fn take(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        current: &Current,
        step: Step,
        dry_run: bool,
    ) -> Result<Option<Deleted>, Status> {
        let answer = |object: StoredObject, removed: bool| deleted(object, self.revision(), removed);
        // A removal tells its own revision: a client that waits for its cache to show it must not wait for later ones.
        let gone = |object: StoredObject, revision: i64| deleted(object, revision, true);
        match step {
            Step::Pending => Ok(Some(answer(current.stored(kind), false))),
            Step::Remove if dry_run => Ok(Some(answer(current.stored(kind), true))),
            Step::Remove => Ok(self.remove(context, kind, current).await?.map(|at| gone(current.stored(kind), at))),
            Step::Mark { object, then_remove } if dry_run => {
                Ok(Some(answer(StoredObject::of(kind, *object, current.revision), then_remove)))
            }
            Step::Mark { object, then_remove } => {
                let Some(marked) = self.write_back(context, kind, current, *object).await? else { return Ok(None) };
                if !then_remove {
                    return Ok(Some(answer(marked, false)));
                }
                let marked_now = Current {
                    key: current.key.clone(),
                    revision: marked.revision(),
                    object: marked.object().clone(),
                    raw: marked.raw().clone(),
                    is_converted: false,
                };
                // Somebody may have added a finalizer in between; then it is judged anew.
                Ok(self.remove(context, kind, &marked_now).await?.map(|at| gone(marked, at)))
            }
        }
    }

    fn step(&self, kind: &'static Kind, old: &Object, options: &DeleteOptions) -> Step {
        let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let mut new = old.clone();
        let rules = strategy(kind);
        let settled = old.finalizers().any(|f| f == FOREGROUND || f == ORPHAN);
        let own = rules.default_propagation().filter(|_| !settled);
        let propagation = options.propagation.or(own).filter(|_| rules.habits().has_dependents);
        set_finalizers(&mut new, propagation);
        if old.is_terminating() {
            return self.shorten(kind, old, new, asked);
        }
        if let Some(held) = rules.held(old, &new, &time(self.now())) {
            let then_remove = rules.may_go(&held);
            return Step::Mark { object: Box::new(held), then_remove };
        }
        let pending = new.finalizers().next().is_some();
        match rules.grace(old, asked) {
            Grace::Seconds(seconds) => {
                self.mark(&mut new, seconds);
                Step::Mark { object: Box::new(new), then_remove: !pending && seconds == 0 }
            }
            Grace::None if pending => {
                self.mark(&mut new, 0);
                Step::Mark { object: Box::new(new), then_remove: false }
            }
            Grace::None => Step::Remove,
        }
    }

    /// A second deletion may only shorten the wait.
    fn shorten(&self, kind: &'static Kind, old: &Object, mut new: Object, asked: Option<i64>) -> Step {
        let pending = old.finalizers().next().is_some();
        let Some(granted) = old.int(&["metadata", "deletionGracePeriodSeconds"]) else {
            return if strategy(kind).may_go(old) { Step::Remove } else { Step::Pending };
        };
        // What only waits for finalizers may be told anew what becomes of what it owns.
        if granted == 0 && pending && !old.finalizers().eq(new.finalizers()) {
            let then_remove = new.finalizers().next().is_none();
            return Step::Mark { object: Box::new(new), then_remove };
        }
        let Some(seconds) = asked.filter(|seconds| *seconds < granted) else {
            return if granted == 0 && !pending { Step::Remove } else { Step::Pending };
        };
        let due = old.deletion_timestamp().and_then(parse_time).unwrap_or_else(|| self.now());
        let due = due.checked_sub(SignedDuration::from_secs(granted.saturating_sub(seconds))).unwrap_or(due);
        // A grace that went beyond the calendar has no true end to count back from.
        let due = due.min(self.now().checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX));
        // Finalizers are settled by the first deletion.
        match old.at(&["metadata", "finalizers"]) {
            Some(finalizers) => new.set(&["metadata", "finalizers"], finalizers.clone()),
            None => drop(new.remove(&["metadata", "finalizers"])),
        }
        new.set(&["metadata", "deletionTimestamp"], time(due));
        new.set(&["metadata", "deletionGracePeriodSeconds"], seconds);
        Step::Mark { object: Box::new(new), then_remove: !pending && seconds == 0 }
    }

    fn mark(&self, object: &mut Object, seconds: i64) {
        let now = self.now();
        // What lies beyond the calendar is as far away as its end.
        let due = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        object.set(&["metadata", "deletionTimestamp"], time(due));
        object.set(&["metadata", "deletionGracePeriodSeconds"], seconds);
        if object.generation() > 0 {
            object.set(&["metadata", "generation"], object.generation() + 1);
        }
    }
}

fn deleted(object: StoredObject, revision: i64, removed: bool) -> Deleted {
    Deleted { object, revision, removed, warnings: Vec::new() }
}

/// Records the propagation for the garbage collector.
fn set_finalizers(object: &mut Object, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let others = object.finalizers().filter(|f| *f != FOREGROUND && *f != ORPHAN);
    let mut after: Vec<String> = others.map(str::to_owned).collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => after.push(FOREGROUND.to_owned()),
        Propagation::Orphan => after.push(ORPHAN.to_owned()),
    }
    if after.is_empty() {
        object.remove(&["metadata", "finalizers"]);
    } else {
        object.set(&["metadata", "finalizers"], after);
    }
}

/// Whether the object is the one that the client means.
///
/// # Errors
/// `Conflict`.
pub(super) fn check_preconditions(
    kind: &'static Kind,
    current: &Current,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let conflict = |why: String| {
        let full = if kind.group.is_empty() { kind.kind.to_owned() } else { format!("{}.{}", kind.kind, kind.group) };
        let mut status = Status::conflict(kind, current.object.name(), "");
        status.message = format!("Operation cannot be fulfilled on {full} \"{}\": {why}", current.object.name());
        status.kind = kind.kind.to_owned();
        Err(status)
    };
    let uid = current.object.uid();
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been \
             deleted and then recreated"
        ));
    }
    let revision = current.revision.to_string();
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != revision) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({revision}). The object might have been modified"
        ));
    }
    Ok(())
}
