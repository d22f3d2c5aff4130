//! What waits for a watcher: a bounded queue between the cache and one reader.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::super::RegistryEvent;
use super::state::WatchCache;

/// Deliveries that may wait for a reader. Beyond it the reader is let go and catches up from the store, so that a
/// stopped one pins no more than this.
const QUEUE_MAX: usize = 1024;

/// Bytes of objects that may wait for a reader, for the same reason: objects of the largest size would make a queue of a
/// gigabyte.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// The events of one revision for one watcher.
#[derive(Debug)]
pub(in super::super) struct Delivery {
    /// Whose they are.
    pub(in super::super) revision: i64,
    /// In the order of their writes.
    pub(in super::super) events: Vec<RegistryEvent>,
}

/// The queue of one watcher, shared by the cache and the reader.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Delivery>,
    /// Nothing more comes: the reader was too slow, or the cache lost its place.
    lost: bool,
    waker: Option<Waker>,
    /// Bytes of the objects that wait.
    bytes: usize,
    delivered: u64,
    /// The revision of the last delivery taken.
    handed: i64,
}

/// How a queue stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Deliveries that wait.
    pub(super) waiting: usize,
    /// Deliveries taken.
    pub(super) delivered: u64,
    /// The revision of the last delivery taken; 0 before the first.
    pub(super) handed: i64,
}

impl Delivery {
    fn bytes(&self) -> usize {
        self.events.iter().filter_map(|event| event.object.as_ref()).map(|object| object.raw().len()).sum()
    }
}

impl Queue {
    /// Puts a delivery in. False = the watcher is let go.
    pub(super) fn push(&self, delivery: Delivery) -> bool {
        let mut inner = self.inner.lock();
        if inner.lost {
            return false;
        }
        let bytes = inner.bytes + delivery.bytes();
        // One that waits for nothing else is taken whatever its size.
        if inner.waiting.len() >= QUEUE_MAX || (bytes > QUEUE_BYTES_MAX && !inner.waiting.is_empty()) {
            inner.lost = true;
        } else {
            inner.bytes = bytes;
            inner.waiting.push_back(delivery);
        }
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
        !inner.lost
    }

    /// Lets the watcher go.
    pub(super) fn lose(&self) {
        let mut inner = self.inner.lock();
        inner.lost = true;
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// For the operator's list.
    pub(super) fn counts(&self) -> Counts {
        let inner = self.inner.lock();
        Counts { waiting: inner.waiting.len(), delivered: inner.delivered, handed: inner.handed }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let mut inner = self.inner.lock();
        if let Some(delivery) = inner.waiting.pop_front() {
            inner.delivered += 1;
            inner.bytes -= delivery.bytes();
            inner.handed = delivery.revision;
            return Poll::Ready(Some(delivery));
        }
        if inner.lost {
            return Poll::Ready(None);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn is_empty(&self) -> bool {
        self.inner.lock().waiting.is_empty()
    }
}

/// A watcher's place at the cache. Dropping it gives the place up.
#[derive(Debug)]
pub(in super::super) struct Seat {
    cache: Arc<WatchCache>,
    queue: Arc<Queue>,
    id: u64,
}

impl Seat {
    pub(super) fn new(cache: Arc<WatchCache>, queue: Arc<Queue>, id: u64) -> Self {
        Self { cache, queue, id }
    }

    /// The next delivery; waits until there is one. `None` = the watcher was let go: what came before has been handed
    /// over, what comes after is in the store. Safe to cancel.
    pub(in super::super) async fn next(&mut self) -> Option<Delivery> {
        std::future::poll_fn(|context| self.queue.poll(context)).await
    }

    /// Every event of this watcher at or below the revision has been handed over, if there is one that can be told.
    pub(in super::super) fn progress(&self) -> Option<i64> {
        // Read before the queue is looked at: what belongs to the revision has been queued by then.
        let revision = self.cache.catch_up()?;
        self.queue.is_empty().then_some(revision)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.cache.leave(self.id);
    }
}
