//! A floor advance: puts `base/` and the tombstones right when the retained floor moves from `settled` to `retained`.
//!
//! The new floor is announced first, durably; then the keys with a revision in [settled, retained] are given one by
//! one; the last batch moves `settled`. Cut short, it is repeated at the next start from the same `settled`; repeating a
//! step changes nothing. The log is needed down to `settled`.

use super::StateError;
use super::record::{RecordKind, RecordRef};
use super::schema::{BASE, CURRENT, record_key};
use super::writer::{Session, StateWriter};

/// A floor advance under way. Give it each key with a revision in [settled, retained] once, by
/// [`FloorAdvance::set_base`] or [`FloorAdvance::drop_base`]; then [`FloorAdvance::finish`].
pub struct FloorAdvance<'a> {
    session: Session<'a>,
}

impl<'a> FloorAdvance<'a> {
    pub(super) fn begin(writer: &'a mut StateWriter, retained: i64) -> Result<Self, StateError> {
        let mut session = Session::begin(writer)?;
        let (floor, applied) = (session.meta.floor, session.meta.applied);
        if retained < floor.retained {
            let reason = format!("the retained floor would go back from {} to {retained}", floor.retained);
            return Err(StateError::Failed { reason });
        }
        if retained > applied.revision {
            let reason = format!("the retained floor {retained} is beyond the applied revision {}", applied.revision);
            return Err(StateError::Failed { reason });
        }
        if retained > floor.retained {
            session.meta.floor.retained = retained;
            session.meta.floor.write(&mut session.batch);
            session.cut()?;
        }
        Ok(FloorAdvance { session })
    }

    /// The floor from which the keys are to be given: those with a revision in [this, retained].
    pub fn settled(&self) -> i64 {
        self.session.meta.floor.settled
    }

    /// The key has a revision after the floor: `record`, its newest at or before the floor, becomes its base. If that
    /// is a tombstone, use [`FloorAdvance::drop_base`].
    pub fn set_base(&mut self, record: RecordRef<'_>) -> Result<(), StateError> {
        if record.kind == RecordKind::Tombstone {
            return self.drop_base(record.key);
        }
        let present = self.session.present(&record_key(BASE, record.key), record.key)?;
        if present.as_ref().is_some_and(|present| present.at >= record.at()) {
            return Ok(());
        }
        self.session.replace(BASE, record, present.as_ref())
    }

    /// The key has no revision after the floor (or none worth a base at it): its base goes, and so does a tombstone in
    /// `cur/` below the floor. The tombstone at exactly the floor stays: a watch from the floor must see it.
    pub fn drop_base(&mut self, key: &[u8]) -> Result<(), StateError> {
        if let Some(base) = self.session.present(&record_key(BASE, key), key)? {
            self.session.remove(BASE, key, &base)?;
        }
        let retained = self.session.meta.floor.retained;
        match self.session.present(&record_key(CURRENT, key), key)? {
            Some(current) if current.kind == RecordKind::Tombstone && current.at.0 < retained => {
                self.session.remove(CURRENT, key, &current)
            }
            _ => Ok(()),
        }
    }

    /// Batches written so far, for a caller that wants to rest between them.
    pub fn batches(&self) -> u64 {
        self.session.batches
    }

    /// Writes the last batch, which moves `settled` to the retained floor. Durable when it returns.
    pub fn finish(mut self) -> Result<(), StateError> {
        self.session.meta.floor.settled = self.session.meta.floor.retained;
        self.session.meta.floor.write(&mut self.session.batch);
        self.session.cut()
    }
}
