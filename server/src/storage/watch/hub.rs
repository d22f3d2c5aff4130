//! Where events go out to watchers, and the window of recent events that those who fell behind read first.
//!
//! Invariants: events enter in order, one group at a time; a watcher sees events only up to `dispatched`, which moves
//! when a whole group is in, so that no revision is ever seen in part; a full queue never blocks the hub.
//!
//! Lock order: the hub's lock, then a watcher's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::group::Groups;
use super::watcher::{WatchError, WatchOptions, WatcherInfo, WatcherShared};
use crate::storage::Event;

/// Bytes of keys and values kept in the window, the newest at least.
const WINDOW_BYTES_MAX: usize = 16 << 20;
/// Events kept in the window.
const WINDOW_EVENTS_MAX: usize = 32 << 10;
/// Events looked at under one hold of the hub's lock by a watcher that catches up: some 20 µs.
const WINDOW_STEP_EVENTS: usize = 1024;

/// Where events go out.
#[derive(Debug)]
pub struct Hub {
    /// Every event at or below this revision is in the queues, or its watcher knows that it is behind.
    dispatched: AtomicI64,
    next_id: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    watchers: HashMap<u64, Arc<WatcherShared>>,
    groups: Groups<WatcherShared>,
    window: Window,
    closed: bool,
    /// Watchers that got something from the group under way; kept to save the allocation.
    touched: Vec<Arc<WatcherShared>>,
}

/// The newest events.
#[derive(Debug)]
struct Window {
    /// All events above this revision are there.
    since: i64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

/// What the window has for a watcher that is behind.
#[derive(Debug)]
pub(super) enum FromWindow {
    /// The watcher has caught up and gets live events from now on.
    Attached,
    /// Matching events up to a revision; there is more.
    Part(Vec<Arc<Event>>, i64),
    /// The window begins later; the log must be read, up to this revision at most.
    TooOld(i64),
}

impl Hub {
    /// A hub for a store that stands at a revision.
    pub fn new(revision: i64) -> Self {
        let window = Window { since: revision, events: VecDeque::new(), bytes: 0 };
        let (watchers, groups, touched) = (HashMap::new(), Groups::default(), Vec::new());
        Self {
            dispatched: AtomicI64::new(revision),
            next_id: AtomicU64::new(1),
            state: Mutex::new(State { watchers, groups, window, closed: false, touched }),
        }
    }

    /// Every event at or below this revision has gone out.
    pub fn dispatched(&self) -> i64 {
        self.dispatched.load(Ordering::Acquire)
    }

    /// Sends out the events of a published group, after which the store stands at `revision`.
    pub fn dispatch(&self, events: Vec<Arc<Event>>, revision: i64) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let touched = &mut state.touched;
        let group = self.dispatched();
        for event in &events {
            state.groups.interested(&event.kv.key, &mut |watcher| {
                if watcher.offer(event, group) {
                    touched.push(watcher.clone());
                }
            });
        }
        state.window.extend(events);
        self.dispatched.store(revision, Ordering::Release);
        for watcher in touched.drain(..) {
            watcher.wake();
        }
    }

    /// Adds a watcher; `published` is where the store stands for readers, which may be ahead of what has gone out.
    pub(super) fn join(&self, options: WatchOptions, published: i64) -> Result<Arc<WatcherShared>, WatchError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(WatchError::Closed);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let watcher = Arc::new(WatcherShared::new(id, options, self.dispatched().max(published)));
        state.groups.insert(&watcher.options.range, watcher.clone());
        state.watchers.insert(id, watcher.clone());
        Ok(watcher)
    }

    /// Takes a watcher out.
    pub(super) fn leave(&self, watcher: &Arc<WatcherShared>) {
        let mut state = self.state.lock();
        if state.watchers.remove(&watcher.id).is_some() {
            state.groups.remove(&watcher.options.range, watcher);
        }
    }

    /// What the window holds for a watcher behind, from a revision on.
    pub(super) fn read_window(&self, watcher: &WatcherShared, from: i64, bytes_max: usize) -> FromWindow {
        let state = self.state.lock();
        let dispatched = self.dispatched();
        if from > dispatched {
            watcher.attach(dispatched);
            return FromWindow::Attached;
        }
        if from <= state.window.since {
            return FromWindow::TooOld(state.window.since.min(dispatched));
        }
        let events = &state.window.events;
        let first = events.partition_point(|event| event.revision() < from);
        let mut part = Vec::new();
        let mut bytes = 0;
        let mut last = 0;
        for (seen, event) in events.range(first..).enumerate() {
            if event.revision() != last && (seen >= WINDOW_STEP_EVENTS || bytes >= bytes_max) {
                return FromWindow::Part(part, last);
            }
            last = event.revision();
            if watcher.wants(event) {
                bytes += event.size();
                part.push(event.clone());
            }
        }
        // The rest of history is in hand: from here on the queue takes over.
        watcher.attach(dispatched);
        FromWindow::Part(part, dispatched)
    }

    /// All watchers, by number.
    pub fn watchers(&self) -> Vec<WatcherInfo> {
        let mut infos: Vec<_> = {
            let state = self.state.lock();
            let dispatched = self.dispatched();
            state.watchers.values().map(|watcher| watcher.info(dispatched)).collect()
        };
        infos.sort_by_key(|info| info.id);
        infos
    }

    /// How many watchers there are.
    pub fn len(&self) -> usize {
        self.state.lock().watchers.len()
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends all watches and takes no new ones.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for watcher in state.watchers.values() {
            watcher.end(WatchError::Closed);
        }
    }
}

impl Window {
    fn extend(&mut self, events: Vec<Arc<Event>>) {
        for event in events {
            self.bytes += event.size();
            self.events.push_back(event);
        }
        while self.events.len() > WINDOW_EVENTS_MAX || (self.bytes > WINDOW_BYTES_MAX && self.events.len() > 1) {
            let Some(gone) = self.events.pop_front() else { return };
            self.bytes -= gone.size();
            self.since = gone.revision();
        }
    }
}
