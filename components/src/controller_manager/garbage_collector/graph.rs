//! Who owns what, over all caches.
//!
//! Invariant: the graph is nothing of its own; it is the caches' owner indices, asked kind by kind.

use std::sync::Arc;

use listwatch_proto::resource::{Kind, ObjectKey, OwnerReference};

use super::{FOREGROUND, ORPHAN, OwnerState};
use crate::client::{Api, Client, Error};
use crate::controller_manager::caches::Owned;
use crate::runtime::{RateLimitedQueue, Store};

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its key.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub revision: i64,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it goes after what it owns.
    pub foreground: bool,
    /// Whether what it owns stays.
    pub orphan: bool,
}

/// The objects of one kind, whatever they are cached as.
pub trait Members: Send + Sync {
    /// One object.
    fn get(&self, key: &ObjectKey) -> Option<Known>;
    /// Those that name this uid as an owner.
    fn owned_by(&self, uid: &str) -> Vec<Known>;
}

impl<T: Owned> Members for Store<T> {
    fn get(&self, key: &ObjectKey) -> Option<Known> {
        Store::get(self, key).map(|cached| known(&cached))
    }
    fn owned_by(&self, uid: &str) -> Vec<Known> {
        Store::owned_by(self, uid).iter().map(|cached| known(cached)).collect()
    }
}

/// What is known of a cached object.
pub fn known<T: Owned>(cached: &crate::client::Cached<T>) -> Known {
    Known {
        key: cached.key.clone(),
        uid: cached.uid.clone(),
        revision: cached.revision,
        owners: cached.object.owners(),
        terminating: cached.object.terminating(),
        foreground: cached.object.terminating() && cached.object.has_finalizer(FOREGROUND),
        orphan: cached.object.terminating() && cached.object.has_finalizer(ORPHAN),
    }
}

struct Entry {
    kind: &'static Kind,
    members: Arc<dyn Members>,
    queue: RateLimitedQueue<ObjectKey>,
}

/// All kinds that may own or be owned.
#[derive(Clone)]
pub struct Graph {
    entries: Arc<Vec<Entry>>,
    client: Client,
}

/// Makes a graph.
pub struct GraphBuilder {
    entries: Vec<Entry>,
}

impl GraphBuilder {
    /// Adds a kind; keys of its objects that need a look go to this queue.
    pub fn add(&mut self, kind: &'static Kind, members: Arc<dyn Members>, queue: RateLimitedQueue<ObjectKey>) {
        self.entries.push(Entry { kind, members, queue });
    }

    /// The graph.
    pub fn build(self, client: &Client) -> Graph {
        Graph { entries: Arc::new(self.entries), client: client.clone() }
    }
}

impl Graph {
    /// A graph without kinds, to be filled.
    pub fn builder() -> GraphBuilder {
        GraphBuilder { entries: Vec::new() }
    }

    fn entry(&self, kind: &Kind) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind)
    }

    /// An object as the caches have it.
    pub fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Known> {
        self.entry(kind)?.members.get(key)
    }

    /// What an owner owns, kind by kind.
    pub fn dependents(&self, uid: &str) -> Vec<(&'static Kind, Known)> {
        let of = |entry: &Entry| {
            let kind = entry.kind;
            entry.members.owned_by(uid).into_iter().map(move |known| (kind, known)).collect::<Vec<_>>()
        };
        self.entries.iter().flat_map(of).collect()
    }

    /// Has an object looked at.
    pub fn enqueue(&self, kind: &Kind, key: &ObjectKey) {
        if let Some(entry) = self.entry(kind) {
            entry.queue.add(key.clone());
        }
    }

    /// How an owner stands by the caches alone; `None`: they do not show it, and the server must be asked.
    pub fn cached_state(&self, of: &ObjectKey, owner: &OwnerReference) -> Option<OwnerState> {
        let Some((kind, key)) = locate(of, owner) else { return Some(OwnerState::Unresolvable) };
        self.get(kind, &key).filter(|known| known.uid == owner.uid).map(|known| state(&known, owner))
    }

    /// How an owner stands; asks the server if the caches do not show it.
    pub async fn state(&self, of: &ObjectKey, owner: &OwnerReference) -> Result<OwnerState, Error> {
        if let Some(state) = self.cached_state(of, owner) {
            return Ok(state);
        }
        let Some((kind, key)) = locate(of, owner) else { return Ok(OwnerState::Unresolvable) };
        let api = Api::<listwatch_proto::resource::Object>::of_kind(&self.client, kind);
        let live = api.get_opt(&key).await?.map(|cached| known(&cached));
        Ok(live.filter(|live| live.uid == owner.uid).map_or(OwnerState::Dangling, |live| state(&live, owner)))
    }

    /// An object has appeared or changed: whether it needs a look is decided by the caches.
    pub fn changed(&self, kind: &'static Kind, object: &Known) {
        let healthy = |owner: &OwnerReference| self.cached_state(&object.key, owner) == Some(OwnerState::Solid);
        if object.foreground || object.orphan || !object.owners.iter().all(healthy) {
            self.enqueue(kind, &object.key);
        }
        if object.foreground {
            for (kind, dependent) in self.dependents(&object.uid) {
                self.enqueue(kind, &dependent.key);
            }
        }
    }

    /// An object is gone: what it owned, and owners that wait for it, need a look.
    pub fn removed(&self, object: &Known) {
        for (kind, dependent) in self.dependents(&object.uid) {
            self.enqueue(kind, &dependent.key);
        }
        for owner in &object.owners {
            let Some((kind, key)) = locate(&object.key, owner) else { continue };
            if self.get(kind, &key).is_some_and(|known| known.foreground) {
                self.enqueue(kind, &key);
            }
        }
    }
}

/// The kind and key that a reference means; `None`: it cannot be resolved.
fn locate(of: &ObjectKey, owner: &OwnerReference) -> Option<(&'static Kind, ObjectKey)> {
    let kind = Kind::by_api_version(&owner.api_version, &owner.kind)?;
    let namespace = if kind.namespaced { of.namespace.as_str() } else { "" };
    if kind.namespaced && namespace.is_empty() {
        return None;
    }
    Some((kind, ObjectKey::new(namespace, &*owner.name)))
}

fn state(known: &Known, owner: &OwnerReference) -> OwnerState {
    if known.foreground && owner.block_owner_deletion == Some(true) { OwnerState::Waiting } else { OwnerState::Solid }
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
        let found = |of, api_version, kind| locate(of, &owner(api_version, kind)).map(|(_, key)| key.to_string());
        assert_eq!(found(&pod, "apps/v1", "ReplicaSet").as_deref(), Some("shop/o"));
        assert_eq!(found(&pod, "v1", "Node").as_deref(), Some("o"));
        assert_eq!(found(&node, "apps/v1", "ReplicaSet"), None);
        assert_eq!(found(&pod, "example.com/v1", "Thing"), None);
    }
}
