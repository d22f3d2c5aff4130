//! The leases that Events hang on, so that they expire: one for each minute, not one for each Event.

use std::time::Duration;

use parking_lot::Mutex;

use crate::registry::{Store, StoreError};

/// How long a lease is handed out for new Events. They live this much longer than asked for, at most.
const SHARED_FOR: Duration = Duration::from_secs(60);

/// The lease of the minute.
#[derive(Debug)]
pub(in crate::registry) struct EventLeases {
    ttl: Duration,
    /// Guards the lease handed out now and when it was granted. A burst of Events at the turn of a minute may grant more
    /// than one, of which the last stays.
    now: Mutex<Option<(i64, Duration)>>,
}

impl EventLeases {
    /// Leases that live for `ttl` behind the last Event that hangs on them; zero = Events do not expire.
    pub(in crate::registry) fn new(ttl: Duration) -> Self {
        Self { ttl, now: Mutex::new(None) }
    }

    /// The lease for an Event written now; 0 = none.
    pub(in crate::registry) async fn current(&self, store: &dyn Store, now: Duration) -> Result<i64, StoreError> {
        if self.ttl.is_zero() {
            return Ok(0);
        }
        if let Some((lease, since)) = *self.now.lock()
            && now.saturating_sub(since) < SHARED_FOR
        {
            return Ok(lease);
        }
        let ttl = (self.ttl + SHARED_FOR).as_secs();
        let lease = store.lease(i64::try_from(ttl).unwrap_or(i64::MAX)).await?;
        *self.now.lock() = Some((lease, now));
        Ok(lease)
    }

    /// Forgets a lease that has ended before its time, so that the next Event gets another.
    pub(in crate::registry) fn ended(&self) {
        *self.now.lock() = None;
    }
}
