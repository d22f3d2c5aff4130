//! What the collector sees and may do.
//!
//! Invariants: what the caches show may be old in any way; what [`World::live`] says is so; every write is refused if the
//! object is another one or has changed since it was read.

use async_trait::async_trait;
use listwatch_proto::resource::{Kind, ObjectKey, OwnerReference};

use super::absent::Absent;
use super::{FOREGROUND, ORPHAN};
use crate::client::{Error, Propagation};
use crate::runtime::Stopped;

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

/// What the collector sees and may do.
#[async_trait]
pub trait World: Send + Sync {
    /// An object, as the caches show it.
    fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Known>;
    /// Those that name this uid as an owner, as the caches show them.
    fn dependents(&self, uid: &str) -> Vec<(&'static Kind, Known)>;
    /// Whether the caches show an object of this kind and uid, wherever.
    fn exists_somewhere(&self, kind: &Kind, uid: &str) -> bool;
    /// Has an object looked at.
    fn enqueue(&self, kind: &Kind, key: &ObjectKey);
    /// Owners that the server has said do not exist.
    fn absent(&self) -> &Absent;
    /// Waits until the caches show everything up to a revision.
    async fn catch_up(&self, revision: i64) -> Result<(), Stopped>;
    /// An object, as it is.
    async fn live(&self, kind: &'static Kind, key: &ObjectKey) -> Result<Option<Known>, Error>;
    /// Sets the owners of an object. It is no error if it is gone.
    async fn set_owners(&self, kind: &'static Kind, of: &Known, owners: &[OwnerReference]) -> Result<(), Error>;
    /// Sets the finalizers of an object. It is no error if it is gone.
    async fn set_finalizers(&self, kind: &'static Kind, of: &Known, finalizers: &[String]) -> Result<(), Error>;
    /// Deletes an object as it was read. It is no error if it is gone.
    async fn delete(&self, kind: &'static Kind, of: &Known, propagation: Propagation) -> Result<(), Error>;
    /// Tells people that an owner cannot be where the reference says.
    fn tell_misplaced(&self, kind: &'static Kind, of: &Known, owner: &OwnerReference);
}
