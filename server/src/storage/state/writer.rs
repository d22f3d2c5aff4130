//! The one writer of the state, and the batches it cuts its work into.
//!
//! A [`Session`] gathers changes, keeps the totals as they will be after them, and writes a batch when the next record
//! would not fit. Each batch is applied, then synced, before the next one begins: less than a segment is ever in flight,
//! and batches reach the disk in order.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::StateError;
use super::checkpoint::Checkpoint;
use super::floor::FloorAdvance;
use super::meta::{Applied, Compactions, Floor, Identity, StateMeta, Totals};
use super::reader::{StateReader, read_record};
use super::record::{Header, LeaseRecord, RecordKind, RecordRef, StateRecord};
use super::schema::{BASE, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, CURRENT, chunk_key, record_key};
use super::seam::{Mark, State, StateBatch};

/// The writing half of the state. There is one, held by the checkpointer thread.
#[derive(Debug)]
pub struct StateWriter {
    state: Arc<dyn State>,
    meta: StateMeta,
    /// Whether the log's first segment is known to have been durable.
    log_begun: bool,
    /// The first failed write; what is on disk is unknown from then on, so nothing follows it.
    failed: Option<String>,
}

/// Takes over an opened state: reads `meta/`, or writes it if the state is new, with the identity made by `create`.
///
/// Errors: [`StateError::Damaged`] if the side mark says that there was more than is found, [`StateError::Format`].
pub fn open_store(
    state: Arc<dyn State>,
    create: impl FnOnce() -> Identity,
) -> Result<(StateReader, StateWriter), StateError> {
    let marked = state.marked()?;
    let meta = match (StateMeta::load(&*state)?, marked) {
        (Some(meta), marked) => {
            let marked = marked.unwrap_or_default().applied;
            if meta.applied.seq < marked {
                let reason = format!("it holds the log up to {}, yet {marked} was durable", meta.applied.seq);
                return Err(StateError::damaged("meta/applied", reason));
            }
            meta
        }
        (None, Some(mark)) => {
            let reason = format!("it is empty, yet the log up to {} was durable in it", mark.applied);
            return Err(StateError::damaged("meta/format", reason));
        }
        (None, None) => create_store(&*state, create())?,
    };
    let reader = StateReader::new(Arc::clone(&state));
    // Nothing is taken over from a log before it has begun; so a mark that does not say so is no way around the rule.
    let log_begun = marked.is_some_and(|mark| mark.log_begun) || meta.applied.seq > 0;
    Ok((reader, StateWriter { state, meta, log_begun, failed: None }))
}

fn create_store(state: &dyn State, identity: Identity) -> Result<StateMeta, StateError> {
    let mut any = None;
    state.scan(b"", &mut |key, _| {
        any = Some(key.escape_ascii().to_string());
        Ok(std::ops::ControlFlow::Break(()))
    })?;
    if let Some(key) = any {
        return Err(StateError::damaged("meta/format", format!("it is missing, yet there is {key}")));
    }
    let meta = StateMeta {
        identity,
        applied: Applied { seq: 0, revision: 1 },
        compactions: Compactions::default(),
        floor: Floor::default(),
        totals: Totals::default(),
    };
    let mut batch = StateBatch::default();
    meta.write_all(&mut batch);
    state.apply(batch)?;
    state.sync()?;
    state.mark(Mark::default())?;
    Ok(meta)
}

impl StateWriter {
    /// What stands under `meta/` after the last finished batch.
    pub fn meta(&self) -> &StateMeta {
        &self.meta
    }

    /// Whether the log's first segment is known to have been durable: then a log without one has been lost.
    pub fn log_begun(&self) -> bool {
        self.log_begun
    }

    /// Notes, durably, that the log's first segment is durable. To be done before anything in it is answered; only the
    /// first call of a store's life writes.
    pub fn note_log_begun(&mut self) -> Result<(), StateError> {
        if self.log_begun {
            return Ok(());
        }
        self.log_begun = true;
        self.mark()
    }

    /// Begins a checkpoint. Dropped unfinished, it leaves `applied` where it was; its written batches stay and do no
    /// harm.
    pub fn checkpoint(&mut self) -> Result<Checkpoint<'_>, StateError> {
        Ok(Checkpoint::new(Session::begin(self)?))
    }

    /// Announces the retained floor `retained`, durably, and begins the work it brings. Called only when `applied` has
    /// passed it; given the announced floor again after a crash, it repeats the work.
    pub fn advance_floor(&mut self, retained: i64) -> Result<FloorAdvance<'_>, StateError> {
        FloorAdvance::begin(self, retained)
    }

    /// Replaces the identity, durably.
    pub fn set_identity(&mut self, identity: Identity) -> Result<(), StateError> {
        let mut session = Session::begin(self)?;
        identity.write(&mut session.batch);
        session.meta.identity = identity;
        session.cut()
    }

    /// Notes beside the tree how far it is. A checkpoint does it; a failure is as final as a failed batch.
    pub(super) fn mark(&mut self) -> Result<(), StateError> {
        let result = self.state.mark(Mark { applied: self.meta.applied.seq, log_begun: self.log_begun });
        self.remember(result)
    }

    fn remember(&mut self, result: Result<(), StateError>) -> Result<(), StateError> {
        if let Err(error) = &result {
            self.failed = Some(error.to_string());
        }
        result
    }
}

/// A run of batches by the writer.
pub(super) struct Session<'a> {
    writer: &'a mut StateWriter,
    /// As it will be once `batch` is applied.
    pub(super) meta: StateMeta,
    pub(super) batch: StateBatch,
    /// Tree keys of records in `batch`, whose old version can no longer be read from the tree.
    touched: HashSet<Vec<u8>>,
    /// Batches and bytes written.
    pub(super) batches: u64,
    pub(super) bytes: u64,
}

/// A record found in the tree: what is needed to replace it.
pub(super) struct Present {
    pub(super) at: (i64, i64),
    pub(super) kind: RecordKind,
    sealed: Vec<u8>,
    further_chunks: u16,
}

impl<'a> Session<'a> {
    pub(super) fn begin(writer: &'a mut StateWriter) -> Result<Self, StateError> {
        if let Some(reason) = &writer.failed {
            return Err(StateError::Failed { reason: reason.clone() });
        }
        let meta = writer.meta.clone();
        Ok(Session { writer, meta, batch: StateBatch::default(), touched: HashSet::new(), batches: 0, bytes: 0 })
    }

    /// The writer, after the session's last batch.
    pub(super) fn into_writer(self) -> &'a mut StateWriter {
        self.writer
    }

    /// Writes the gathered batch with the totals as they are after it, and makes it durable.
    pub(super) fn cut(&mut self) -> Result<(), StateError> {
        self.meta.totals.write(&mut self.batch);
        let batch = std::mem::take(&mut self.batch);
        self.touched.clear();
        self.batches += 1;
        self.bytes += batch.bytes as u64;
        let state = &self.writer.state;
        let result = state.apply(batch).and_then(|()| state.sync());
        self.writer.remember(result)?;
        self.writer.meta = self.meta.clone();
        Ok(())
    }

    /// Cuts the batch if `bytes` more would not fit.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), StateError> {
        let full = self.batch.bytes + bytes > BATCH_BYTES_MAX || self.touched.len() >= BATCH_RECORDS_MAX;
        if full && !self.batch.is_empty() { self.cut() } else { Ok(()) }
    }

    /// The record at `tree_key`, after whatever the batch does to it.
    pub(super) fn present(&mut self, tree_key: &[u8], key: &[u8]) -> Result<Option<Present>, StateError> {
        if self.touched.contains(tree_key) {
            self.cut()?;
        }
        let Some(entry) = self.writer.state.get(tree_key)? else { return Ok(None) };
        let header = Header::decode(tree_key, key, &entry)?;
        Ok(Some(Present {
            at: header.record.at(),
            kind: header.record.kind,
            further_chunks: header.further_chunks(),
            sealed: header.sealed.to_vec(),
        }))
    }

    /// The whole record at `tree_key`.
    pub(super) fn read(&self, tree_key: &[u8], key: &[u8]) -> Result<Option<StateRecord>, StateError> {
        read_record(&*self.writer.state, tree_key, key)
    }

    /// Bytes that `record` takes in a batch, at most.
    pub(super) fn size(record: RecordRef<'_>) -> usize {
        /// Header and chunk framing of a record of one chunk.
        const FRAMING: usize = 128;
        record.key.len() * 2 + record.author.len() + record.client.map_or(0, str::len) + record.value.len() + FRAMING
    }

    /// Puts `record` in place of `present` under `area`.
    pub(super) fn replace(
        &mut self,
        area: &'static [u8],
        record: RecordRef<'_>,
        present: Option<&Present>,
    ) -> Result<(), StateError> {
        let tree_key = record_key(area, record.key);
        let encoded = record.encode(&tree_key)?;
        self.reserve(encoded.bytes())?;
        if let Some(present) = present {
            self.take_out(area, &tree_key, present, encoded.entries.len());
        }
        let totals = &mut self.meta.totals;
        let hash = if area == CURRENT { &mut totals.current } else { &mut totals.base };
        hash.add(&[&tree_key, encoded.header()]);
        *count(totals, area, record.kind) += 1;
        for (key, value) in encoded.entries {
            self.batch.put(key, value);
        }
        self.touched.insert(tree_key);
        Ok(())
    }

    /// Removes the record `present` of `key` under `area`.
    pub(super) fn remove(&mut self, area: &'static [u8], key: &[u8], present: &Present) -> Result<(), StateError> {
        let tree_key = record_key(area, key);
        self.reserve(tree_key.len())?;
        self.take_out(area, &tree_key, present, 0);
        self.touched.insert(tree_key);
        Ok(())
    }

    /// Takes `present` out of the totals and removes those of its entries from index `kept` on.
    fn take_out(&mut self, area: &'static [u8], tree_key: &[u8], present: &Present, kept: usize) {
        let totals = &mut self.meta.totals;
        let hash = if area == CURRENT { &mut totals.current } else { &mut totals.base };
        hash.remove(&[tree_key, &present.sealed]);
        *count(totals, area, present.kind) -= 1;
        if kept == 0 {
            self.batch.remove(tree_key.to_vec());
        }
        for index in 1..=present.further_chunks {
            if usize::from(index) >= kept {
                self.batch.remove(chunk_key(tree_key, index));
            }
        }
    }

    /// Puts or removes a lease.
    pub(super) fn lease(&mut self, id: i64, record: Option<LeaseRecord>) -> Result<(), StateError> {
        let key = super::schema::lease_key(id);
        if self.touched.contains(&key) {
            self.cut()?;
        }
        self.reserve(key.len() * 2 + 32)?;
        let present: Option<Bytes> = self.writer.state.get(&key)?;
        let totals = &mut self.meta.totals;
        if let Some(present) = &present {
            totals.lease.remove(&[&key, present]);
            totals.leases -= 1;
        }
        match record {
            Some(record) => {
                let (key, value) = record.encode();
                totals.lease.add(&[&key, &value]);
                totals.leases += 1;
                self.batch.put(key, value);
            }
            None if present.is_some() => self.batch.remove(key.clone()),
            None => return Ok(()),
        }
        self.touched.insert(key);
        Ok(())
    }
}

fn count<'t>(totals: &'t mut Totals, area: &'static [u8], kind: RecordKind) -> &'t mut u64 {
    match (area == BASE, kind) {
        (true, _) => &mut totals.bases,
        (false, RecordKind::Live) => &mut totals.live,
        (false, RecordKind::Tombstone) => &mut totals.tombstones,
    }
}
