//! A queue that makes a failing key wait longer each time.
//!
//! Upstream's per-item limiter: 5 ms, doubled with each failure, at most 1,000 s. There is no global bucket: limits
//! that are not asked for only hide how fast the rest is.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::DelayingQueue;

/// The first wait of a failing key.
const FIRST: Duration = Duration::from_millis(5);
/// The longest wait of a failing key.
const CAP: Duration = Duration::from_secs(1000);

/// A [`DelayingQueue`] that counts failures. Clones are the same queue.
pub struct RateLimitedQueue<K> {
    queue: DelayingQueue<K>,
    /// Failures in a row; keys without any are not in it.
    failures: Arc<Mutex<HashMap<K, u32>>>,
}

impl<K: Eq + Hash + Clone> Default for RateLimitedQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Eq + Hash + Clone> RateLimitedQueue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        RateLimitedQueue { queue: DelayingQueue::new(), failures: Arc::default() }
    }

    /// Puts a key in now.
    pub fn add(&self, key: K) {
        self.queue.add(key);
    }

    /// Puts a key in after a while.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.queue.add_after(key, delay);
    }

    /// Puts a key in after its run has failed: later each time, but never later than `cap`. The wait comes back.
    pub fn add_failed(&self, key: K, cap: Duration) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(key.clone()).or_insert(0);
        let wait = FIRST.saturating_mul(1_u32.checked_shl(*count).unwrap_or(u32::MAX)).min(CAP).min(cap);
        *count = count.saturating_add(1);
        drop(failures);
        self.queue.add_after(key, wait);
        wait
    }

    /// Puts a key in after its run has failed, under upstream's cap.
    pub fn add_rate_limited(&self, key: K) -> Duration {
        self.add_failed(key, CAP)
    }

    /// The run of the key has succeeded: its next failure waits the least.
    pub fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    /// How often the key has failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }

    /// The next key; `None` when the queue is closed and empty. Cancel safe.
    pub async fn get(&self) -> Option<K> {
        self.queue.get().await
    }

    /// Tells that the run of a key has ended.
    pub fn done(&self, key: &K) {
        self.queue.done(key);
    }

    /// Takes no more keys; what waits now is still handed out.
    pub fn close(&self) {
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
}

impl<K> Clone for RateLimitedQueue<K> {
    fn clone(&self) -> Self {
        RateLimitedQueue { queue: self.queue.clone(), failures: self.failures.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failing_key_waits_twice_as_long_each_time_until_it_succeeds() {
        let queue = RateLimitedQueue::new();
        let waits: Vec<_> = (0..4).map(|_| queue.add_rate_limited("a").as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 40]);
        assert_eq!(queue.failures(&"a"), 4);
        assert_eq!(queue.add_failed("a", Duration::from_millis(50)).as_millis(), 50);
        assert_eq!(queue.add_rate_limited("b").as_millis(), 5);
        queue.forget(&"a");
        assert_eq!(queue.add_rate_limited("a").as_millis(), 5);
        for _ in 0..200 {
            queue.add_rate_limited("c");
        }
        assert_eq!(queue.add_rate_limited("c"), CAP);
    }
}
