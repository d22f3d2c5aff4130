//! The seam to time: the only place in the server that reads the operating system's clocks.
//!
//! Invariants: the monotonic reading never goes back; nothing but what is written to disk or shown to a person is
//! derived from the wall clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// A source of time. One is made in the composition root and handed to all that need it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed instant of this process's life; never goes back. Leases and intervals count in this.
    fn monotonic(&self) -> Duration;
    /// Milliseconds since 1970-01-01 UTC; may jump when a person or NTP sets the clock.
    fn wall_ms(&self) -> i64;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic reading starts at zero now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }

    /// The same, shared.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self::new())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        // A wall clock before 1970 is a machine without a battery; zero is as good a guess as any.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
    }
}

/// The moment for waiting by tokio's timers, so that a test's paused time holds here too.
pub(crate) fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// A clock moved by hand, for tests.
#[derive(Debug)]
pub struct ManualClock {
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    monotonic: Duration,
    wall_ms: i64,
}

impl ManualClock {
    /// A clock that stands at monotonic zero and the given wall time.
    pub fn new(wall_ms: i64) -> Arc<Self> {
        Arc::new(Self { reading: Mutex::new(Reading { monotonic: Duration::ZERO, wall_ms }) })
    }

    /// Moves both readings forward together.
    pub fn advance(&self, by: Duration) {
        let mut reading = self.reading.lock();
        reading.monotonic += by;
        reading.wall_ms += by.as_millis() as i64;
    }

    /// Moves only the wall clock, as a person or NTP would.
    pub fn jump_wall(&self, by_ms: i64) {
        self.reading.lock().wall_ms += by_ms;
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        self.reading.lock().monotonic
    }

    fn wall_ms(&self) -> i64 {
        self.reading.lock().wall_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_by_hand() {
        let clock = ManualClock::new(1_000);
        clock.advance(Duration::from_millis(250));
        clock.jump_wall(-500);
        assert_eq!(clock.monotonic(), Duration::from_millis(250));
        assert_eq!(clock.wall_ms(), 750);
    }

    #[test]
    fn system_clock_does_not_go_back() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        assert!(clock.monotonic() >= before);
        assert!(clock.wall_ms() > 1_600_000_000_000);
    }
}
