//! A store in memory for unit tests: the second implementation of [`Store`], with all history until told otherwise.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::registry::store::{Commit, Guard, Page, Store, StoreError, StoreEvents, StoreWatch, StoreWatcher, Write};
use crate::storage::{Event, EventKind, KeyRange, KeyValue, Origin};

/// The store. Clones are the same store.
#[derive(Clone, Debug)]
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    revision: i64,
    oldest: i64,
    current: BTreeMap<Bytes, KeyValue>,
    log: Vec<Arc<Event>>,
    leases: i64,
    ended: HashSet<i64>,
    refuse: u32,
    /// Called at the next write.
    wakers: Vec<Waker>,
}

impl MemoryStore {
    /// An empty store at revision 1.
    pub(crate) fn new() -> Self {
        let state = State {
            revision: 1,
            oldest: 1,
            current: BTreeMap::new(),
            log: Vec::new(),
            leases: 0,
            ended: HashSet::new(),
            refuse: 0,
            wakers: Vec::new(),
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state) }) }
    }

    /// Forgets history below this revision.
    pub(crate) fn expire(&self, oldest: i64) {
        self.shared.state.lock().oldest = oldest;
    }

    /// Writes past the registry, as etcdctl would.
    pub(crate) fn put(&self, key: &str, value: &str) -> i64 {
        let (key, value) = (Bytes::from(key.to_owned()), Bytes::from(value.to_owned()));
        self.apply(&[], &[Write::Put { key, value, lease: 0 }]).expect("no guard")
    }

    /// The keys in the store.
    pub(crate) fn keys(&self) -> Vec<String> {
        let state = self.shared.state.lock();
        state.current.keys().map(|k| String::from_utf8_lossy(k).into_owned()).collect()
    }

    /// Lets the next commits be refused, as if somebody else had written in between.
    pub(crate) fn refuse_next(&self, commits: u32) {
        self.shared.state.lock().refuse = commits;
    }

    /// Ends the leases granted so far, without deleting their keys.
    pub(crate) fn end_leases(&self) {
        let mut state = self.shared.state.lock();
        state.ended = (1..=state.leases).collect();
    }

    fn apply(&self, guards: &[Guard], writes: &[Write]) -> Option<i64> {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        let holds = |g: &Guard| state.current.get(&g.key).map_or(0, |kv| kv.mod_revision) == g.mod_revision;
        if !guards.iter().all(holds) {
            return None;
        }
        let revision = state.revision + 1;
        for (sub, write) in writes.iter().enumerate() {
            let event = match write {
                Write::Put { key, value, lease } => {
                    let prev = state.current.get(key).cloned();
                    let kv = KeyValue {
                        key: key.clone(),
                        value: value.clone(),
                        create_revision: prev.as_ref().map_or(revision, |p| p.create_revision),
                        mod_revision: revision,
                        version: prev.as_ref().map_or(1, |p| p.version + 1),
                        lease: *lease,
                    };
                    state.current.insert(key.clone(), kv.clone());
                    Event::new(EventKind::Put, kv, prev.map(Arc::new), sub as i64)
                }
                Write::Delete { key } => {
                    // As in etcd: what is not there is no event.
                    let Some(prev) = state.current.remove(key) else { continue };
                    let kv = KeyValue { key: key.clone(), mod_revision: revision, ..KeyValue::default() };
                    Event::new(EventKind::Delete, kv, Some(Arc::new(prev)), sub as i64)
                }
            };
            state.log.push(Arc::new(event));
        }
        state.revision = revision;
        state.wakers.drain(..).for_each(Waker::wake);
        Some(revision)
    }
}

impl State {
    fn at(&self, range: &KeyRange, revision: i64) -> BTreeMap<Bytes, KeyValue> {
        let mut keys = BTreeMap::new();
        let seen = |e: &&Arc<Event>| e.revision() <= revision && range.contains(&e.kv.key);
        for event in self.log.iter().filter(seen) {
            match event.kind {
                EventKind::Put => keys.insert(event.kv.key.clone(), event.kv.clone()),
                EventKind::Delete => keys.remove(&event.kv.key),
            };
        }
        keys
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>, _origin: &Origin) -> Result<Commit, StoreError> {
        {
            let mut state = self.shared.state.lock();
            if state.refuse > 0 {
                state.refuse -= 1;
                return Ok(Commit::Refused);
            }
            let hangs = |w: &Write| matches!(w, Write::Put { lease, .. } if state.ended.contains(lease));
            if writes.iter().any(hangs) {
                return Err(StoreError::LeaseEnded);
            }
        }
        Ok(self.apply(&guards, &writes).map_or(Commit::Refused, Commit::Done))
    }

    async fn get(&self, key: &[u8]) -> Result<(Option<KeyValue>, i64), StoreError> {
        let state = self.shared.state.lock();
        Ok((state.current.get(key).cloned(), state.revision))
    }

    async fn range(&self, range: &KeyRange, revision: i64, limit: usize) -> Result<Page, StoreError> {
        let state = self.shared.state.lock();
        let (current, oldest) = (state.revision, state.oldest);
        let revision = if revision <= 0 { current } else { revision };
        if revision > current {
            return Err(StoreError::Future { requested: revision, current });
        }
        if revision < oldest {
            return Err(StoreError::Compacted { requested: revision, oldest, current });
        }
        let keys = state.at(range, revision);
        let count = keys.len();
        let limit = if limit == 0 { count } else { limit };
        let kvs: Vec<_> = keys.into_values().take(limit).collect();
        Ok(Page { more: kvs.len() < count, kvs, count: count as i64, revision })
    }

    async fn watch(
        &self,
        range: &KeyRange,
        start: i64,
        _watcher: &StoreWatcher,
    ) -> Result<Box<dyn StoreWatch>, StoreError> {
        let state = self.shared.state.lock();
        let start = if start <= 0 { state.revision + 1 } else { start };
        if start < state.oldest {
            return Err(StoreError::Compacted { requested: start, oldest: state.oldest, current: state.revision });
        }
        Ok(Box::new(MemoryWatch { store: self.clone(), range: range.clone(), progress: start - 1 }))
    }

    async fn lease(&self, _ttl_secs: i64) -> Result<i64, StoreError> {
        let mut state = self.shared.state.lock();
        state.leases += 1;
        Ok(state.leases)
    }

    fn revision(&self) -> i64 {
        self.shared.state.lock().revision
    }

    fn oldest(&self) -> i64 {
        self.shared.state.lock().oldest
    }

    fn incarnation(&self) -> &str {
        "memory"
    }
}

#[derive(Debug)]
struct MemoryWatch {
    store: MemoryStore,
    range: KeyRange,
    progress: i64,
}

impl MemoryWatch {
    /// The events of the next revision that has some.
    fn take(&mut self) -> Result<Option<StoreEvents>, StoreError> {
        let state = self.store.shared.state.lock();
        if self.progress + 1 < state.oldest {
            return Err(StoreError::Compacted { requested: 0, oldest: state.oldest, current: state.revision });
        }
        let seen = state.log.partition_point(|e| e.revision() <= self.progress);
        let log = &state.log[seen..];
        let Some(revision) = log.iter().find(|e| self.range.contains(&e.kv.key)).map(|e| e.revision()) else {
            self.progress = self.progress.max(state.revision);
            return Ok(None);
        };
        let events = log.iter().filter(|e| e.revision() == revision && self.range.contains(&e.kv.key));
        let events = events.cloned().collect();
        self.progress = revision;
        Ok(Some(StoreEvents { revision, events }))
    }
}

impl StoreWatch for MemoryWatch {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<StoreEvents>, StoreError>> {
        // Registered first, so that what comes in between wakes.
        self.store.shared.state.lock().wakers.push(context.waker().clone());
        match self.take() {
            Ok(Some(events)) => Poll::Ready(Ok(Some(events))),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn progress(&self) -> i64 {
        self.progress
    }
}
