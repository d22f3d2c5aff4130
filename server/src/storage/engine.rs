//! The one door to the store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Clock;
use crate::storage::watch::{WatchOptions, Watcher, WatcherInfo};
use crate::storage::{Disk, Error, Origin, RangeOp, RangeResult, Txn, TxnResult};

/// When a write counts as safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced to the disk before the answer.
    Sync,
    /// Written before the answer, synced at this interval: a power cut may lose that much, a killed process nothing.
    Buffered(Duration),
    /// Never written: gone with the process.
    Memory,
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The folder of the store; made if it is not there. Not used with [`Durability::Memory`].
    pub dir: PathBuf,
    /// When a write counts as safe.
    pub durability: Durability,
    /// Bytes of latest values kept in memory; what is beyond is read from the disk.
    pub value_cache_bytes: usize,
    /// The cluster's number, used when the store is made; 0 = draw one.
    pub cluster_id: u64,
}

impl EngineOptions {
    /// Sync durability and the default budgets in the given folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), durability: Durability::Sync, value_cache_bytes: 64 << 20, cluster_id: 0 }
    }
}

/// What the engine stands on; each has a real form and a twin for tests.
#[derive(Clone, Debug)]
pub struct Seams {
    /// Log and side files.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// What `status` tells.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    /// Bytes on disk.
    pub db_size: i64,
    /// Bytes of live keys and values, about.
    pub db_size_in_use: i64,
    /// Where the store stands.
    pub revision: i64,
    /// The promised floor.
    pub compacted: i64,
    /// The physical floor.
    pub retained: i64,
    /// Grows by one at each start.
    pub raft_term: u64,
    /// The log's sequence number.
    pub raft_index: u64,
    /// Drawn when the store was made.
    pub cluster_id: u64,
    /// Drawn when the store was made.
    pub member_id: u64,
    /// How many keys are alive.
    pub keys: i64,
    /// How many leases are alive.
    pub leases: usize,
    /// How many watchers there are.
    pub watchers: usize,
    /// When a write counts as safe.
    pub durability: Durability,
    /// The median time of a sync as measured at open; zero without a disk.
    pub sync_cost: Duration,
    /// Why writes are refused, if they are.
    pub poisoned: Option<Arc<str>>,
}

/// The answer to `hash_kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKv {
    /// The hash over all revisions of all keys up to `hash_revision`.
    pub hash: u32,
    /// The promised floor.
    pub compact_revision: i64,
    /// The revision hashed at.
    pub hash_revision: i64,
}

/// A lease as `lease_time_to_live` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Its id.
    pub id: i64,
    /// Whole seconds left.
    pub ttl: i64,
    /// Seconds it was granted.
    pub granted_ttl: i64,
    /// The keys that hang on it, sorted; empty unless asked for.
    pub keys: Vec<Bytes>,
}

/// The store. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Engine {}

#[expect(unused_variables, reason = "the bodies follow")]
impl Engine {
    /// Opens the store, making it if it is not there.
    pub fn open(options: EngineOptions, seams: Seams) -> Result<Engine, Error> {
        unimplemented!()
    }

    /// Where the store stands.
    pub fn revision(&self) -> i64 {
        unimplemented!()
    }

    /// The floor promised to etcd's clients; 0 before the first compaction.
    pub fn compacted(&self) -> i64 {
        unimplemented!()
    }

    /// The oldest revision that can physically be read.
    pub fn retained(&self) -> i64 {
        unimplemented!()
    }

    /// The history's id: another one means that revisions cannot be compared.
    pub fn incarnation(&self) -> &str {
        unimplemented!()
    }

    /// Reads keys, down to the promised floor.
    pub fn range(&self, op: &RangeOp) -> Result<RangeResult, Error> {
        unimplemented!()
    }

    /// Reads keys, down to the physical floor.
    pub fn range_retained(&self, op: &RangeOp) -> Result<RangeResult, Error> {
        unimplemented!()
    }

    /// Runs a transaction; it is durable when this returns. Blocks the thread: call it through `block_in_place`, or use
    /// [`Engine::submit`].
    pub fn commit(&self, txn: Txn, origin: &Origin) -> Result<TxnResult, Error> {
        unimplemented!()
    }

    /// The same for tasks: whoever finds nobody leading a group leads one in place, the others wait without holding a
    /// thread. Dropping the future does not undo the write. Needs tokio's multi-thread runtime.
    pub async fn submit(&self, txn: Txn, origin: &Origin) -> Result<TxnResult, Error> {
        unimplemented!()
    }

    /// Gives up history below `revision`; durable when this returns. With `physical`, waits until what can go is gone.
    pub fn compact(&self, revision: i64, physical: bool) -> Result<i64, Error> {
        unimplemented!()
    }

    /// Moves the physical floor to `revision` now.
    pub fn expire(&self, revision: i64) -> Result<(), Error> {
        unimplemented!()
    }

    /// Grants a lease; id 0 = draw one. Answers its id and the time to live in seconds, raised to the least allowed.
    pub fn lease_grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Error> {
        unimplemented!()
    }

    /// Ends a lease and deletes its keys in one revision.
    pub fn lease_revoke(&self, id: i64) -> Result<i64, Error> {
        unimplemented!()
    }

    /// Renews a lease to its granted time; `None` = no such lease.
    pub fn lease_keep_alive(&self, id: i64) -> Result<Option<i64>, Error> {
        unimplemented!()
    }

    /// What is left of a lease; `None` = no such lease.
    pub fn lease_time_to_live(&self, id: i64, keys: bool) -> Option<LeaseInfo> {
        unimplemented!()
    }

    /// All leases, the next to end first.
    pub fn leases(&self) -> Vec<i64> {
        unimplemented!()
    }

    /// Begins a watch.
    pub fn watch(&self, options: WatchOptions) -> Result<Watcher, Error> {
        unimplemented!()
    }

    /// All watches.
    pub fn watchers(&self) -> Vec<WatcherInfo> {
        unimplemented!()
    }

    /// Sizes and numbers.
    pub fn status(&self) -> EngineStatus {
        unimplemented!()
    }

    /// A hash over the whole store.
    pub fn hash(&self) -> u32 {
        unimplemented!()
    }

    /// A hash over all revisions up to one; 0 = now.
    pub fn hash_kv(&self, revision: i64) -> Result<HashKv, Error> {
        unimplemented!()
    }

    /// Ends all watches and background work, refuses further writes, and lets go of the lock.
    pub fn close(&self) {
        unimplemented!()
    }
}
