//! The lessor: every lease, its deadline and its keys.
//!
//! A change goes in two steps. First the lessor says what must be in the log ([`Lessor::plan_grant`],
//! [`Lessor::keep_alive`], [`Lessor::keys_of`]); once that is durable the engine tells it ([`Lessor::granted`],
//! [`Lessor::renewed`], [`Lessor::revoked`]). At a start the log's records are told in the same way.
//!
//! Durability: the log holds, for each lease, a deadline by the wall clock that is never before the last acknowledged
//! one. A renewal beyond it is logged with half a TTL to spare, so most renewals write nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::expiry::{Expiry, grace, ttl};
use crate::clock::Clock;
use crate::storage::Error;
use crate::storage::state::LeaseRecord;

/// The least time to live in seconds; a smaller one is raised to it. etcd 3.6: 1.5 election timeouts of 1 s, rounded up.
pub const TTL_SECS_MIN: i64 = 2;

/// The largest time to live in seconds. etcd 3.6.
pub const TTL_SECS_MAX: i64 = 9_000_000_000;

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Decides when a lease is due.
    pub monotonic: Duration,
    /// Only for what the log keeps over a restart.
    pub wall_ms: i64,
}

impl Moment {
    /// Reads the clock.
    pub fn now(clock: &dyn Clock) -> Self {
        Moment { monotonic: clock.monotonic(), wall_ms: clock.wall_ms() }
    }
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// The granted time to live in seconds, from now on.
    pub ttl_secs: i64,
    /// If set, this must be durable before the answer goes out.
    pub record: Option<LeaseRecord>,
}

/// What is known of a live lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The id.
    pub id: i64,
    /// Whole seconds left, rounded down.
    pub ttl: i64,
    /// Seconds granted.
    pub granted_ttl: i64,
    /// Its keys in order; empty unless asked for.
    pub keys: Vec<Bytes>,
}

/// All leases. Not shared: its owner guards it.
#[derive(Debug)]
pub struct Lessor {
    leases: HashMap<i64, Lease>,
    /// Keys by lease. May name a lease that a start has not read yet.
    keys: HashMap<i64, BTreeSet<Bytes>>,
    lease_of: HashMap<Bytes, i64>,
    expiry: Expiry,
    /// Changed since the last [`Lessor::take_dirty`].
    dirty: HashSet<i64>,
    random: StdRng,
}

#[derive(Debug)]
struct Lease {
    ttl_secs: i64,
    /// By the monotonic clock.
    deadline: Duration,
    durable: Durable,
}

/// The deadline in the log, by both clocks: should the wall clock jump, the stricter one decides.
#[derive(Debug, Clone, Copy)]
struct Durable {
    wall_ms: i64,
    monotonic: Duration,
}

impl Durable {
    fn of(record: &LeaseRecord, now: Moment) -> Self {
        let left_ms = record.deadline_wall_ms.saturating_sub(now.wall_ms).max(0);
        let monotonic = now.monotonic.saturating_add(Duration::from_millis(left_ms as u64));
        Durable { wall_ms: record.deadline_wall_ms, monotonic }
    }

    fn covers(&self, ttl_secs: i64, now: Moment) -> bool {
        now.monotonic.saturating_add(ttl(ttl_secs)) <= self.monotonic && wall_after(now, ttl_secs) <= self.wall_ms
    }
}

fn wall_after(now: Moment, secs: i64) -> i64 {
    now.wall_ms.saturating_add(secs.saturating_mul(1000))
}

impl Lessor {
    /// No leases. `seed` feeds the ids drawn for grants without one.
    pub fn new(seed: u64, now: Moment) -> Self {
        Lessor {
            leases: HashMap::new(),
            keys: HashMap::new(),
            lease_of: HashMap::new(),
            expiry: Expiry::new(now.monotonic),
            dirty: HashSet::new(),
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// Checks a grant and names its log record; id 0 draws a positive one, a small TTL is raised. Changes nothing.
    /// Errors: [`Error::LeaseExists`], [`Error::LeaseTtlTooLarge`].
    pub fn plan_grant(&mut self, id: i64, ttl_secs: i64, now: Moment) -> Result<LeaseRecord, Error> {
        if ttl_secs > TTL_SECS_MAX {
            return Err(Error::LeaseTtlTooLarge(ttl_secs));
        }
        if self.leases.contains_key(&id) {
            return Err(Error::LeaseExists(id));
        }
        let id = if id == 0 { self.draw_id() } else { id };
        let ttl_secs = ttl_secs.max(TTL_SECS_MIN);
        Ok(LeaseRecord { id, ttl_secs, deadline_wall_ms: wall_after(now, ttl_secs) })
    }

    fn draw_id(&mut self) -> i64 {
        loop {
            let id = self.random.random_range(1..=i64::MAX);
            if !self.leases.contains_key(&id) {
                return id;
            }
        }
    }

    /// A grant is durable: the lease lives from now on.
    pub fn granted(&mut self, record: LeaseRecord, now: Moment) {
        self.observe(now);
        self.set(record, now.monotonic.saturating_add(ttl(record.ttl_secs)), now);
        self.dirty.insert(record.id);
    }

    /// A lease found in the state or the log at a start: it has left what its record says, at most its TTL and at least
    /// min(TTL, 5 s).
    pub fn restored(&mut self, record: LeaseRecord, now: Moment) {
        let left_ms = record.deadline_wall_ms.saturating_sub(now.wall_ms).max(0);
        let left = Duration::from_millis(left_ms as u64).min(ttl(record.ttl_secs)).max(grace(record.ttl_secs));
        self.set(record, now.monotonic.saturating_add(left), now);
    }

    /// The same for a record read from the log beyond the state: the next checkpoint must take it.
    pub fn replayed(&mut self, record: LeaseRecord, now: Moment) {
        self.restored(record, now);
        self.dirty.insert(record.id);
    }

    /// A renewal read from the log beyond the state. Nothing if the lease is not there any more.
    pub fn replayed_renewal(&mut self, id: i64, deadline_wall_ms: i64, now: Moment) {
        if let Some(lease) = self.leases.get(&id) {
            self.replayed(LeaseRecord { id, ttl_secs: lease.ttl_secs, deadline_wall_ms }, now);
        }
    }

    fn set(&mut self, record: LeaseRecord, deadline: Duration, now: Moment) {
        let durable = Durable::of(&record, now);
        let lease = Lease { ttl_secs: record.ttl_secs, deadline, durable };
        if let Some(old) = self.leases.insert(record.id, lease) {
            self.expiry.remove(old.deadline, record.id);
        }
        self.expiry.insert(deadline, record.id);
    }

    /// Renews a lease to its granted TTL; `None` if it is unknown or due. If a record is named, it must be durable, and
    /// told by [`Lessor::renewed`], before the answer.
    pub fn keep_alive(&mut self, id: i64, now: Moment) -> Option<KeepAlive> {
        self.observe(now);
        let lease = self.leases.get_mut(&id).filter(|lease| lease.deadline > now.monotonic)?;
        self.expiry.remove(lease.deadline, id);
        lease.deadline = now.monotonic.saturating_add(ttl(lease.ttl_secs));
        self.expiry.insert(lease.deadline, id);
        let ttl_secs = lease.ttl_secs;
        let record = (!lease.durable.covers(ttl_secs, now)).then(|| {
            let spare_ms = ttl_secs.saturating_mul(500);
            LeaseRecord { id, ttl_secs, deadline_wall_ms: wall_after(now, ttl_secs).saturating_add(spare_ms) }
        });
        Some(KeepAlive { ttl_secs, record })
    }

    /// A renewal's record is durable. Nothing if the lease has gone meanwhile.
    pub fn renewed(&mut self, record: LeaseRecord, now: Moment) {
        let Some(lease) = self.leases.get_mut(&record.id) else { return };
        if record.deadline_wall_ms >= lease.durable.wall_ms {
            lease.durable = Durable::of(&record, now);
            self.dirty.insert(record.id);
        }
    }

    /// The keys that go with a lease, in order; `None` if it is unknown. A due lease still has its keys.
    pub fn keys_of(&self, id: i64) -> Option<Vec<Bytes>> {
        self.leases.get(&id)?;
        Some(self.keys.get(&id).map(|keys| keys.iter().cloned().collect()).unwrap_or_default())
    }

    /// A lease has ended, durably, together with its keys.
    pub fn revoked(&mut self, id: i64) {
        if let Some(lease) = self.leases.remove(&id) {
            self.expiry.remove(lease.deadline, id);
        }
        for key in self.keys.remove(&id).unwrap_or_default() {
            self.lease_of.remove(&key);
        }
        self.dirty.insert(id);
    }

    /// Hangs `key` on a lease, taking it from another; 0 takes it from all. The lease was checked by
    /// [`Lessor::contains`], or is still to come in a start.
    pub fn attach(&mut self, key: &Bytes, id: i64) {
        if self.lease_of.get(key) == Some(&id) {
            return;
        }
        self.detach(key);
        if id != 0 {
            self.lease_of.insert(key.clone(), id);
            self.keys.entry(id).or_default().insert(key.clone());
        }
    }

    /// Takes `key` off its lease: it was deleted, or put without one.
    pub fn detach(&mut self, key: &Bytes) {
        let Some(id) = self.lease_of.remove(key) else { return };
        let Some(keys) = self.keys.get_mut(&id) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.keys.remove(&id);
        }
    }

    /// Whether a key may be hung on the lease. A due lease whose end is not yet written still counts, as in etcd.
    pub fn contains(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Whether the lease's time is over by the monotonic clock; false if it is unknown.
    pub fn is_due(&self, id: i64, monotonic: Duration) -> bool {
        self.leases.get(&id).is_some_and(|lease| lease.deadline <= monotonic)
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// What is left of a lease; `None` if it is unknown or due.
    pub fn time_to_live(&mut self, id: i64, with_keys: bool, now: Moment) -> Option<LeaseInfo> {
        self.observe(now);
        let lease = self.leases.get(&id).filter(|lease| lease.deadline > now.monotonic)?;
        let left = lease.deadline.saturating_sub(now.monotonic).as_secs();
        let (ttl, granted_ttl) = (i64::try_from(left).unwrap_or(i64::MAX), lease.ttl_secs);
        let keys = if with_keys { self.keys_of(id).unwrap_or_default() } else { Vec::new() };
        Some(LeaseInfo { id, ttl, granted_ttl, keys })
    }

    /// All leases, the next to end first.
    pub fn ids(&self) -> Vec<i64> {
        self.expiry.ids().collect()
    }

    /// The owner's regular call: names up to `limit` leases that are due, the longest overdue first. A lease is named
    /// again until it is [`Lessor::revoked`].
    pub fn tick(&mut self, now: Moment, limit: usize) -> Vec<i64> {
        self.observe(now);
        self.expiry.tick(now.monotonic);
        let end = now.monotonic.saturating_add(Duration::from_nanos(1));
        self.expiry.before(end).map(|(_, id)| id).take(limit).collect()
    }

    /// When the next lease is due, by the monotonic clock. The owner ticks then, and at least every
    /// [`TICK_MAX`](super::TICK_MAX).
    pub fn next_deadline(&self) -> Option<Duration> {
        self.expiry.next_deadline()
    }

    /// The leases changed since the last call, as they are to be found after a restart; `None` = gone.
    pub fn take_dirty(&mut self) -> Vec<(i64, Option<LeaseRecord>)> {
        let ids = std::mem::take(&mut self.dirty);
        ids.into_iter().map(|id| (id, self.record(id))).collect()
    }

    /// Whether the state beside the log is behind in some lease.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    fn record(&self, id: i64) -> Option<LeaseRecord> {
        let lease = self.leases.get(&id)?;
        Some(LeaseRecord { id, ttl_secs: lease.ttl_secs, deadline_wall_ms: lease.durable.wall_ms })
    }

    /// Notices a stall, whoever comes first after it: a renewal must not find its lease due before the tick can say why.
    fn observe(&mut self, now: Moment) {
        if !self.expiry.stalled(now.monotonic) {
            return;
        }
        let soon: Vec<_> = self.expiry.before(now.monotonic.saturating_add(super::GRACE)).collect();
        for (old, id) in soon {
            let Some(lease) = self.leases.get_mut(&id) else { continue };
            lease.deadline = old.max(now.monotonic.saturating_add(grace(lease.ttl_secs)));
            self.expiry.remove(old, id);
            self.expiry.insert(lease.deadline, id);
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
