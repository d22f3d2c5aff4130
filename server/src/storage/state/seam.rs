//! The seam: an ordered map of bytes with atomic batches and a named durability step.
//!
//! Durability: what [`State::apply`] wrote is visible at once and durable only when a later [`State::sync`] returned.
//! A crash keeps some prefix of the batches applied since then, each whole or absent. All calls block.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;

use super::StateError;

/// Changes that become visible together or not at all.
#[derive(Debug, Default, Clone)]
pub struct StateBatch {
    /// Tree key and new value; `None` removes. Later entries win over earlier ones with the same key.
    pub changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Sum of the lengths of keys and values.
    pub bytes: usize,
}

impl StateBatch {
    /// Writes `value` under `key`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        self.changes.push((key, Some(value)));
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: Vec<u8>) {
        self.bytes += key.len();
        self.changes.push((key, None));
    }

    /// True if the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// What stands beside the tree, to be held against tree and log at the next start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Everything up to this log sequence is durable in the tree.
    pub applied: u64,
    /// The log's first segment was durable: from then on there is always one.
    pub log_begun: bool,
}

/// What a scan calls for each entry; `Break` ends it early.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StateError> + 'a;

/// An ordered byte map on disk. One thread writes; any number read.
pub trait State: Send + Sync + fmt::Debug {
    /// The value under `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StateError>;

    /// Visits every entry whose key begins with `prefix`, in key order. Not a snapshot: a batch applied meanwhile may
    /// be seen in part.
    fn scan(&self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StateError>;

    /// Applies a batch atomically. Durability: none before [`State::sync`]. An error is final.
    fn apply(&self, batch: StateBatch) -> Result<(), StateError>;

    /// Returns once everything applied before is durable. An error is final.
    fn sync(&self) -> Result<(), StateError>;

    /// Notes outside the tree how far tree and log were, so that an emptied or rolled-back one is told from a new one.
    /// Durable when it returns.
    fn mark(&self, mark: Mark) -> Result<(), StateError>;

    /// The mark last given to [`State::mark`]; `None` if it never was called.
    fn marked(&self) -> Result<Option<Mark>, StateError>;

    /// Bytes taken on disk.
    fn size_on_disk(&self) -> Result<u64, StateError>;
}

/// Opens a [`State`]; held by whoever composes the engine, called by the engine once it owns the data directory.
pub trait OpenState: Send + Sync + fmt::Debug {
    /// Opens or creates the state. Errors: [`StateError::Locked`], [`StateError::Damaged`], [`StateError::Io`].
    fn open(&self) -> Result<Arc<dyn State>, StateError>;
}
