//! What is published: the index with the numbers that go with it, under one lock.
//!
//! Invariants: everything here is durable; `compacted` and `retained` never go back; the bytes of cached values stay
//! within the budget (but for the value written last).

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::index::Index;
use super::key_index::{CACHED_OVERHEAD_BYTES, KeyEntry, Version};
use crate::storage::revision::Revision;
use crate::storage::state::{Compactions, PendingFloor};
use crate::storage::{KeyRange, KeyValue};

/// Births and deaths of keys that are remembered, so that a page at a recent revision can tell its total without a walk.
const TURNS_MAX: usize = 32 << 10;
/// Entries looked at for each eviction run, so that it never holds the lock for long.
const EVICT_VISITS_MAX: usize = 4 << 10;

/// The published store.
#[derive(Debug)]
pub struct Store {
    /// All keys.
    pub index: Index,
    /// Where the store stands.
    pub revision: i64,
    /// The floor promised to etcd's clients; 0 before the first compaction.
    pub compacted: i64,
    /// The floor of what is physically there.
    pub retained: i64,
    /// Bytes of live keys and values, from the records' lengths.
    pub live_bytes: i64,
    /// Whether there ever was a compaction: one of revision 0 is answered once (etcd 3.6).
    was_compacted: bool,
    /// Compactions that have not yet moved `retained`, oldest first.
    pending: VecDeque<PendingFloor>,
    cache: Cache,
    turns: Turns,
}

#[derive(Debug)]
struct Cache {
    budget: usize,
    used: usize,
    /// The key from which the next eviction run goes on.
    hand: Box<[u8]>,
}

/// The last births and deaths, oldest first.
#[derive(Debug)]
struct Turns {
    /// Complete for revisions above this.
    since: i64,
    list: VecDeque<Turn>,
}

#[derive(Debug)]
struct Turn {
    main: i64,
    key: Box<[u8]>,
    born: bool,
}

/// A write that is to be published.
#[derive(Debug)]
pub struct Published {
    /// Where its record lies.
    pub version: Version,
    /// The state after it; `None` = deleted.
    pub kv: Option<Arc<KeyValue>>,
}

impl Store {
    /// An empty store with a budget for cached values.
    pub fn new(cache_bytes: usize) -> Self {
        Self {
            index: Index::new(),
            revision: Revision::EMPTY.0,
            compacted: 0,
            retained: 0,
            live_bytes: 0,
            was_compacted: false,
            pending: VecDeque::new(),
            cache: Cache { budget: cache_bytes, used: 0, hand: Box::default() },
            turns: Turns { since: Revision::EMPTY.0, list: VecDeque::new() },
        }
    }

    /// Publishes one write of a key. The caller moves `revision` when the whole group is in.
    pub fn publish(&mut self, key: &[u8], write: Published) {
        let main = write.version.main;
        let mut outcome = Outcome::default();
        self.index.upsert(
            key,
            (write, &mut outcome),
            |entry, (write, outcome)| {
                outcome.was_live = entry.is_live();
                outcome.freed = entry.cached_bytes();
                outcome.live_bytes = -live_bytes(entry);
                entry.push(write.version);
                set_latest(entry, write.kv);
                outcome.taken = entry.cached_bytes();
                outcome.is_live = entry.is_live();
                outcome.live_bytes += live_bytes(entry);
            },
            |(write, outcome)| {
                let mut entry = KeyEntry {
                    key: key.into(),
                    head: write.version,
                    create_revision: 0,
                    version: 0,
                    lease: 0,
                    cached: None,
                    older: None,
                };
                set_latest(&mut entry, write.kv);
                outcome.taken = entry.cached_bytes();
                outcome.is_live = entry.is_live();
                outcome.live_bytes = live_bytes(&entry);
                entry
            },
        );
        self.cache.used = self.cache.used + outcome.taken - outcome.freed;
        self.live_bytes += outcome.live_bytes;
        if outcome.was_live != outcome.is_live {
            self.turns.push(Turn { main, key: key.into(), born: outcome.is_live });
        }
    }

    /// Takes in a version that a start has found, in whatever order. Answers whether it is the key's newest now. `facts`
    /// are create revision, version and lease, where they are known.
    pub fn admit(&mut self, key: &[u8], version: Version, facts: Option<(i64, i64, i64)>) -> bool {
        let mut newest = false;
        let mut change = 0;
        let mut freed = 0;
        self.index.upsert(
            key,
            (&mut newest, &mut change),
            |entry, (newest, change)| {
                *change = -live_bytes(entry);
                freed = entry.cached_bytes();
                *newest = entry.admit(version, facts);
                freed -= entry.cached_bytes();
                *change += live_bytes(entry);
            },
            |(newest, change)| {
                let (create_revision, count, lease) = facts.unwrap_or_default();
                let key = key.into();
                let entry =
                    KeyEntry { key, head: version, create_revision, version: count, lease, cached: None, older: None };
                *newest = true;
                *change = live_bytes(&entry);
                entry
            },
        );
        self.live_bytes += change;
        self.cache.used -= freed;
        newest
    }

    /// Keeps the newest state of a key that a start has read anyway, while the budget allows.
    pub fn warm(&mut self, kv: impl FnOnce() -> KeyValue, key: &[u8], bytes: usize) {
        if self.cache.used + bytes + CACHED_OVERHEAD_BYTES > self.cache.budget {
            return;
        }
        let taken = self.index.update(key, |entry| {
            let before = entry.cached_bytes();
            entry.cached = Some(Arc::new(kv()));
            entry.cached_bytes() - before
        });
        self.cache.used += taken.unwrap_or(0);
    }

    /// The last compaction, if there was one.
    pub fn last_compacted(&self) -> Option<i64> {
        self.was_compacted.then_some(self.compacted)
    }

    /// Notes a compaction that is durable: `compacted` moves now, `retained` with `expire` only.
    pub fn note_compaction(&mut self, revision: i64, expire: bool, wall_ms: i64) {
        self.was_compacted = true;
        self.compacted = self.compacted.max(revision);
        if expire {
            self.retained = self.retained.max(revision);
            self.pending.retain(|pending| pending.revision > revision);
        } else {
            self.pending.push_back(PendingFloor { revision, wall_ms });
        }
    }

    /// Moves `retained` to the last compaction that is at least `grace_ms` old; answers whether it moved.
    pub fn age_floor(&mut self, now_wall_ms: i64, grace_ms: i64) -> bool {
        let before = self.retained;
        while let Some(first) = self.pending.front()
            && first.wall_ms.saturating_add(grace_ms) <= now_wall_ms
        {
            self.retained = self.retained.max(first.revision);
            self.pending.pop_front();
        }
        self.retained > before
    }

    /// When the oldest compaction that has not moved `retained` was asked for, in wall-clock milliseconds.
    pub fn next_floor_wall_ms(&self) -> Option<i64> {
        self.pending.front().map(|pending| pending.wall_ms)
    }

    /// The compactions as the state keeps them.
    pub fn compactions(&self) -> Compactions {
        Compactions { compacted: self.compacted, pending: self.pending.iter().copied().collect() }
    }

    /// Takes over floors that the state kept.
    pub fn restore_floors(&mut self, compactions: Compactions, retained: i64) {
        self.was_compacted = compactions.compacted > 0 || retained > 0;
        self.compacted = compactions.compacted;
        self.retained = retained;
        self.pending = compactions.pending.into();
        // Those of no time had been due before.
        self.age_floor(0, 0);
    }

    /// Lets go of cached values beyond the budget, taking turns through the keys.
    pub fn evict(&mut self) {
        let cache = &mut self.cache;
        let mut visits = 0;
        while cache.used > cache.budget && visits < EVICT_VISITS_MAX {
            let hand = std::mem::take(&mut cache.hand);
            let first_visit = visits;
            self.index.visit_mut(&hand, &mut |entry| {
                if cache.used <= cache.budget || visits >= EVICT_VISITS_MAX {
                    cache.hand = entry.key.clone();
                    return ControlFlow::Break(());
                }
                visits += 1;
                cache.used -= entry.cached_bytes();
                entry.cached = None;
                ControlFlow::Continue(())
            });
            // At the end of the keys the hand is empty, and the next run begins at the first one.
            if hand.is_empty() && visits == first_visit {
                return;
            }
        }
    }

    /// Bytes of cached values.
    pub fn cached_bytes(&self) -> usize {
        self.cache.used
    }

    /// Notes bytes that left the cache because their key was taken out of the index.
    pub fn note_removed(&mut self, entry: &KeyEntry) {
        self.cache.used -= entry.cached_bytes();
        self.live_bytes -= live_bytes(entry);
    }

    /// Begins anew with remembering births and deaths, after a start has filled the index.
    pub fn settle(&mut self) {
        self.turns = Turns { since: self.revision, list: VecDeque::new() };
    }

    /// How many keys of a range lived at a revision, if that can be told without looking at each.
    pub fn count_at(&self, range: &KeyRange, revision: i64) -> Option<usize> {
        let now = self.index.count(range);
        if revision >= self.revision {
            return Some(now);
        }
        if revision < self.turns.since {
            return None;
        }
        let first = self.turns.list.partition_point(|turn| turn.main <= revision);
        let later = self.turns.list.range(first..).filter(|turn| range.contains(&turn.key));
        let change: i64 = later.map(|turn| if turn.born { 1 } else { -1 }).sum();
        Some(usize::try_from(now as i64 - change).expect("a count at a past revision is not negative"))
    }
}

#[derive(Default)]
struct Outcome {
    was_live: bool,
    is_live: bool,
    freed: usize,
    taken: usize,
    live_bytes: i64,
}

fn live_bytes(entry: &KeyEntry) -> i64 {
    if entry.is_live() { i64::from(entry.head.len) } else { 0 }
}

fn set_latest(entry: &mut KeyEntry, kv: Option<Arc<KeyValue>>) {
    let (create_revision, version, lease) =
        kv.as_ref().map_or((0, 0, 0), |kv| (kv.create_revision, kv.version, kv.lease));
    entry.create_revision = create_revision;
    entry.version = version;
    entry.lease = lease;
    entry.cached = kv;
}

impl Turns {
    fn push(&mut self, turn: Turn) {
        self.list.push_back(turn);
        if self.list.len() > TURNS_MAX
            && let Some(gone) = self.list.pop_front()
        {
            self.since = gone.main;
        }
    }
}
