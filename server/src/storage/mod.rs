//! The storage engine: revisions, transactions, watches, leases and compaction on a log that is synced before it
//! answers.
//!
//! The log is the truth and the history; the state beside it is what the log adds up to. This module knows no
//! protocol: the doors (etcd, registry) translate to and from the types named here. Read in this order: what a
//! revision and a record are, what can be asked, then the [`Engine`] that answers.

pub mod error;
pub mod op;
pub mod origin;
pub mod record;
pub mod revision;

pub mod engine;

pub mod commit;
pub mod mvcc;
pub mod watch;

pub mod housekeeping;

pub mod disk;
pub mod lease;
pub mod log;
pub mod state;

mod replay;

#[cfg(test)]
mod tests;

pub use disk::{Disk, RealDisk, SimDisk};
pub use engine::{
    Durability, Engine, EngineOptions, EngineStatus, HashKv, LogSizes, Seams, check_folder, check_no_cluster,
};
pub use error::Error;
pub use housekeeping::CheckpointOptions;
pub use lease::LeaseInfo;
pub use op::{
    Compare, CompareResult, CompareTarget, DeleteOp, DeleteResult, KeyRange, Op, OpResult, PutOp, PutResult, RangeEnd,
    RangeOp, RangeResult, SortOrder, SortTarget, Txn, TxnResult,
};
pub use origin::Origin;
pub use record::{Event, EventKind, KeyValue};
pub use revision::Revision;
pub use watch::{Floor, WatchError, WatchMessage, WatchOptions, Watcher, WatcherInfo, WatcherLabel};
