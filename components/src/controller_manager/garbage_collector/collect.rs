//! Which change needs a look, and what a look leads to.
//!
//! Invariants: an object is only deleted after the server has said that it is the one the cache shows and that none of its
//! owners is there; an owner that goes last, or frees what it owns, goes only when the caches of all kinds have come to the
//! revision at which it was told to and show nothing that it still holds.

use listwatch_proto::resource::{Kind, ObjectKey, OwnerReference};

use super::absent::Absence;
use super::{OwnerState, Verdict, World, verdict};
use crate::client::{Error, Propagation};
use crate::controller_manager::owned::{FOREGROUND, Known, ORPHAN};
use crate::runtime::ReconcileError;

/// Where a reference must be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// There.
    At(&'static Kind, ObjectKey),
    /// Nowhere: an object without a namespace cannot be owned by one that has.
    Impossible,
    /// Nobody knows that kind.
    Unknown,
}

pub(super) fn place(of: &ObjectKey, owner: &OwnerReference) -> Place {
    let Some(kind) = Kind::by_api_version(&owner.api_version, &owner.kind) else { return Place::Unknown };
    match (kind.namespaced, of.namespace.as_str()) {
        (false, _) => Place::At(kind, ObjectKey::new("", &*owner.name)),
        (true, "") => Place::Impossible,
        (true, namespace) => Place::At(kind, ObjectKey::new(namespace, &*owner.name)),
    }
}

/// An object has appeared or changed: whether it, or another one, needs a look.
pub fn changed<W: World + ?Sized>(world: &W, kind: &'static Kind, old: Option<&Known>, new: &Known) {
    let healthy = |owner: &OwnerReference| cached_state(world, &new.key, owner) == Some(OwnerState::Solid);
    if new.goes_last() || new.frees() || !(new.terminating || new.owners.iter().all(healthy)) {
        world.enqueue(kind, &new.key);
    }
    if new.goes_last() && old.is_none_or(|old| !old.goes_last()) {
        world.dependents(&new.uid).iter().for_each(|(kind, dependent)| world.enqueue(kind, &dependent.key));
    }
    // An owner that waited for it need not wait any more.
    if let Some(old) = old.filter(|old| old.owners != new.owners) {
        wake_waiting(world, old);
    }
}

/// An object is gone: what it owned, and owners that wait for it, need a look.
pub fn removed<W: World + ?Sized>(world: &W, object: &Known) {
    world.dependents(&object.uid).iter().for_each(|(kind, dependent)| world.enqueue(kind, &dependent.key));
    wake_waiting(world, object);
}

fn wake_waiting<W: World + ?Sized>(world: &W, object: &Known) {
    for owner in &object.owners {
        if let Place::At(kind, key) = place(&object.key, owner)
            && world.get(kind, &key).is_some_and(|known| known.goes_last())
        {
            world.enqueue(kind, &key);
        }
    }
}

/// Looks at an object, and does what is to be done.
pub(super) async fn collect<W: World + ?Sized>(
    world: &W,
    kind: &'static Kind,
    key: &ObjectKey,
) -> Result<(), ReconcileError> {
    let Some(cached) = world.get(kind, key) else { return Ok(()) };
    if cached.frees() {
        free(world, kind, &cached).await
    } else if cached.goes_last() {
        go_last(world, kind, &cached).await
    } else {
        judge(world, kind, &cached).await
    }
}

/// What an owner holds: the objects whose reference really means it.
fn held<W: World + ?Sized>(world: &W, kind: &'static Kind, owner: &Known) -> Vec<(&'static Kind, Known, bool)> {
    let means = |dependent: &Known, reference: &OwnerReference| {
        let meant = place(&dependent.key, reference);
        reference.uid == owner.uid
            && matches!(meant, Place::At(of, key) if of.is_same_resource(kind) && key == owner.key)
    };
    let of = |(kind, dependent): (&'static Kind, Known)| {
        let references: Vec<_> = dependent.owners.iter().filter(|reference| means(&dependent, reference)).collect();
        let blocks = references.iter().any(|reference| reference.block_owner_deletion == Some(true));
        (!references.is_empty()).then(|| (kind, dependent.clone(), blocks))
    };
    world.dependents(&owner.uid).into_iter().filter_map(of).collect()
}

/// Lets an owner go once nothing blocks it any more.
async fn go_last<W: World + ?Sized>(world: &W, kind: &'static Kind, owner: &Known) -> Result<(), ReconcileError> {
    let mut caught_up = false;
    loop {
        let holds = held(world, kind, owner);
        if holds.iter().any(|(_, _, blocks)| *blocks) {
            holds.iter().for_each(|(kind, dependent, _)| world.enqueue(kind, &dependent.key));
            return Ok(());
        }
        if caught_up {
            return drop_finalizer(world, kind, owner, FOREGROUND).await;
        }
        world.catch_up(owner.revision).await?;
        caught_up = true;
    }
}

/// Frees what an owner owns, then lets it go.
async fn free<W: World + ?Sized>(world: &W, kind: &'static Kind, owner: &Known) -> Result<(), ReconcileError> {
    world.catch_up(owner.revision).await?;
    for (kind, dependent, _) in held(world, kind, owner) {
        let left: Vec<_> = dependent.owners.iter().filter(|o| o.uid != owner.uid).cloned().collect();
        world.set_owners(kind, &dependent, &left).await?;
    }
    drop_finalizer(world, kind, owner, ORPHAN).await
}

async fn drop_finalizer<W: World + ?Sized>(
    world: &W,
    kind: &'static Kind,
    owner: &Known,
    finalizer: &str,
) -> Result<(), ReconcileError> {
    let Some(live) = world.live(kind, &owner.key).await?.filter(|live| live.uid == owner.uid) else { return Ok(()) };
    if !live.terminating || !live.has_finalizer(finalizer) {
        return Ok(());
    }
    let left: Vec<String> = live.finalizers.iter().filter(|held| *held != finalizer).cloned().collect();
    Ok(world.set_finalizers(kind, &live, &left).await?)
}

/// Judges an object by its owners, after a look at the server.
async fn judge<W: World + ?Sized>(world: &W, kind: &'static Kind, cached: &Known) -> Result<(), ReconcileError> {
    let settled = |owner| cached_state(world, &cached.key, owner) == Some(OwnerState::Solid);
    // What is going is on a way without return; its end will be seen.
    if cached.terminating || cached.owners.iter().all(settled) {
        return Ok(());
    }
    let live = world.live(kind, &cached.key).await?;
    let Some(live) = live.filter(|live| live.uid == cached.uid && !live.terminating) else { return Ok(()) };
    let mut owners = Vec::new();
    for owner in &live.owners {
        owners.push((owner.clone(), owner_state(world, kind, &live, owner).await?));
    }
    match verdict(&owners) {
        Verdict::Keep => Ok(()),
        Verdict::Strip(left) => Ok(world.set_owners(kind, &live, &left).await?),
        Verdict::Delete { waiting: false } => Ok(world.delete(kind, &live, own_policy(&live)).await?),
        Verdict::Delete { waiting: true } => {
            let mut holds = held(world, kind, &live);
            if holds.is_empty() {
                world.catch_up(live.revision).await?;
                holds = held(world, kind, &live);
            }
            if holds.is_empty() {
                return Ok(world.delete(kind, &live, own_policy(&live)).await?);
            }
            // A ring of owners that each wait for the next would wait for ever: this one no longer makes its owners wait.
            if holds.iter().any(|(_, dependent, _)| dependent.goes_last()) && blocks_any(&live) {
                let free = |owner: &OwnerReference| OwnerReference { block_owner_deletion: None, ..owner.clone() };
                let unblocked: Vec<_> = live.owners.iter().map(free).collect();
                world.set_owners(kind, &live, &unblocked).await?;
                let again = world.live(kind, &live.key).await?.filter(|again| again.uid == live.uid);
                let Some(again) = again else { return Ok(()) };
                return Ok(world.delete(kind, &again, Propagation::Foreground).await?);
            }
            Ok(world.delete(kind, &live, Propagation::Foreground).await?)
        }
    }
}

fn blocks_any(object: &Known) -> bool {
    object.owners.iter().any(|owner| owner.block_owner_deletion == Some(true))
}

/// What becomes of what an object owns, if it says so itself.
fn own_policy(object: &Known) -> Propagation {
    if object.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// How an owner stands by the caches alone; `None`: they do not show it, and the server must be asked.
fn cached_state<W: World + ?Sized>(world: &W, of: &ObjectKey, owner: &OwnerReference) -> Option<OwnerState> {
    let Place::At(kind, key) = place(of, owner) else { return Some(OwnerState::Unresolvable) };
    world.get(kind, &key).filter(|known| known.uid == owner.uid).map(|known| state(&known, owner))
}

/// How an owner stands; asks the server if the caches do not show it.
async fn owner_state<W: World + ?Sized>(
    world: &W,
    kind: &'static Kind,
    of: &Known,
    owner: &OwnerReference,
) -> Result<OwnerState, Error> {
    if let Some(state) = cached_state(world, &of.key, owner).filter(|state| *state != OwnerState::Unresolvable) {
        return Ok(state);
    }
    let (owner_kind, key) = match place(&of.key, owner) {
        Place::At(kind, key) => (kind, key),
        Place::Unknown => return Ok(OwnerState::Unresolvable),
        Place::Impossible => {
            world.tell_misplaced(kind, of, owner);
            return Ok(OwnerState::Unresolvable);
        }
    };
    let absence = match world.absent().get(&key, owner) {
        Some(absence) => absence,
        None => match world.live(owner_kind, &key).await?.filter(|live| live.uid == owner.uid) {
            Some(live) => return Ok(state(&live, owner)),
            None => {
                let somewhere = world.exists_somewhere(owner_kind, &owner.uid);
                let absence = if somewhere { Absence::Misplaced } else { Absence::Gone };
                world.absent().note(&key, owner, absence);
                absence
            }
        },
    };
    if absence == Absence::Misplaced {
        world.tell_misplaced(kind, of, owner);
    }
    Ok(OwnerState::Dangling)
}

fn state(known: &Known, owner: &OwnerReference) -> OwnerState {
    let waits = known.goes_last() && owner.block_owner_deletion == Some(true);
    if waits { OwnerState::Waiting } else { OwnerState::Solid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_by_upstreams_rules() {
        let owner = |api_version: &str, kind: &str| OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "o".into(),
            uid: "u".into(),
            controller: None,
            block_owner_deletion: None,
        };
        let (pod, node) = (ObjectKey::new("shop", "p"), ObjectKey::new("", "n"));
        let found = |of, api_version, kind| match place(of, &owner(api_version, kind)) {
            Place::At(kind, key) => format!("{} {key}", kind.kind),
            other => format!("{other:?}"),
        };
        assert_eq!(found(&pod, "apps/v1", "ReplicaSet"), "ReplicaSet shop/o");
        assert_eq!(found(&pod, "v1", "Node"), "Node o");
        assert_eq!(found(&node, "v1", "Node"), "Node o");
        assert_eq!(found(&node, "apps/v1", "ReplicaSet"), "Impossible");
        assert_eq!(found(&pod, "example.com/v1", "Thing"), "Unknown");
    }
}
