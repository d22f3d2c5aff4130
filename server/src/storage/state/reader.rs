//! Reading the state: single records at any time, and the checked scans of a start.
//!
//! A single read may meet the writer between two batches and see a header of one version and a chunk of the next; it
//! tries again. A scan runs before the writer writes: it recomputes counts and set hashes, and what does not add up is
//! named as damage.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;

use super::StateError;
use super::meta::{StateMeta, Totals};
use super::record::{Header, LeaseRecord, RecordKind, RecordRef, StateRecord, decode_chunk};
use super::schema::{BASE, CURRENT, LEASE, chunk_key, parse_key, parse_lease_key, record_key};
use super::seam::State;
use super::set_hash::SetHash;

/// Tries of a read that meets a writer; each needs a new batch on the same key in between.
const READ_TRIES: usize = 16;

/// The reading half of the state; cheap to clone.
#[derive(Clone, Debug)]
pub struct StateReader {
    state: Arc<dyn State>,
}

impl StateReader {
    pub(super) fn new(state: Arc<dyn State>) -> Self {
        StateReader { state }
    }

    /// The latest record of `key` that a checkpoint has brought here.
    pub fn current(&self, key: &[u8]) -> Result<Option<StateRecord>, StateError> {
        read_record(&*self.state, &record_key(CURRENT, key), key)
    }

    /// The record of `key` at the floor, if a newer one has come since.
    pub fn base(&self, key: &[u8]) -> Result<Option<StateRecord>, StateError> {
        read_record(&*self.state, &record_key(BASE, key), key)
    }

    /// What stands under `meta/` now.
    pub fn meta(&self) -> Result<StateMeta, StateError> {
        let meta = StateMeta::load(&*self.state)?;
        meta.ok_or_else(|| StateError::damaged("meta/format", "the record is missing"))
    }

    /// Bytes taken on disk.
    pub fn size_on_disk(&self) -> Result<u64, StateError> {
        self.state.size_on_disk()
    }

    /// Visits `cur/` in key order, tombstones included, and checks it against the totals. Before any write of this run.
    /// Errors: [`StateError::Damaged`] at the first record that is not whole, or at the end if the sum is wrong; the
    /// caller then throws away what it built.
    pub fn scan_current(&self, visit: &mut dyn FnMut(RecordRef<'_>)) -> Result<(), StateError> {
        let totals = self.meta()?.totals;
        let found = self.scan_records(CURRENT, visit)?;
        let expected = Sum { live: totals.live, tombstones: totals.tombstones, hash: totals.current };
        found.compare("cur/", expected)
    }

    /// Visits `base/` in key order and checks it against the totals, as [`StateReader::scan_current`] does.
    pub fn scan_base(&self, visit: &mut dyn FnMut(RecordRef<'_>)) -> Result<(), StateError> {
        let totals = self.meta()?.totals;
        let found = self.scan_records(BASE, visit)?;
        // Tombstones are never written to base/; one found here breaks the count.
        found.compare("base/", Sum { live: totals.bases, tombstones: 0, hash: totals.base })
    }

    /// All leases, by id, checked against the totals.
    pub fn leases(&self) -> Result<Vec<LeaseRecord>, StateError> {
        let totals: Totals = self.meta()?.totals;
        let (mut leases, mut hash) = (Vec::new(), SetHash::default());
        self.state.scan(LEASE, &mut |tree_key, entry| {
            leases.push(LeaseRecord::decode(parse_lease_key(tree_key)?, tree_key, entry)?);
            hash.add(&[tree_key, entry]);
            Ok(ControlFlow::Continue(()))
        })?;
        let found = Sum { live: leases.len() as u64, tombstones: 0, hash };
        found.compare("lease/", Sum { live: totals.leases, tombstones: 0, hash: totals.lease })?;
        Ok(leases)
    }

    fn scan_records(&self, area: &'static [u8], visit: &mut dyn FnMut(RecordRef<'_>)) -> Result<Sum, StateError> {
        let mut scan = RecordScan { area, sum: Sum::default(), open: None };
        self.state.scan(area, &mut |tree_key, entry| {
            scan.entry(tree_key, entry, visit)?;
            Ok(ControlFlow::Continue(()))
        })?;
        scan.end()
    }
}

/// What a scan counts.
#[derive(Default)]
struct Sum {
    live: u64,
    tombstones: u64,
    hash: SetHash,
}

impl Sum {
    fn add(&mut self, kind: RecordKind, tree_key: &[u8], sealed: &[u8]) {
        match kind {
            RecordKind::Live => self.live += 1,
            RecordKind::Tombstone => self.tombstones += 1,
        }
        self.hash.add(&[tree_key, sealed]);
    }

    fn compare(&self, area: &str, expected: Sum) -> Result<(), StateError> {
        if (self.live, self.tombstones, self.hash) == (expected.live, expected.tombstones, expected.hash) {
            return Ok(());
        }
        let reason = format!(
            "{} live records and {} tombstones with hash {} were found, {} and {} with hash {} were written",
            self.live, self.tombstones, self.hash, expected.live, expected.tombstones, expected.hash,
        );
        Err(StateError::damaged(area, reason))
    }
}

/// Puts records together from the entries of a scan.
struct RecordScan {
    area: &'static [u8],
    sum: Sum,
    open: Option<OpenRecord>,
}

/// A record whose value is longer than its first chunk.
struct OpenRecord {
    tree_key: Vec<u8>,
    header: Vec<u8>,
    value: Vec<u8>,
    next_chunk: u16,
    chunks: u16,
    mod_revision: i64,
}

impl RecordScan {
    fn entry(&mut self, tree_key: &[u8], entry: &[u8], visit: &mut dyn FnMut(RecordRef<'_>)) -> Result<(), StateError> {
        let (key, chunk) = parse_key(self.area, tree_key)?;
        let Some(index) = chunk else { return self.header(tree_key, &key, entry, visit) };
        let open = self.open.as_mut().filter(|open| tree_key.starts_with(&open.tree_key) && open.next_chunk == index);
        let Some(open) = open else {
            return Err(StateError::damaged(name(tree_key), "a chunk without its record or out of order"));
        };
        open.value.extend_from_slice(decode_chunk(tree_key, open.mod_revision, entry)?);
        open.next_chunk += 1;
        if open.next_chunk <= open.chunks {
            return Ok(());
        }
        let open = self.open.take().expect("it was just extended");
        let header = Header::decode(&open.tree_key, &key, &open.header)?;
        header.check_value(&open.tree_key, &open.value)?;
        self.sum.add(header.record.kind, &open.tree_key, header.sealed);
        visit(RecordRef { value: &open.value, ..header.record });
        Ok(())
    }

    fn header(
        &mut self,
        tree_key: &[u8],
        key: &[u8],
        entry: &[u8],
        visit: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(), StateError> {
        self.check_closed()?;
        let header = Header::decode(tree_key, key, entry)?;
        let chunks = header.further_chunks();
        if chunks == 0 {
            header.check_value(tree_key, header.record.value)?;
            self.sum.add(header.record.kind, tree_key, header.sealed);
            visit(header.record);
            return Ok(());
        }
        self.open = Some(OpenRecord {
            tree_key: tree_key.to_vec(),
            header: entry.to_vec(),
            value: header.record.value.to_vec(),
            next_chunk: 1,
            chunks,
            mod_revision: header.record.mod_revision,
        });
        Ok(())
    }

    fn check_closed(&self) -> Result<(), StateError> {
        let Some(open) = &self.open else { return Ok(()) };
        let reason = format!("chunk {} of {} is missing", open.next_chunk, open.chunks);
        Err(StateError::damaged(name(&open.tree_key), reason))
    }

    fn end(self) -> Result<Sum, StateError> {
        self.check_closed()?;
        Ok(self.sum)
    }
}

/// Reads the record at `tree_key`, with all its chunks.
pub(super) fn read_record(state: &dyn State, tree_key: &[u8], key: &[u8]) -> Result<Option<StateRecord>, StateError> {
    let mut before: Option<Bytes> = None;
    for _ in 0..READ_TRIES {
        let Some(entry) = state.get(tree_key)? else { return Ok(None) };
        match assemble(state, tree_key, key, &entry) {
            Ok(record) => return Ok(Some(record)),
            // The same header twice: no writer came in between, so the chunks are wrong.
            Err(error) if before.as_ref() == Some(&entry) => return Err(error),
            Err(_) => before = Some(entry),
        }
    }
    Err(StateError::damaged(name(tree_key), "the record changed during each of several reads"))
}

fn assemble(state: &dyn State, tree_key: &[u8], key: &[u8], entry: &Bytes) -> Result<StateRecord, StateError> {
    let header = Header::decode(tree_key, key, entry)?;
    let chunks = header.further_chunks();
    if chunks == 0 {
        header.check_value(tree_key, header.record.value)?;
        return Ok(header.record.to_record());
    }
    let mut value = Vec::with_capacity(header.value_len);
    value.extend_from_slice(header.record.value);
    for index in 1..=chunks {
        let chunk_key = chunk_key(tree_key, index);
        let chunk = state.get(&chunk_key)?;
        let chunk = chunk.ok_or_else(|| StateError::damaged(name(&chunk_key), "the chunk is missing"))?;
        value.extend_from_slice(decode_chunk(&chunk_key, header.record.mod_revision, &chunk)?);
    }
    header.check_value(tree_key, &value)?;
    let record = RecordRef { value: &[], ..header.record }.to_record();
    Ok(StateRecord { value: Bytes::from(value), ..record })
}

fn name(tree_key: &[u8]) -> String {
    tree_key.escape_ascii().to_string()
}
