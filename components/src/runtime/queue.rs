//! The work queue's core: keys that wait, keys that are dirty, keys that are being worked on.
//!
//! Four properties, as upstream's: fair (first come, first served), no key twice at once, many producers and
//! consumers, and an orderly end. A key added while it is being worked on runs once more afterwards, however often it
//! was added. The queue is bounded by the number of distinct keys, which are the objects of a cache.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A queue of keys without doubles. Clones are the same queue.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    /// Guards the three sets together; held for map operations only.
    state: Mutex<State<K>>,
    /// Wakes one consumer for each key put in, and all at the end.
    ready: Notify,
}

struct State<K> {
    /// Keys to hand out, in order. Each is in `dirty` and none is in `processing`.
    waiting: VecDeque<K>,
    /// Keys that need a run.
    dirty: HashSet<K>,
    /// Keys handed out and not yet done.
    processing: HashSet<K>,
    closed: bool,
}

impl<K: Eq + Hash + Clone> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Eq + Hash + Clone> Queue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        let state =
            State { waiting: VecDeque::new(), dirty: HashSet::new(), processing: HashSet::new(), closed: false };
        Queue { shared: Arc::new(Shared { state: Mutex::new(state), ready: Notify::new() }) }
    }

    /// Puts a key in, unless it waits already or the queue is closed.
    pub fn add(&self, key: K) {
        let mut state = self.shared.state.lock();
        if state.closed || !state.dirty.insert(key.clone()) || state.processing.contains(&key) {
            return;
        }
        state.waiting.push_back(key);
        drop(state);
        self.shared.ready.notify_one();
    }

    /// The next key, if one waits. The caller must call [`Queue::done`] with it.
    pub fn try_get(&self) -> Option<K> {
        let mut state = self.shared.state.lock();
        let key = state.waiting.pop_front()?;
        state.dirty.remove(&key);
        state.processing.insert(key.clone());
        let more = !state.waiting.is_empty();
        drop(state);
        if more {
            // Notify stores one permit only: pass the word on, so that no key waits while a consumer sleeps.
            self.shared.ready.notify_one();
        }
        Some(key)
    }

    /// The next key; `None` when the queue is closed and empty. Cancel safe: a key is handed out only with the return.
    pub async fn get(&self) -> Option<K> {
        loop {
            let notified = self.shared.ready.notified();
            if let Some(key) = self.try_get() {
                return Some(key);
            }
            if self.is_closed() {
                self.shared.ready.notify_one();
                return None;
            }
            notified.await;
        }
    }

    /// Tells that the run of a key has ended; if it was added meanwhile, it waits again.
    pub fn done(&self, key: &K) {
        let mut state = self.shared.state.lock();
        if state.processing.remove(key) && state.dirty.contains(key) {
            state.waiting.push_back(key.clone());
            drop(state);
            self.shared.ready.notify_one();
        }
    }

    /// Takes no more keys; what waits is still handed out.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.ready.notify_waiters();
        self.shared.ready.notify_one();
    }

    /// Whether [`Queue::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().closed
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns when a key may have come or the queue was closed.
    pub(super) async fn changed(&self) {
        self.shared.ready.notified().await;
    }

    /// Wakes one consumer, which then looks again.
    pub(super) fn wake(&self) {
        self.shared.ready.notify_one();
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue { shared: self.shared.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        Add(u8),
        Get,
        Done(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            3 => (0..6_u8).prop_map(Op::Add),
            2 => Just(Op::Get),
            2 => (0..8_usize).prop_map(Op::Done),
        ];
        prop::collection::vec(op, 0..200)
    }

    proptest! {
        /// Whatever is done to it: no key is handed out twice at once, first come is first served, and a key that was
        /// added after its run began runs once more.
        #[test]
        fn a_queue_behaves_as_its_model(ops in ops()) {
            let queue = Queue::new();
            let mut order: VecDeque<u8> = VecDeque::new();
            let mut running: Vec<u8> = Vec::new();
            let mut again: HashSet<u8> = HashSet::new();
            for op in ops {
                match op {
                    Op::Add(key) => {
                        queue.add(key);
                        if running.contains(&key) {
                            again.insert(key);
                        } else if !order.contains(&key) {
                            order.push_back(key);
                        }
                    }
                    Op::Get => {
                        let got = queue.try_get();
                        prop_assert_eq!(got, order.pop_front());
                        if let Some(key) = got {
                            prop_assert!(!running.contains(&key));
                            running.push(key);
                        }
                    }
                    Op::Done(index) if !running.is_empty() => {
                        let key = running.swap_remove(index % running.len());
                        queue.done(&key);
                        if again.remove(&key) {
                            order.push_back(key);
                        }
                    }
                    Op::Done(_) => {}
                }
                prop_assert_eq!(queue.len(), order.len());
            }
        }
    }

    #[tokio::test]
    async fn a_closed_queue_hands_out_what_waits_and_then_ends_for_all() {
        let queue = Queue::new();
        queue.add("a");
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move {
                    let mut got = Vec::new();
                    while let Some(key) = queue.get().await {
                        got.push(key);
                        queue.done(&key);
                    }
                    got
                })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.add("b");
        queue.close();
        queue.add("late");
        let mut all = Vec::new();
        for consumer in consumers {
            all.extend(consumer.await.expect("no panic"));
        }
        all.sort_unstable();
        assert_eq!(all, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_cancelled_consumer_takes_no_key_with_it() {
        let queue = Queue::new();
        let mut waiting = Box::pin(queue.get());
        assert!(futures::poll!(&mut waiting).is_pending());
        queue.add("a");
        drop(waiting);
        assert_eq!(queue.get().await, Some("a"));
    }
}
