//! A queue whose keys may be put in for later.
//!
//! There is no timer task: consumers themselves wait for the earliest due key. A key put in twice for later keeps the
//! earlier time; a key put in now keeps its later time too, since that may have been asked for another reason.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::Queue;
use crate::clock::timer_now;

/// A [`Queue`] with a waiting room. Clones are the same queue.
pub struct DelayingQueue<K> {
    queue: Queue<K>,
    /// Guards the waiting room; held for map operations only.
    later: Arc<Mutex<Later<K>>>,
}

struct Later<K> {
    /// When each key is due. The heap may hold entries that no longer agree with it; they are skipped.
    due: HashMap<K, Instant>,
    heap: BinaryHeap<Reverse<Entry<K>>>,
    sequence: u64,
}

struct Entry<K> {
    at: Instant,
    sequence: u64,
    key: K,
}

impl<K: Eq + Hash + Clone> Default for DelayingQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Eq + Hash + Clone> DelayingQueue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        let later = Later { due: HashMap::new(), heap: BinaryHeap::new(), sequence: 0 };
        DelayingQueue { queue: Queue::new(), later: Arc::new(Mutex::new(later)) }
    }

    /// Puts a key in now.
    pub fn add(&self, key: K) {
        self.queue.add(key);
    }

    /// Puts a key in after a while.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        if self.queue.is_closed() {
            return;
        }
        let at = timer_now() + delay;
        let mut later = self.later.lock();
        if later.due.get(&key).is_some_and(|earlier| *earlier <= at) {
            return;
        }
        later.due.insert(key.clone(), at);
        let sequence = later.sequence;
        later.sequence += 1;
        later.heap.push(Reverse(Entry { at, sequence, key }));
        let is_next = later.heap.peek().is_some_and(|e| e.0.sequence == sequence);
        drop(later);
        if is_next {
            // A sleeping consumer must learn of the earlier time.
            self.queue.wake();
        }
    }

    /// The next key; `None` when the queue is closed and empty. Cancel safe.
    pub async fn get(&self) -> Option<K> {
        loop {
            let next_due = self.move_due();
            if let Some(key) = self.queue.try_get() {
                if next_due.is_some() {
                    // This consumer goes to work: another one must watch the time.
                    self.queue.wake();
                }
                return Some(key);
            }
            if self.queue.is_closed() {
                self.queue.wake();
                return None;
            }
            tokio::select! {
                // A key has come, an earlier time was set, or the queue was closed.
                () = self.queue.changed() => {}
                // The earliest key is due.
                () = sleep_until(next_due.unwrap_or_else(timer_now)), if next_due.is_some() => {}
            }
        }
    }

    /// Tells that the run of a key has ended.
    pub fn done(&self, key: &K) {
        self.queue.done(key);
    }

    /// Takes no more keys; what waits now is still handed out, what waits for later is dropped.
    pub fn close(&self) {
        let mut later = self.later.lock();
        later.due.clear();
        later.heap.clear();
        drop(later);
        self.queue.close();
    }

    /// How many keys wait to be handed out now.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits to be handed out now.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many keys wait for their time.
    pub fn len_later(&self) -> usize {
        self.later.lock().due.len()
    }

    /// Moves what is due into the queue; the time of the next.
    fn move_due(&self) -> Option<Instant> {
        let now = timer_now();
        let mut later = self.later.lock();
        loop {
            let at = later.heap.peek()?.0.at;
            if at > now {
                return Some(at);
            }
            let Reverse(entry) = later.heap.pop()?;
            if later.due.get(&entry.key) == Some(&entry.at) {
                later.due.remove(&entry.key);
                self.queue.add(entry.key);
            }
        }
    }
}

impl<K> Clone for DelayingQueue<K> {
    fn clone(&self) -> Self {
        DelayingQueue { queue: self.queue.clone(), later: self.later.clone() }
    }
}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl<K> Eq for Entry<K> {}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_come_when_they_are_due_and_the_earlier_time_wins() {
        let queue = DelayingQueue::new();
        let began = timer_now();
        queue.add_after("c", Duration::from_millis(30));
        queue.add_after("b", Duration::from_millis(20));
        queue.add_after("a", Duration::from_millis(60));
        queue.add_after("a", Duration::from_millis(10));
        queue.add_after("b", Duration::from_millis(90));
        assert_eq!(queue.len_later(), 3);
        for (key, millis) in [("a", 10), ("b", 20), ("c", 30)] {
            assert_eq!(queue.get().await, Some(key));
            assert!(began.elapsed() >= Duration::from_millis(millis), "{key} is early");
            queue.done(&key);
        }
        assert_eq!(queue.len_later(), 0);
    }

    #[tokio::test]
    async fn a_sleeping_consumer_hears_of_an_earlier_key() {
        let queue = DelayingQueue::new();
        queue.add_after("late", Duration::from_secs(100));
        let consumer = tokio::spawn({
            let queue = queue.clone();
            async move { (queue.get().await, timer_now()) }
        });
        tokio::task::yield_now().await;
        let began = timer_now();
        queue.add_after("early", Duration::from_millis(10));
        let (key, at) = consumer.await.expect("no panic");
        assert_eq!(key, Some("early"));
        let waited = at - began;
        assert!(waited >= Duration::from_millis(10) && waited < Duration::from_secs(100), "{waited:?}");
    }

    #[tokio::test]
    async fn a_time_is_watched_also_when_the_consumer_that_watched_it_works() {
        let queue = DelayingQueue::new();
        let first = tokio::spawn({
            let queue = queue.clone();
            async move { queue.get().await }
        });
        let second = tokio::spawn({
            let queue = queue.clone();
            async move { queue.get().await }
        });
        tokio::task::yield_now().await;
        queue.add_after("later", Duration::from_millis(20));
        tokio::task::yield_now().await;
        queue.add("now");
        let mut got = [first.await.expect("no panic"), second.await.expect("no panic")];
        got.sort_unstable();
        assert_eq!(got, [Some("later"), Some("now")]);
    }

    #[tokio::test]
    async fn closing_drops_what_waits_for_later() {
        let queue = DelayingQueue::new();
        queue.add_after("later", Duration::from_secs(5));
        queue.add("now");
        queue.close();
        assert_eq!(queue.get().await, Some("now"));
        assert_eq!(queue.get().await, None);
    }
}
