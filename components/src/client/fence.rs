//! Writes that are sent only while a leader may write.
//!
//! A Lease does not fence by itself: a process that is stopped while it leads and goes on after its Lease has run out
//! believes for a moment that it still leads. A [`Fence`] closes that gap from the inside: it holds the instant up to
//! which this process certainly leads, and a client behind it looks at the clock before each write. What was handed to
//! the connection before the process was stopped still goes out; that much is bounded by whoever writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::timer_now;

/// Until when this process may write. Clones share it.
#[derive(Debug, Clone)]
pub struct Fence {
    born: Instant,
    /// Milliseconds since `born`; nothing may be written from then on.
    until: Arc<AtomicU64>,
}

impl Fence {
    /// A fence through which nothing passes until [`Fence::open_until`].
    pub fn shut() -> Self {
        Fence { born: timer_now(), until: Arc::new(AtomicU64::new(0)) }
    }

    /// Lets writes pass up to this instant.
    pub fn open_until(&self, until: Instant) {
        let millis = until.saturating_duration_since(self.born).as_millis();
        self.until.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Lets nothing pass any more.
    pub fn close(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Whether a write may be sent now.
    pub fn is_open(&self) -> bool {
        self.is_open_at(timer_now())
    }

    fn is_open_at(&self, now: Instant) -> bool {
        now < self.born + Duration::from_millis(self.until.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shuts_by_itself() {
        let fence = Fence::shut();
        assert!(!fence.is_open());
        let (held, begin) = (fence.clone(), fence.born + Duration::from_secs(60));
        fence.open_until(begin + Duration::from_secs(10));
        assert!(held.is_open() && held.is_open_at(begin + Duration::from_millis(9_999)));
        assert!(!held.is_open_at(begin + Duration::from_secs(10)));
        fence.open_until(begin + Duration::from_secs(20));
        assert!(held.is_open_at(begin + Duration::from_secs(10)), "a later renewal opens it again");
        held.close();
        assert!(!fence.is_open());
    }
}
