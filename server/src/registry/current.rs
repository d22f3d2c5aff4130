//! What the store holds of an object now, and how a changed object is written back.

use bytes::Bytes;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Status};
use tracing::warn;

use super::custom::{served, stored};
use super::{Commit, Guard, Registry, RequestContext, StoreError, StoredObject, Write};
use crate::storage::KeyValue;

/// How often a write is judged anew after somebody else was faster. Each round means that another write went through,
/// so this is only reached under a storm on one object: of eight writers that are equally fast, one in 10^15 gives up.
pub(super) const ROUNDS_MAX: usize = 256;

/// A stored object, decoded.
#[derive(Clone, Debug)]
pub(super) struct Current {
    /// Where it is stored.
    pub(super) key: Bytes,
    /// The revision of its last write.
    pub(super) revision: i64,
    /// As stored, without resourceVersion.
    pub(super) object: Object,
    /// The bytes of it.
    pub(super) raw: Bytes,
    /// Whether another form of it is stored: a custom resource of another version, or from before a change of its schema.
    pub(super) is_converted: bool,
}

/// What is written in the same commit beside an object, and what must hold for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// What must hold.
    pub(super) guards: Vec<Guard>,
    /// What is written.
    pub(super) writes: Vec<Write>,
}

impl Beside {
    /// Adds what stands beside the same object for another reason.
    pub(super) fn extend(&mut self, other: Beside) {
        self.guards.extend(other.guards);
        self.writes.extend(other.writes);
    }
}

impl Current {
    /// Decodes a stored value.
    pub(super) fn of(kv: KeyValue) -> Result<Self, Status> {
        let mut object = Object::from_slice(&kv.value).map_err(|error| damaged(&kv.key, &error.to_string()))?;
        object.remove(&["metadata", "resourceVersion"]);
        Ok(Self { key: kv.key, revision: kv.mod_revision, object, raw: kv.value, is_converted: false })
    }

    /// Decodes a stored value in the form in which its kind is served.
    pub(super) fn served(kind: &'static Kind, mut kv: KeyValue) -> Result<Self, Status> {
        let as_stored = kv.value.clone();
        kv.value = served(kind, kv.value);
        let is_converted = kv.value != as_stored;
        Ok(Current { is_converted, ..Current::of(kv)? })
    }

    /// The guard that it has not changed.
    pub(super) fn guard(&self) -> Guard {
        Guard { key: self.key.clone(), mod_revision: self.revision }
    }

    /// As it is served.
    pub(super) fn stored(&self, kind: &'static Kind) -> StoredObject {
        StoredObject::new(kind, self.raw.clone(), self.revision)
    }
}

fn damaged(key: &Bytes, why: &str) -> Status {
    warn!(key = %key.escape_ascii(), why, "a stored value is no object");
    Status::internal(format!(
        "the value stored under {} is no object ({why}); it was not written by this server",
        quote(&String::from_utf8_lossy(key))
    ))
}

impl Registry {
    /// What the store holds of an object.
    pub(super) async fn current(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Current>, Status> {
        let key = kind.key(namespace, name);
        let (kv, _) = self.shared.store.get(key.as_bytes()).await?;
        kv.map(|kv| Current::served(kind, kv)).transpose()
    }

    /// Writes a changed object back, if nobody else was faster. `None` = somebody was.
    pub(super) async fn write_back(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        current: &Current,
        object: Object,
    ) -> Result<Option<StoredObject>, Status> {
        self.write_back_beside(context, kind, current, object, Beside::default()).await
    }

    /// The same, with more in the same commit. `None` = one of the guards did not hold.
    pub(super) async fn write_back_beside(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        current: &Current,
        object: Object,
        mut beside: Beside,
    ) -> Result<Option<StoredObject>, Status> {
        let raw = stored(kind, &object);
        beside.guards.push(current.guard());
        beside.extend(self.exchange(kind, Some(&current.object), Some(&object)));
        let commit = self.put(context, kind, beside, &current.key, &raw).await?;
        Ok(match commit {
            Commit::Done(revision) => Some(StoredObject::read(kind, raw, revision)),
            Commit::Refused => None,
        })
    }

    /// Sets a key, with what stands beside it, if the guards hold. Events are hung on a lease.
    pub(super) async fn put(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        beside: Beside,
        key: &Bytes,
        value: &Bytes,
    ) -> Result<Commit, Status> {
        let store = &self.shared.store;
        let Beside { guards, writes } = beside;
        let write = |lease| {
            let mut all = vec![Write::Put { key: key.clone(), value: value.clone(), lease }];
            all.extend(writes.iter().cloned());
            all
        };
        let lease = self.lease_for(kind).await?;
        match store.commit(guards.clone(), write(lease), &context.origin()).await {
            // Somebody has revoked the shared lease: the next one takes its place.
            Err(StoreError::LeaseEnded) => {
                self.shared.leases.ended();
                let lease = self.lease_for(kind).await?;
                Ok(store.commit(guards, write(lease), &context.origin()).await?)
            }
            other => Ok(other?),
        }
    }

    /// Removes an object with what it holds, if nobody else was faster. The answer is the revision of the removal.
    pub(super) async fn remove(
        &self,
        context: &RequestContext,
        kind: &'static Kind,
        current: &Current,
    ) -> Result<Option<i64>, Status> {
        let mut writes = vec![Write::Delete { key: current.key.clone() }];
        writes.extend(self.exchange(kind, Some(&current.object), None).writes);
        let commit = self.shared.store.commit(vec![current.guard()], writes, &context.origin()).await?;
        Ok(match commit {
            Commit::Done(revision) => Some(revision),
            Commit::Refused => None,
        })
    }
}
