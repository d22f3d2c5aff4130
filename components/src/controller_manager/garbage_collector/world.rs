//! What the collector sees and may do.
//!
//! Invariants: what the caches show may be old in any way; what [`World::live`] says is so; every write is refused if the
//! object is another one or has changed since it was read.

use async_trait::async_trait;
use listwatch_proto::resource::{Kind, ObjectKey, OwnerReference};

use super::absent::Absent;
use crate::client::{Error, Propagation};
use crate::controller_manager::owned::Known;
use crate::runtime::Stopped;

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
