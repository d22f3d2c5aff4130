//! A checkpoint: what changed since the last one, each key once with its latest record.
//!
//! The changes go out in batches; only the last one moves `applied`. Cut short, a checkpoint leaves records newer than
//! `applied` says, and the log played over them again changes nothing: an older record never replaces a newer one.
//!
//! A record that is overwritten and stands at or below the retained floor moves to `base/` (never over one already
//! there), since reads at the floor still need it and the log may not hold it any more.

use super::StateError;
use super::meta::{Applied, Compactions};
use super::record::{LeaseRecord, RecordKind, RecordRef};
use super::schema::{BASE, BATCH_BYTES_MAX, CURRENT, record_key};
use super::writer::{Present, Session};

/// A checkpoint under way. Give it every changed key once, then [`Checkpoint::finish`].
pub struct Checkpoint<'a> {
    session: Session<'a>,
    records: u64,
    unchanged: u64,
}

/// What a checkpoint did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Records written to `cur/`.
    pub records: u64,
    /// Records that were there already, the same or newer.
    pub unchanged: u64,
    /// Batches, each synced.
    pub batches: u64,
    /// Payload of the batches in bytes.
    pub bytes: u64,
}

impl<'a> Checkpoint<'a> {
    pub(super) fn new(session: Session<'a>) -> Self {
        Checkpoint { session, records: 0, unchanged: 0 }
    }

    /// Takes the latest record of a key, or its tombstone. May write and sync a batch. Errors: any, see
    /// [`StateError`]; after one other than [`StateError::TooLarge`] the writer is done.
    pub fn put(&mut self, record: RecordRef<'_>) -> Result<(), StateError> {
        let present = self.session.present(&record_key(CURRENT, record.key), record.key)?;
        if present.as_ref().is_some_and(|present| present.at >= record.at()) {
            self.unchanged += 1;
            return Ok(());
        }
        if let Some(present) = &present {
            self.keep_at_floor(record, present)?;
        }
        self.session.replace(CURRENT, record, present.as_ref())?;
        self.records += 1;
        Ok(())
    }

    /// Copies the record that `record` overwrites to `base/` if the floor needs it: in the same batch when both fit,
    /// else in an earlier one, which does no harm.
    fn keep_at_floor(&mut self, record: RecordRef<'_>, present: &Present) -> Result<(), StateError> {
        let retained = self.session.meta.floor.retained;
        // A deletion needs no base: without one the key reads as absent at the floor.
        if present.at.0 > retained || present.kind == RecordKind::Tombstone {
            return Ok(());
        }
        if self.session.present(&record_key(BASE, record.key), record.key)?.is_some() {
            return Ok(());
        }
        let Some(old) = self.session.read(&record_key(CURRENT, record.key), record.key)? else { return Ok(()) };
        let both = Session::size(old.as_ref()) + Session::size(record);
        if both <= BATCH_BYTES_MAX {
            self.session.reserve(both)?;
        }
        self.session.replace(BASE, old.as_ref(), None)
    }

    /// Takes a lease as it is to be found after a restart.
    pub fn put_lease(&mut self, record: LeaseRecord) -> Result<(), StateError> {
        self.session.lease(record.id, Some(record))
    }

    /// Takes a lease that is gone.
    pub fn remove_lease(&mut self, id: i64) -> Result<(), StateError> {
        self.session.lease(id, None)
    }

    /// Batches written so far, for a caller that wants to rest between them.
    pub fn batches(&self) -> u64 {
        self.session.batches
    }

    /// Writes the last batch, which moves `applied`, and notes it beside the tree. Everything up to `applied.seq` must
    /// have been given. Durable when it returns.
    pub fn finish(mut self, applied: Applied, compactions: Compactions) -> Result<CheckpointReport, StateError> {
        if applied.seq < self.session.meta.applied.seq {
            let reason = format!("applied would go back from {} to {}", self.session.meta.applied.seq, applied.seq);
            return Err(StateError::Failed { reason });
        }
        applied.write(&mut self.session.batch);
        compactions.write(&mut self.session.batch);
        self.session.meta.applied = applied;
        self.session.meta.compactions = compactions;
        self.session.cut()?;
        let report = CheckpointReport {
            records: self.records,
            unchanged: self.unchanged,
            batches: self.session.batches,
            bytes: self.session.bytes,
        };
        self.session.into_writer().mark()?;
        Ok(report)
    }
}
