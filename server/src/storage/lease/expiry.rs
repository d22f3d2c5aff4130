//! The deadlines of leases in order, and the rule that a stalled process ends none of them early.
//!
//! A process that did not run (stopped, swapped out, starved) could not take renewals either. So when the owner's tick
//! comes late by more than [`STALL`], every lease gets at least min(TTL, [`GRACE`]) from then on.

use std::collections::BTreeSet;
use std::time::Duration;

/// The owner ticks at least this often while there are leases.
pub const TICK_MAX: Duration = Duration::from_millis(500);

/// A tick later than this beyond [`TICK_MAX`] is a stall.
pub const STALL: Duration = Duration::from_secs(1);

/// What a lease gets after a stall or a start, unless its whole time to live is shorter.
pub const GRACE: Duration = Duration::from_secs(5);

/// Deadlines by the monotonic clock, the next one first.
#[derive(Debug)]
pub(super) struct Expiry {
    deadlines: BTreeSet<(Duration, i64)>,
    last_tick: Duration,
}

impl Expiry {
    pub(super) fn new(now: Duration) -> Self {
        Expiry { deadlines: BTreeSet::new(), last_tick: now }
    }

    pub(super) fn insert(&mut self, deadline: Duration, id: i64) {
        self.deadlines.insert((deadline, id));
    }

    pub(super) fn remove(&mut self, deadline: Duration, id: i64) {
        self.deadlines.remove(&(deadline, id));
    }

    /// All ids, the next to end first; ties by id.
    pub(super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.deadlines.iter().map(|&(_, id)| id)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Whether the process stalled before `now`; said once for each stall. An empty set cannot stall: its owner need not
    /// tick.
    pub(super) fn stalled(&mut self, now: Duration) -> bool {
        let late = now.saturating_sub(self.last_tick) > TICK_MAX + STALL;
        if late {
            self.last_tick = now;
        }
        late && !self.deadlines.is_empty()
    }

    pub(super) fn tick(&mut self, now: Duration) {
        self.last_tick = self.last_tick.max(now);
    }

    /// The entries whose deadline is before `end`.
    pub(super) fn before(&self, end: Duration) -> impl Iterator<Item = (Duration, i64)> {
        self.deadlines.range(..(end, i64::MIN)).copied()
    }
}

/// The least time left after a stall or a start.
pub(super) fn grace(ttl_secs: i64) -> Duration {
    ttl(ttl_secs).min(GRACE)
}

pub(super) fn ttl(ttl_secs: i64) -> Duration {
    Duration::from_secs(ttl_secs.max(0) as u64)
}
