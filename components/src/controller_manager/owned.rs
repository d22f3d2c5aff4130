//! Objects that own and are owned, whatever they are cached as.
//!
//! Invariant: this knows caches and kinds, and no controller; the collector and the caches both stand on it.

use std::pin::Pin;

use futures::FutureExt;
use listwatch_proto::resource::{Kind, Object, ObjectKey, OwnerReference};

use super::bare::Bare;
use super::node::{Lease, Node};
use super::pod::Pod;
use crate::client::{Cached, Client};
use crate::runtime::{ReflectorConfig, Stopped, Store, catch_up};

/// The finalizer of an owner that goes after what it owns.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose things stay, ownerless.
pub const ORPHAN: &str = "orphan";

/// An object whose owners matter.
pub trait Owned: Send + Sync + 'static {
    /// `metadata.ownerReferences`.
    fn owners(&self) -> Vec<OwnerReference>;
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Vec<String>;
    /// Whether it has a deletion timestamp.
    fn terminating(&self) -> bool;
}

macro_rules! owned {
    ($($type:ty),*) => {$(
        impl Owned for $type {
            fn owners(&self) -> Vec<OwnerReference> {
                self.owners.clone()
            }
            fn finalizers(&self) -> Vec<String> {
                self.finalizers.clone()
            }
            fn terminating(&self) -> bool {
                self.terminating
            }
        }
    )*};
}

owned!(Pod, Node, Lease, Bare);

impl Owned for Object {
    fn owners(&self) -> Vec<OwnerReference> {
        self.owner_references()
    }
    fn finalizers(&self) -> Vec<String> {
        Object::finalizers(self).map(str::to_owned).collect()
    }
    fn terminating(&self) -> bool {
        self.is_terminating()
    }
}

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
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl Known {
    /// Whether it goes after what it owns, and is going.
    pub fn goes_last(&self) -> bool {
        self.terminating && self.has_finalizer(FOREGROUND)
    }

    /// Whether it is going and what it owns stays.
    pub fn frees(&self) -> bool {
        self.terminating && self.has_finalizer(ORPHAN)
    }

    /// Whether it has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held == finalizer)
    }
}

type CaughtUp = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>>;

/// The objects of one kind, whatever they are cached as.
pub trait Members: Send + Sync {
    /// One object.
    fn get(&self, key: &ObjectKey) -> Option<Known>;
    /// Those that name this uid as an owner.
    fn owned_by(&self, uid: &str) -> Vec<Known>;
    /// Those that name an owner of this kind, in any of its versions; looks at all of them.
    fn owned_by_kind(&self, kind: &Kind) -> Vec<ObjectKey>;
    /// Whether there is one of this uid; looks at all of them.
    fn has_uid(&self, uid: &str) -> bool;
    /// Waits until everything up to a revision is shown.
    fn catch_up(&self, client: &Client, kind: &'static Kind, revision: i64) -> CaughtUp;
}

impl<T: Owned> Members for Store<T> {
    fn get(&self, key: &ObjectKey) -> Option<Known> {
        Store::get(self, key).map(|cached| known(&cached))
    }

    fn owned_by(&self, uid: &str) -> Vec<Known> {
        Store::owned_by(self, uid).iter().map(|cached| known(cached)).collect()
    }

    fn owned_by_kind(&self, kind: &Kind) -> Vec<ObjectKey> {
        let names_it = |owner: &OwnerReference| {
            owner.kind == kind.kind && owner.api_version.split_once('/').map_or("", |(group, _)| group) == kind.group
        };
        let all = self.list();
        all.iter()
            .filter(|cached| cached.object.owners().iter().any(names_it))
            .map(|cached| cached.key.clone())
            .collect()
    }

    fn has_uid(&self, uid: &str) -> bool {
        self.list().iter().any(|cached| cached.uid == uid)
    }

    fn catch_up(&self, client: &Client, kind: &'static Kind, revision: i64) -> CaughtUp {
        let (client, store) = (client.clone(), self.clone());
        async move { catch_up(&client, kind, &ReflectorConfig::default(), &store, revision).await }.boxed()
    }
}

/// What is known of a cached object.
pub fn known<T: Owned>(cached: &Cached<T>) -> Known {
    Known {
        key: cached.key.clone(),
        uid: cached.uid.clone(),
        revision: cached.revision,
        owners: cached.object.owners(),
        finalizers: cached.object.finalizers(),
        terminating: cached.object.terminating(),
    }
}
