//! The state: the latest record of every key, kept by background checkpoints behind the log.
//!
//! The log is the truth and the history; the state only spares a start from reading all of it. One ordered tree holds
//! `cur/` (each key's latest record), `base/` (a key's record at the retained floor while a newer one exists), `lease/`
//! and `meta/`. [`State`] is the seam under it: an ordered byte map with atomic batches and a named durability step,
//! implemented by sled and by an in-memory twin that drops what was not synced. All schema knowledge stands above the
//! seam, so both implementations hold the same bytes.
//!
//! How the engine uses it:
//!
//! 1. [`OpenState::open`], then [`open_store`] gives a [`StateReader`] (shared) and the one [`StateWriter`];
//! 2. at start: [`StateReader::scan_current`], [`StateReader::scan_base`], [`StateReader::leases`], then the log from
//!    [`Applied::seq`] on, and a floor advance again if [`Floor::settled`] is behind [`Floor::retained`];
//! 3. the checkpointer thread: [`StateWriter::checkpoint`], [`Checkpoint::put`] once for each changed key,
//!    [`Checkpoint::finish`];
//! 4. after a compaction has aged: [`StateWriter::advance_floor`].
//!
//! Invariants: every batch carries the totals of the tree as they are after it; only the last batch of a checkpoint
//! moves `applied`; an older record never replaces a newer one.

mod checkpoint;
mod error;
mod floor;
mod memory;
mod meta;
mod reader;
mod record;
mod schema;
mod seam;
mod set_hash;
mod sled;
mod wire;
mod writer;

#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, CheckpointReport};
pub use error::StateError;
pub use floor::FloorAdvance;
pub use memory::MemoryState;
pub use meta::{Applied, Compactions, Floor, Identity, PendingFloor, StateMeta, Totals};
pub use reader::StateReader;
pub use record::{LeaseRecord, RecordKind, RecordRef, StateRecord};
pub use schema::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, CHUNK_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use seam::{Mark, OpenState, State, StateBatch, Visit};
pub use set_hash::SetHash;
pub use sled::{SledOptions, SledState};
pub use writer::{StateWriter, open_store};
