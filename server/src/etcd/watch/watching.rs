//! One watch of a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::AtomicWaker;

use crate::storage::{WatchError, WatchMessage, Watcher};

/// What the client asked of a watch, beyond what the store is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    pub(super) id: i64,
    /// The first revision wanted; nothing is told about ones before it.
    pub(super) start: i64,
    pub(super) prev_kv: bool,
    pub(super) fragment: bool,
    pub(super) progress_notify: bool,
}

/// Ends a watch from outside the set it is polled in.
#[derive(Debug, Default)]
pub(super) struct Stop {
    stopped: AtomicBool,
    waker: AtomicWaker,
}

impl Stop {
    /// No event comes after this.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// A watch as a stream of the store's messages; it ends after an error and when it is stopped.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) wishes: Wishes,
    /// Whether something was sent since progress was last looked at.
    pub(super) spoke: bool,
    watcher: Watcher,
    stop: Arc<Stop>,
    failed: bool,
}

impl Watching {
    pub(super) fn new(wishes: Wishes, watcher: Watcher) -> (Self, Arc<Stop>) {
        let stop = Arc::new(Stop::default());
        (Self { wishes, spoke: false, watcher, stop: stop.clone(), failed: false }, stop)
    }

    /// The revision up to which all events have been taken, if the watch has all there is and its start has come.
    pub(super) fn in_step(&self) -> Option<i64> {
        let progress = self.watcher.progress();
        (self.watcher.synced() && progress + 1 >= self.wishes.start).then_some(progress)
    }

    pub(super) fn stopped(&self) -> bool {
        self.failed || self.stop.stopped.load(Ordering::Acquire)
    }
}

impl Stream for Watching {
    type Item = (Wishes, Result<WatchMessage, WatchError>);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stop.waker.register(context.waker());
        if self.stopped() {
            return Poll::Ready(None);
        }
        self.watcher.poll_next(context).map(|result| {
            self.failed = result.is_err();
            self.spoke = true;
            Some((self.wishes, result))
        })
    }
}
