//! Reads of the published store at one revision.
//!
//! What a read finds in the index it takes under the lock, in bounded steps; values beyond the cache are fetched from
//! the log or the state without the lock. A step that finds the floor above its revision ends the read with an error
//! instead of a gap.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;

use super::key_index::{KeyEntry, SEGMENT_BASE, SEGMENT_CURRENT, Version};
use super::store::Store;
use crate::storage::log::record::{self, KeyParts};
use crate::storage::log::{Location, Segments, runs};
use crate::storage::revision::Place;
use crate::storage::state::{RecordKind, StateReader, StateRecord};
use crate::storage::watch::Floor;
use crate::storage::{Error, KeyRange, KeyValue, RangeOp, RangeResult, SortOrder, SortTarget};

/// Keys taken under one hold of the lock; at some 50 ns each a writer waits no longer than 0.2 ms.
const STEP_KEYS: usize = 4096;
/// So few values are read one by one.
const PREFETCH_MIN: usize = 16;
/// How often a record may move between the log, `cur/` and `base/` while it is being looked for.
const MOVES_MAX: usize = 16;

/// Finds the bytes behind index entries.
#[derive(Clone, Debug)]
pub struct Fetcher {
    /// The log.
    pub segments: Arc<Segments>,
    /// The state beside it.
    pub state: StateReader,
}

impl Fetcher {
    /// The state after a version; `None` if the record is no longer where the version says.
    pub fn fetch(&self, key: &[u8], version: &Version) -> Result<Option<KeyValue>, Error> {
        if version.is_in_log() {
            let Some(segment) = self.segments.get(u64::from(version.segment)) else { return Ok(None) };
            let bytes = segment.read_record(version.location())?;
            let parts = KeyParts::read(&bytes).map_err(|reason| Error::Damaged {
                segment: u64::from(version.segment),
                revision: version.main,
                reason: reason.into(),
            })?;
            if bytes[parts.key.clone()] != *key || parts.place != version.place() {
                return Err(Error::Damaged {
                    segment: u64::from(version.segment),
                    revision: version.main,
                    reason: "a record is not the one its index names".into(),
                });
            }
            return Ok(Some(parts.key_value(&bytes)));
        }
        // A checkpoint moves a record from `cur/` to `base/` before the index hears of it.
        let current = || self.state.current(key).map_err(Error::from);
        let base = || self.state.base(key).map_err(Error::from);
        let wanted = |record: Option<StateRecord>| record.filter(|record| place_of(record) == version.place());
        let found = match version.segment {
            SEGMENT_BASE => wanted(base()?).or(wanted(current()?)),
            _ => match wanted(current()?) {
                Some(record) => Some(record),
                None => wanted(base()?),
            },
        };
        Ok(found.map(key_value_of))
    }

    /// Bytes on disk.
    pub fn size_on_disk(&self) -> u64 {
        self.segments.size() + self.state.size_on_disk().unwrap_or(0)
    }

    /// Reads the values of many found keys at once, where their records lie close together in the log: a list of a large
    /// range would else cost a system call for each key.
    fn prefetch(&self, found: &mut [Found], op: &RangeOp) -> Result<(), Error> {
        let wanted = if op.limit > 0 && !needs_all(op) { found.len().min(op.limit) } else { found.len() };
        let missing = |found: &Found| found.kv.is_none() && found.version.is_in_log();
        let mut order: Vec<u32> = (0..wanted as u32).filter(|index| missing(&found[*index as usize])).collect();
        if order.len() < PREFETCH_MIN {
            return Ok(());
        }
        order.sort_unstable_by_key(|index| {
            let version = &found[*index as usize].version;
            (version.segment, version.offset)
        });
        let places: Vec<Location> = order.iter().map(|index| found[*index as usize].version.location()).collect();
        let mut at = 0;
        for (run, stretch) in runs(&places, |place| *place) {
            let keys = &order[at..at + run.len()];
            at += run.len();
            if run.len() > 1 {
                self.read_run(found, keys, stretch)?;
            }
        }
        Ok(())
    }

    /// Reads one stretch of a segment and takes the records of a run out of it. What is not there is left to the single
    /// read, which knows where to look next.
    fn read_run(&self, found: &mut [Found], run: &[u32], stretch: Location) -> Result<(), Error> {
        let Some(segment) = self.segments.get(u64::from(stretch.segment)) else { return Ok(()) };
        let bytes = segment.read_bytes(stretch.offset, stretch.len as usize)?;
        for index in run {
            let key = &mut found[*index as usize];
            let from = (key.version.offset - stretch.offset) as usize;
            let record = bytes.slice(from..from + key.version.len as usize);
            let kv =
                record::verify(&record).and_then(|_| KeyParts::read(&record)).map(|parts| parts.key_value(&record));
            if let Ok(kv) = kv
                && kv.key == key.key
                && kv.mod_revision == key.version.main
            {
                key.kv = Some(Arc::new(kv));
            }
        }
        Ok(())
    }

    /// The same for a version just looked up, whose owner keeps the index from changing.
    pub fn fetch_pinned(&self, key: &[u8], version: &Version) -> Result<KeyValue, Error> {
        self.fetch(key, version)?.ok_or_else(|| lost(version))
    }
}

fn lost(version: &Version) -> Error {
    let reason = match version.segment {
        SEGMENT_CURRENT | SEGMENT_BASE => "a record is missing in the state",
        _ => "the segment of a record is not there",
    };
    Error::Damaged { segment: u64::from(version.segment), revision: version.main, reason: reason.into() }
}

fn place_of(record: &StateRecord) -> Place {
    Place { main: record.mod_revision, sub: record.sub as u32 }
}

fn key_value_of(record: StateRecord) -> KeyValue {
    let live = record.kind == RecordKind::Live;
    KeyValue {
        key: record.key,
        value: if live { record.value } else { Bytes::new() },
        create_revision: record.create_revision,
        mod_revision: record.mod_revision,
        version: record.version,
        lease: record.lease,
    }
}

/// A key a read has found, with what the index knows of it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) key: Bytes,
    pub(super) version: Version,
    /// Create revision, version and lease, if it is the newest state.
    pub(super) facts: Option<(i64, i64, i64)>,
    pub(super) kv: Option<Arc<KeyValue>>,
}

impl Found {
    /// The live state of an entry at a revision.
    pub(super) fn of(entry: &KeyEntry, revision: i64) -> Option<Found> {
        let version = entry.at(revision).filter(|version| !version.is_tombstone())?;
        if version.main != entry.head.main {
            return Some(Found { key: Bytes::copy_from_slice(&entry.key), version: *version, facts: None, kv: None });
        }
        let key = match &entry.cached {
            Some(kv) => kv.key.clone(),
            None => Bytes::copy_from_slice(&entry.key),
        };
        let facts = Some((entry.create_revision, entry.version, entry.lease));
        Some(Found { key, version: *version, facts, kv: entry.cached.clone() })
    }

    /// What can be said of it without its value, if the index knows enough.
    fn without_value(&self) -> Option<KeyValue> {
        let (create_revision, version, lease) = self.facts?;
        let mod_revision = self.version.main;
        Some(KeyValue { key: self.key.clone(), value: Bytes::new(), create_revision, mod_revision, version, lease })
    }
}

/// Takes up to `max` live keys of a range at a revision, from a key on if given.
pub(super) fn collect(
    store: &Store,
    range: &KeyRange,
    from: Option<Bytes>,
    revision: i64,
    max: usize,
    found: &mut Vec<Found>,
) -> Progress {
    let end = found.len().saturating_add(max);
    let mut seen = 0;
    let mut progress = Progress::Done;
    let mut see = |entry: &KeyEntry| {
        if found.len() >= end {
            return ControlFlow::Break(());
        }
        if seen >= STEP_KEYS {
            progress = Progress::At(Bytes::copy_from_slice(&entry.key));
            return ControlFlow::Break(());
        }
        seen += 1;
        found.extend(Found::of(entry, revision));
        ControlFlow::Continue(())
    };
    match from {
        Some(key) => store.index.visit(&KeyRange { key, end: range.end.clone() }, &mut see),
        None => store.index.visit(range, &mut see),
    }
    progress
}

/// How a step of a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The range is through, or as many as wanted were found.
    Done,
    /// The step was long enough; go on at this key.
    At(Bytes),
}

/// Reads of the published store.
#[derive(Clone, Debug)]
pub struct Reader {
    store: Arc<RwLock<Store>>,
    fetcher: Fetcher,
}

impl Reader {
    /// A reader of a store.
    pub fn new(store: Arc<RwLock<Store>>, fetcher: Fetcher) -> Self {
        Self { store, fetcher }
    }

    /// Where bytes are fetched from.
    pub fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    /// Answers a read.
    ///
    /// # Errors
    /// [`Error::Compacted`] below the floor, [`Error::FutureRevision`], [`Error::Damaged`], [`Error::Io`].
    pub fn range(&self, op: &RangeOp, floor: Floor) -> Result<RangeResult, Error> {
        if op.range.is_single() && !op.count_only && !op.keys_only && !op.is_filtered() {
            return self.one(op, floor);
        }
        let mut found = Vec::new();
        let guard = self.store.read();
        let (current, revision) = check_revision(&guard, op, floor)?;
        let mut count = guard.count_at(&op.range, revision);
        if op.count_only
            && let Some(count) = count
        {
            return Ok(RangeResult { kvs: Vec::new(), more: false, count: count as i64, revision: current });
        }
        // Without a count from the index, without a limit, or to sort and filter, the whole range is walked.
        let whole = count.is_none() || op.limit == 0 || needs_all(op);
        let max = if whole { usize::MAX } else { op.limit };
        let mut progress = collect(&guard, &op.range, None, revision, max, &mut found);
        drop(guard);
        while let Progress::At(key) = progress {
            let guard = self.store.read();
            check_floor(&guard, revision, floor)?;
            let rest = max.saturating_sub(found.len());
            progress = collect(&guard, &op.range, Some(key), revision, rest, &mut found);
        }
        let count = *count.get_or_insert(found.len());
        if !op.count_only && values_matter(op) {
            self.fetcher.prefetch(&mut found, op)?;
        }
        let fetch = |found: &Found| self.fetch(found, revision, floor);
        answer(op, found, count, current, fetch)
    }

    /// The read of one key.
    fn one(&self, op: &RangeOp, floor: Floor) -> Result<RangeResult, Error> {
        let guard = self.store.read();
        let (current, revision) = check_revision(&guard, op, floor)?;
        let found = guard.index.get(&op.range.key).and_then(|entry| Found::of(entry, revision));
        drop(guard);
        let kvs = match found {
            Some(found) => vec![whole(&found, &|found: &Found| self.fetch(found, revision, floor))?],
            None => Vec::new(),
        };
        Ok(RangeResult { more: false, count: kvs.len() as i64, kvs, revision: current })
    }

    /// The state of a found key; follows it if it moves meanwhile.
    fn fetch(&self, found: &Found, revision: i64, floor: Floor) -> Result<KeyValue, Error> {
        let mut version = found.version;
        for _ in 0..MOVES_MAX {
            if let Some(kv) = self.fetcher.fetch(&found.key, &version)? {
                return Ok(kv);
            }
            let store = self.store.read();
            check_floor(&store, revision, floor)?;
            let place = version.place();
            version = *store.index.get(&found.key).and_then(|entry| entry.find(place)).ok_or_else(|| lost(&version))?;
        }
        Err(lost(&version))
    }

    /// The state that a key was in when written at a place; `None` if history no longer has it or it was a deletion.
    pub fn state_at(&self, key: &[u8], place: Place) -> Result<Option<KeyValue>, Error> {
        for _ in 0..MOVES_MAX {
            let version = {
                let store = self.store.read();
                let Some(entry) = store.index.get(key) else { return Ok(None) };
                let Some(version) = entry.find(place) else { return Ok(None) };
                if version.is_tombstone() {
                    return Ok(None);
                }
                if version.main == entry.head.main
                    && let Some(kv) = &entry.cached
                {
                    return Ok(Some((**kv).clone()));
                }
                *version
            };
            if let Some(kv) = self.fetcher.fetch(key, &version)? {
                return Ok(Some(kv));
            }
        }
        Ok(None)
    }
}

fn floor_of(store: &Store, floor: Floor) -> i64 {
    match floor {
        Floor::Compacted => store.compacted,
        Floor::Retained => store.retained,
    }
}

/// A read that began above the promised floor may end as long as the records are there.
fn check_floor(store: &Store, revision: i64, floor: Floor) -> Result<(), Error> {
    if revision < store.retained {
        return Err(Error::Compacted { requested: revision, compacted: floor_of(store, floor) });
    }
    Ok(())
}

/// Where the store stands, and the revision that the read means.
pub(super) fn check_revision(store: &Store, op: &RangeOp, floor: Floor) -> Result<(i64, i64), Error> {
    let current = store.revision;
    if op.revision <= 0 {
        return Ok((current, current));
    }
    if op.revision > current {
        return Err(Error::FutureRevision { requested: op.revision, current });
    }
    let compacted = floor_of(store, floor);
    if op.revision < compacted {
        return Err(Error::Compacted { requested: op.revision, compacted });
    }
    Ok((current, op.revision))
}

/// Whether the answer depends on more than the first keys of the range.
pub(super) fn needs_all(op: &RangeOp) -> bool {
    op.is_filtered() || matches!(op.sort, Some(sort) if sort != (SortTarget::Key, SortOrder::Ascend))
}

/// Makes the answer out of what was found: filters, sorts, cuts, fills in values.
pub(super) fn answer(
    op: &RangeOp,
    mut found: Vec<Found>,
    count: usize,
    revision: i64,
    fetch: impl Fn(&Found) -> Result<KeyValue, Error>,
) -> Result<RangeResult, Error> {
    let mut result = RangeResult { kvs: Vec::new(), more: false, count: count as i64, revision };
    if op.count_only {
        return Ok(result);
    }
    let fill = |found: &Found| match found.without_value().filter(|_| op.keys_only) {
        Some(kv) => Ok(kv),
        None => whole(found, &fetch),
    };
    if !needs_all(op) {
        if op.limit > 0 {
            found.truncate(op.limit);
            result.more = count > found.len();
        }
        result.kvs = found.iter().map(fill).collect::<Result<_, _>>()?;
    } else {
        for key in &found {
            let kv = if values_matter(op) { whole(key, &fetch)? } else { fill(key)? };
            if passes(op, &kv) {
                result.kvs.push(kv);
            }
        }
        sort(&mut result.kvs, op.sort);
        if op.limit > 0 && result.kvs.len() > op.limit {
            result.kvs.truncate(op.limit);
            result.more = true;
        }
    }
    if op.keys_only {
        result.kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
    Ok(result)
}

/// Whether sorting or the answer needs values.
fn values_matter(op: &RangeOp) -> bool {
    !op.keys_only || matches!(op.sort, Some((SortTarget::Value, _)))
}

fn whole(found: &Found, fetch: &impl Fn(&Found) -> Result<KeyValue, Error>) -> Result<KeyValue, Error> {
    match &found.kv {
        Some(kv) => Ok(KeyValue::clone(kv)),
        None => fetch(found),
    }
}

fn passes(op: &RangeOp, kv: &KeyValue) -> bool {
    let within = |value: i64, min: i64, max: i64| (min == 0 || value >= min) && (max == 0 || value <= max);
    within(kv.mod_revision, op.min_mod_revision, op.max_mod_revision)
        && within(kv.create_revision, op.min_create_revision, op.max_create_revision)
}

/// Sorts; equal ones stay in key order.
fn sort(kvs: &mut [KeyValue], by: Option<(SortTarget, SortOrder)>) {
    let Some((target, order)) = by else { return };
    let compare = |a: &KeyValue, b: &KeyValue| -> Ordering {
        match target {
            SortTarget::Key => a.key.cmp(&b.key),
            SortTarget::Version => a.version.cmp(&b.version),
            SortTarget::Create => a.create_revision.cmp(&b.create_revision),
            SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
            SortTarget::Value => a.value.cmp(&b.value),
        }
    };
    match order {
        SortOrder::Ascend => kvs.sort_by(compare),
        SortOrder::Descend => kvs.sort_by(|a, b| compare(b, a)),
    }
}
