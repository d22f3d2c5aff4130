//! How an engine is opened, what it stands on, and what it tells of itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::storage::housekeeping::CheckpointOptions;
use crate::storage::log::LogOptions;
use crate::storage::state::{OpenState, SledOptions};
use crate::storage::{Disk, RealDisk};

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
    /// Sizes of the log's files.
    pub log: LogSizes,
    /// When the state follows the log.
    pub checkpoint: CheckpointOptions,
    /// Whether housekeeping (segments, checkpoints, ends of leases) has threads. Without, the owner calls
    /// [`Engine::checkpoint`] and [`Engine::end_due_leases`], and all work is done in the same order each time.
    pub background: bool,
}

/// Sizes of the log's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSizes {
    /// Bytes of the first segment of a new store.
    pub first_segment_bytes: u64,
    /// Bytes of a usual segment.
    pub segment_bytes: u64,
}

impl Default for LogSizes {
    fn default() -> Self {
        let usual = LogOptions::new("", [0; 16]);
        Self { first_segment_bytes: usual.first_segment_bytes, segment_bytes: usual.segment_bytes }
    }
}

impl LogSizes {
    pub(super) fn apply(&self, options: &mut LogOptions) {
        options.first_segment_bytes = self.first_segment_bytes;
        options.segment_bytes = self.segment_bytes;
    }
}

impl Seams {
    /// The real ones: the operating system's files and clocks, sled in the store's folder.
    pub fn real(dir: &Path) -> Self {
        Self {
            disk: RealDisk::shared(),
            state: Arc::new(SledOptions::new(dir.join("state"))),
            clock: SystemClock::shared(),
        }
    }
}

impl EngineOptions {
    /// Sync durability and the default budgets in the given folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            durability: Durability::Sync,
            value_cache_bytes: 64 << 20,
            cluster_id: 0,
            log: LogSizes::default(),
            checkpoint: CheckpointOptions::default(),
            background: true,
        }
    }
}

/// What the engine stands on; each has a real form and a twin for tests.
#[derive(Clone, Debug)]
pub struct Seams {
    /// Log and side files.
    pub disk: Arc<dyn Disk>,
    /// The state beside the log.
    pub state: Arc<dyn OpenState>,
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
    /// The last write found no room on the disk, and there still is none.
    pub no_room: bool,
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
