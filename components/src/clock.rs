//! The only reader of the clock in the components.
//!
//! Waiting goes by monotonic time ([`timer_now`], or [`monotonic`] without a runtime); wall time is only ever written into objects and compared
//! with times read from them.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Where a component reads the time of day.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A clock that is handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The monotonic clock, for programs without an async runtime; all others take [`timer_now`].
pub fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}

/// The system's clock, to hand around.
pub fn system() -> SharedClock {
    Arc::new(SystemClock)
}

/// The moment for waiting and for measuring: tokio's own, so that a test's paused clock holds here too.
pub fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// A clock that moves only when told to: for tests and simulations.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that stands at this moment.
    pub fn at(start: Timestamp) -> Self {
        ManualClock(Mutex::new(start))
    }

    /// Moves the clock forward (or back, as real clocks do).
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock();
        *now = now.saturating_add(by).unwrap_or(*now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}
