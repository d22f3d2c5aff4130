//! How many requests are worked on at a time: what is beyond is told to come again, so that a storm of requests delays
//! nobody else's (kube-apiserver's limits without its queues).
//!
//! What lasts by its nature (a watch, a log, a session) is not counted, and who may do everything is always let in.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many requests of the REST API are worked on at a time; 0 = as many as come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestsInflight {
    /// `--max-requests-inflight`: requests that only read.
    pub reads: u32,
    /// `--max-mutating-requests-inflight`: requests that may change something.
    pub writes: u32,
}

impl Default for RequestsInflight {
    /// kube-apiserver's.
    fn default() -> Self {
        RequestsInflight { reads: 400, writes: 200 }
    }
}

/// The places that are left.
#[derive(Clone, Debug)]
pub(super) struct Places {
    reads: Option<Arc<Semaphore>>,
    writes: Option<Arc<Semaphore>>,
}

/// A request that is let in; its place is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    /// None: it is not counted.
    _held: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(most: RequestsInflight) -> Self {
        let places = |most: u32| (most > 0).then(|| Arc::new(Semaphore::new(most as usize)));
        Places { reads: places(most.reads), writes: places(most.writes) }
    }

    /// Lets a request in; `None` = there are too many. `is_trusted`: it is let in whatever there is.
    pub(super) fn take(&self, is_read: bool, is_trusted: bool) -> Option<Place> {
        let places = if is_read { &self.reads } else { &self.writes };
        let Some(places) = places else {
            return Some(Place::uncounted());
        };
        match places.clone().try_acquire_owned() {
            Ok(held) => Some(Place { _held: Some(held) }),
            Err(_) => is_trusted.then(Place::uncounted),
        }
    }
}

impl Place {
    /// Of a request that is not counted.
    pub(super) fn uncounted() -> Self {
        Place { _held: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limit_is_turned_away() {
        let places = Places::new(RequestsInflight { reads: 2, writes: 1 });
        let (one, two) = (places.take(true, false), places.take(true, false));
        assert!(one.is_some() && two.is_some() && places.take(true, false).is_none());
        let write = places.take(false, false);
        assert!(write.is_some(), "readers take no place of writers");
        assert!(places.take(false, false).is_none());
        assert!(places.take(false, true).is_some(), "who may do everything is let in");
        drop(one);
        assert!(places.take(true, false).is_some(), "a place is free again");
    }

    #[test]
    fn none_is_no_limit() {
        let places = Places::new(RequestsInflight { reads: 0, writes: 0 });
        let held: Vec<_> = (0..10_000).map(|n| places.take(n % 2 == 0, false)).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
