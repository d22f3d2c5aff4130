//! Evaluation of the transactions of one commit group, each on the state that the ones before it leave.
//!
//! Nothing here is visible to anybody: the outcome lies in an overlay and in the frame, until the frame is durable and
//! [`Batch::into_outcome`] is published. Semantics are etcd 3.6's: guards of the whole tree are decided on the state
//! before the transaction, everything that can fail is checked before anything is written, reads see the writes before
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::key_index::{KeyEntry, Version};
use super::read::{self, Fetcher, Found};
use super::store::Store;
use crate::storage::lease::Lessor;
use crate::storage::log::record::KeyRecordRef;
use crate::storage::log::{FrameBuilder, Location};
use crate::storage::revision::Place;
use crate::storage::state::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::storage::{
    Compare, CompareResult, CompareTarget, DeleteOp, DeleteResult, Error, Event, EventKind, KeyRange, KeyValue, Op,
    OpResult, Origin, PutOp, PutResult, RangeEnd, RangeOp, RangeResult, Txn, TxnResult,
};

/// One write that waits for its frame to be durable.
#[derive(Debug)]
pub struct Pending {
    place: Place,
    /// The state after it; `None` = deleted.
    kv: Option<Arc<KeyValue>>,
    /// Where in the frame its record begins.
    at: u32,
    len: u32,
}

impl Pending {
    /// The index entry and state, once the frame's place is known.
    pub fn published(self, segment: u32, frame_at: u32) -> super::store::Published {
        let location = Location { segment, offset: frame_at + self.at, len: self.len };
        super::store::Published { version: Version::new(self.place, self.kv.is_none(), location), kv: self.kv }
    }
}

/// What a group adds up to.
#[derive(Debug)]
pub struct Outcome {
    /// Writes by key, in order.
    pub writes: BTreeMap<Bytes, Vec<Pending>>,
    /// Events in order.
    pub events: Vec<Arc<Event>>,
    /// Where the store stands after it.
    pub revision: i64,
}

/// The evaluation of one group.
#[derive(Debug)]
pub struct Batch<'a> {
    store: &'a Store,
    fetcher: &'a Fetcher,
    lessor: &'a Lessor,
    frame: &'a mut FrameBuilder,
    writes: BTreeMap<Bytes, Vec<Pending>>,
    events: Vec<Arc<Event>>,
    revision: i64,
    /// Writes of the transaction under way.
    subs: u32,
}

/// A key's newest state as the group sees it.
#[derive(Clone, Debug)]
struct Latest {
    place: Place,
    create_revision: i64,
    version: i64,
    lease: i64,
    kv: Option<Arc<KeyValue>>,
    stored: Option<Version>,
}

impl Latest {
    fn of_entry(entry: &KeyEntry) -> Option<Latest> {
        entry.is_live().then(|| Latest {
            place: entry.head.place(),
            create_revision: entry.create_revision,
            version: entry.version,
            lease: entry.lease,
            kv: entry.cached.clone(),
            stored: Some(entry.head),
        })
    }

    fn of_pending(pending: &Pending) -> Option<Latest> {
        let kv = pending.kv.as_ref()?;
        Some(Latest {
            place: pending.place,
            create_revision: kv.create_revision,
            version: kv.version,
            lease: kv.lease,
            kv: Some(kv.clone()),
            stored: None,
        })
    }
}

impl<'a> Batch<'a> {
    /// An empty group on a store. The caller keeps the store from changing.
    pub fn new(store: &'a Store, fetcher: &'a Fetcher, lessor: &'a Lessor, frame: &'a mut FrameBuilder) -> Self {
        let revision = store.revision;
        Self { store, fetcher, lessor, frame, writes: BTreeMap::new(), events: Vec::new(), revision, subs: 0 }
    }

    /// Bytes of the frame so far.
    pub fn frame_len(&self) -> usize {
        self.frame.len()
    }

    /// The frame, for records that are not of keys.
    pub fn frame(&mut self) -> &mut FrameBuilder {
        self.frame
    }

    /// What is to be published.
    pub fn into_outcome(self) -> Outcome {
        Outcome { writes: self.writes, events: self.events, revision: self.revision }
    }

    /// Runs a transaction; on an error it has left no trace.
    pub fn run(&mut self, txn: &Txn, origin: &Origin) -> Result<TxnResult, Error> {
        let mut nested = Vec::new();
        let succeeded = self.decide(txn, &mut nested)?;
        self.check(txn, succeeded, &mut nested.iter().copied())?;
        self.transact(|batch| {
            let mut result = batch.execute(txn, succeeded, &mut nested.iter().copied(), origin)?;
            result.revision = batch.revision + i64::from(batch.subs > 0);
            Ok(result)
        })
    }

    /// Deletes keys in one revision, as the end of a lease does; answers how many were there.
    pub fn delete_keys(&mut self, keys: &[Bytes], origin: &Origin) -> Result<i64, Error> {
        self.transact(|batch| {
            let mut deleted = 0;
            for key in keys {
                if let Some(latest) = batch.latest(key) {
                    let prev = batch.whole(key, &latest)?;
                    batch.write(prev.key.clone(), None, Some((latest.place, prev)), origin)?;
                    deleted += 1;
                }
            }
            Ok(deleted)
        })
    }

    /// Runs writes as one revision, or takes all of them back.
    fn transact<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let frame = self.frame.mark();
        let events = self.events.len();
        self.subs = 0;
        match work(self) {
            Ok(answer) => {
                if self.subs > 0 {
                    self.revision += 1;
                    self.frame.note_revision(self.revision);
                }
                Ok(answer)
            }
            Err(error) => {
                self.frame.roll_back(frame);
                for event in self.events.drain(events..) {
                    let undone = self.writes.get_mut(&event.kv.key).and_then(Vec::pop);
                    assert!(undone.is_some(), "each event of a transaction has its write");
                    if self.writes.get(&event.kv.key).is_some_and(Vec::is_empty) {
                        self.writes.remove(&event.kv.key);
                    }
                }
                Err(error)
            }
        }
    }

    fn decide(&self, txn: &Txn, nested: &mut Vec<bool>) -> Result<bool, Error> {
        let mut holds = true;
        for compare in &txn.compares {
            if !self.holds(compare)? {
                holds = false;
                break;
            }
        }
        for op in branch(txn, holds) {
            if let Op::Txn(inner) = op {
                // The place is taken before the inner ones, so that they are met again in the same order.
                let place = nested.len();
                nested.push(false);
                nested[place] = self.decide(inner, nested)?;
            }
        }
        Ok(holds)
    }

    fn holds(&self, compare: &Compare) -> Result<bool, Error> {
        if compare.range.is_single() {
            return self.compare_one(&compare.range.key, self.latest(&compare.range.key).as_ref(), compare);
        }
        let found = self.find(&compare.range, i64::MAX);
        if found.is_empty() {
            return self.compare_one(&[], None, compare);
        }
        for key in &found {
            if !self.compare_one(&key.key, self.latest(&key.key).as_ref(), compare)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compare_one(&self, key: &[u8], latest: Option<&Latest>, compare: &Compare) -> Result<bool, Error> {
        let number = |of: fn(&Latest) -> i64| latest.map_or(0, of);
        let order = match &compare.target {
            CompareTarget::Version(given) => number(|latest| latest.version).cmp(given),
            CompareTarget::Create(given) => number(|latest| latest.create_revision).cmp(given),
            CompareTarget::Mod(given) => number(|latest| latest.place.main).cmp(given),
            CompareTarget::Lease(given) => number(|latest| latest.lease).cmp(given),
            CompareTarget::Value(given) => {
                let Some(latest) = latest else { return Ok(false) };
                self.whole(key, latest)?.value.cmp(given)
            }
        };
        Ok(match compare.result {
            CompareResult::Equal => order.is_eq(),
            CompareResult::NotEqual => order.is_ne(),
            CompareResult::Greater => order.is_gt(),
            CompareResult::Less => order.is_lt(),
        })
    }

    /// Checks the operations that will be done, on the state before the transaction.
    fn check(&self, txn: &Txn, succeeded: bool, nested: &mut dyn Iterator<Item = bool>) -> Result<(), Error> {
        for op in branch(txn, succeeded) {
            match op {
                Op::Range(op) => {
                    if op.revision > self.revision {
                        return Err(Error::FutureRevision { requested: op.revision, current: self.revision });
                    }
                    if op.revision > 0 && op.revision < self.store.compacted {
                        let compacted = self.store.compacted;
                        return Err(Error::Compacted { requested: op.revision, compacted });
                    }
                }
                Op::Put(op) => self.check_put(op)?,
                Op::Delete(op) => {
                    if op.range.is_single() && op.range.key.is_empty() {
                        return Err(Error::EmptyKey);
                    }
                }
                Op::Txn(inner) => {
                    let succeeded = nested.next().expect("every nested transaction was decided");
                    self.check(inner, succeeded, nested)?;
                }
            }
        }
        Ok(())
    }

    fn check_put(&self, op: &PutOp) -> Result<(), Error> {
        if op.key.is_empty() {
            return Err(Error::EmptyKey);
        }
        if op.key.len() > KEY_BYTES_MAX {
            return Err(Error::TooLarge { size: op.key.len(), limit: KEY_BYTES_MAX });
        }
        if op.value.len() > VALUE_BYTES_MAX {
            return Err(Error::TooLarge { size: op.value.len(), limit: VALUE_BYTES_MAX });
        }
        if op.lease != 0 && !op.ignore_lease && !self.lessor.contains(op.lease) {
            return Err(Error::LeaseNotFound(op.lease));
        }
        if (op.ignore_value || op.ignore_lease) && self.latest(&op.key).is_none() {
            return Err(Error::KeyNotFound);
        }
        Ok(())
    }

    fn execute(
        &mut self,
        txn: &Txn,
        succeeded: bool,
        nested: &mut dyn Iterator<Item = bool>,
        origin: &Origin,
    ) -> Result<TxnResult, Error> {
        let ops = branch(txn, succeeded);
        let mut results = Vec::with_capacity(ops.len());
        for op in ops {
            results.push(match op {
                Op::Range(op) => OpResult::Range(self.range(op)?),
                Op::Put(op) => OpResult::Put(self.put(op, origin)?),
                Op::Delete(op) => OpResult::Delete(self.delete(op, origin)?),
                Op::Txn(inner) => {
                    let succeeded = nested.next().expect("every nested transaction was decided");
                    OpResult::Txn(self.execute(inner, succeeded, nested, origin)?)
                }
            });
        }
        Ok(TxnResult { succeeded, results, revision: self.revision + i64::from(self.subs > 0) })
    }

    fn put(&mut self, op: &PutOp, origin: &Origin) -> Result<PutResult, Error> {
        let prev = match self.latest(&op.key) {
            Some(latest) => Some((latest.place, self.whole(&op.key, &latest)?)),
            None => None,
        };
        let before = prev.as_ref().map(|(_, kv)| kv);
        let value = match before {
            Some(kv) if op.ignore_value => kv.value.clone(),
            _ => op.value.clone(),
        };
        let main = self.revision + 1;
        let (key, value) = joined(&op.key, &value);
        let kv = Arc::new(KeyValue {
            key: key.clone(),
            value,
            create_revision: before.map_or(main, |kv| kv.create_revision),
            mod_revision: main,
            version: before.map_or(1, |kv| kv.version + 1),
            lease: before.filter(|_| op.ignore_lease).map_or(op.lease, |kv| kv.lease),
        });
        let result = PutResult { prev: before.filter(|_| op.prev_kv).map(|kv| KeyValue::clone(kv)) };
        self.write(key, Some(kv), prev, origin)?;
        Ok(result)
    }

    fn delete(&mut self, op: &DeleteOp, origin: &Origin) -> Result<DeleteResult, Error> {
        let mut result = DeleteResult::default();
        let found = if op.range.is_single() {
            self.latest(&op.range.key).map(|latest| (op.range.key.clone(), latest)).into_iter().collect()
        } else {
            let found = self.find(&op.range, i64::MAX);
            let with_state = |key: Found| self.latest(&key.key).map(|latest| (key.key, latest));
            found.into_iter().filter_map(with_state).collect::<Vec<_>>()
        };
        for (key, latest) in found {
            let prev = self.whole(&key, &latest)?;
            result.deleted += 1;
            if op.prev_kv {
                result.prevs.push(KeyValue::clone(&prev));
            }
            self.write(prev.key.clone(), None, Some((latest.place, prev)), origin)?;
        }
        Ok(result)
    }

    /// Writes one key: record, overlay, event.
    fn write(
        &mut self,
        key: Bytes,
        kv: Option<Arc<KeyValue>>,
        prev: Option<(Place, Arc<KeyValue>)>,
        origin: &Origin,
    ) -> Result<(), Error> {
        let place = Place { main: self.revision + 1, sub: self.subs };
        let before = prev.as_ref().map_or(Place::default(), |(place, _)| *place);
        if self.writes.get(&key).and_then(|writes| writes.last()).is_some_and(|last| last.place.main == place.main) {
            return Err(Error::DuplicateKey);
        }
        let record = KeyRecordRef {
            kind: if kv.is_some() { EventKind::Put } else { EventKind::Delete },
            place,
            prev: before,
            key: &key,
            value: kv.as_ref().map_or(&[], |kv| &kv.value),
            create_revision: kv.as_ref().map_or(0, |kv| kv.create_revision),
            version: kv.as_ref().map_or(0, |kv| kv.version),
            lease: kv.as_ref().map_or(0, |kv| kv.lease),
            origin,
        };
        let (at, len) = self.frame.push(|out| record.encode(out));
        let after = match &kv {
            Some(kv) => KeyValue::clone(kv),
            None => KeyValue { key: key.clone(), mod_revision: place.main, ..KeyValue::default() },
        };
        let prev = prev.map(|(_, kv)| kv);
        self.events.push(Arc::new(Event::new(record.kind, after, prev, i64::from(place.sub))));
        self.writes.entry(key).or_default().push(Pending { place, kv, at, len });
        self.subs += 1;
        Ok(())
    }

    fn range(&self, op: &RangeOp) -> Result<RangeResult, Error> {
        let current = self.revision + i64::from(self.subs > 0);
        let untouched = self.touched(&op.range).next().is_none();
        let revision = if op.revision > 0 { op.revision } else { i64::MAX };
        let fetch = |found: &Found| self.fetcher.fetch_pinned(&found.key, &found.version);
        let count = if untouched { self.store.count_at(&op.range, revision) } else { None };
        if let Some(count) = count
            && (op.count_only || (op.limit > 0 && !read::needs_all(op)))
        {
            let mut found = Vec::new();
            if !op.count_only {
                self.collect(&op.range, revision, op.limit, &mut found);
            }
            return read::answer(op, found, count, current, fetch);
        }
        let found = self.find(&op.range, revision);
        let count = found.len();
        read::answer(op, found, count, current, fetch)
    }

    /// The group's writes in a range.
    fn touched<'s>(&'s self, range: &'s KeyRange) -> impl Iterator<Item = (&'s Bytes, &'s Vec<Pending>)> {
        let end = match &range.end {
            RangeEnd::Single => std::ops::Bound::Included(range.key.clone()),
            RangeEnd::Before(end) if *end <= range.key => std::ops::Bound::Excluded(range.key.clone()),
            RangeEnd::Before(end) => std::ops::Bound::Excluded(end.clone()),
            RangeEnd::Unbounded => std::ops::Bound::Unbounded,
        };
        let start = match &end {
            // A map's range must not be empty at its excluded start; this one is then empty by `contains`.
            std::ops::Bound::Excluded(end) if *end == range.key => std::ops::Bound::Unbounded,
            _ => std::ops::Bound::Included(range.key.clone()),
        };
        self.writes.range((start, end)).filter(|(key, _)| range.contains(key))
    }

    /// All live keys of a range at a revision, as the group sees them.
    fn find(&self, range: &KeyRange, revision: i64) -> Vec<Found> {
        let mut found = Vec::new();
        self.collect(range, revision, usize::MAX, &mut found);
        let mut touched = self.touched(range).peekable();
        if touched.peek().is_none() {
            return found;
        }
        let mut merged: BTreeMap<Bytes, Found> = found.into_iter().map(|found| (found.key.clone(), found)).collect();
        for (key, writes) in touched {
            let Some(last) = writes.iter().rev().find(|write| write.place.main <= revision) else { continue };
            match &last.kv {
                Some(kv) => {
                    let version = Version::new(last.place, false, Location::default());
                    let facts = Some((kv.create_revision, kv.version, kv.lease));
                    merged.insert(key.clone(), Found { key: key.clone(), version, facts, kv: Some(kv.clone()) });
                }
                None => {
                    merged.remove(key);
                }
            }
        }
        merged.into_values().collect()
    }

    fn collect(&self, range: &KeyRange, revision: i64, max: usize, found: &mut Vec<Found>) {
        let mut progress = read::collect(self.store, range, None, revision, max, found);
        while let read::Progress::At(key) = progress {
            progress = read::collect(self.store, range, Some(key), revision, max.saturating_sub(found.len()), found);
        }
    }

    fn latest(&self, key: &[u8]) -> Option<Latest> {
        if !self.writes.is_empty()
            && let Some(last) = self.writes.get(key).and_then(|writes| writes.last())
        {
            return Latest::of_pending(last);
        }
        self.store.index.get(key).and_then(Latest::of_entry)
    }

    fn whole(&self, key: &[u8], latest: &Latest) -> Result<Arc<KeyValue>, Error> {
        match (&latest.kv, &latest.stored) {
            (Some(kv), _) => Ok(kv.clone()),
            (None, Some(version)) => self.fetcher.fetch_pinned(key, version).map(Arc::new),
            (None, None) => unreachable!("a write of the group has its state"),
        }
    }
}

/// The branch that is done.
fn branch(txn: &Txn, succeeded: bool) -> &[Op] {
    if succeeded { &txn.success } else { &txn.failure }
}

/// Key and value in one buffer of their own: what came with a request must not pin the request's buffer.
pub fn joined(key: &[u8], value: &[u8]) -> (Bytes, Bytes) {
    let mut buffer = Vec::with_capacity(key.len() + value.len());
    buffer.extend_from_slice(key);
    buffer.extend_from_slice(value);
    let buffer = Bytes::from(buffer);
    (buffer.slice(..key.len()), buffer.slice(key.len()..))
}

/// Answers a transaction that can change nothing, on the published store alone.
pub fn read_only(store: &Store, fetcher: &Fetcher, lessor: &Lessor, txn: &Txn) -> Result<TxnResult, Error> {
    assert!(!txn.may_write(), "only reads are answered without the log");
    let mut frame = FrameBuilder::new();
    Batch::new(store, fetcher, lessor, &mut frame).run(txn, &Origin::default())
}
