//! One of several candidates works at a time, by a Lease.
//!
//! Upstream's rules: a candidate never compares the Lease's time with its own clock, it only notes when the record last
//! changed for it; a Lease that has not changed for its duration is free. One more of ours: a candidate that finds its
//! own identity in the Lease takes over at once while it holds the lock file of its slot, for then the process that
//! wrote it is dead. Leases do not fence: what a leader does must be harmless when it is stale (preconditions), and who
//! writes through a [`Fence`] that this election opens sends nothing once the own Lease may have run out.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use listwatch_proto::resource::ObjectKey;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{EventType, Recorder, SlotLock, SlotLockError};
use crate::client::{Api, Cached, Client, Error, Fence};
use crate::clock::{SharedClock, timer_now};

/// How often the lease is tried to be given back: once, and again for the renewal that was under way.
const RELEASE_TRIES: usize = 3;
/// How long giving the Lease back may take at the end.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Waits between tries are longer by up to this part, so that candidates do not meet (upstream's number).
const JITTER: f64 = 1.2;
/// How often a candidate looks whether the lock of its slot has become free: a local call of microseconds.
const SLOT_LOCK_POLL: Duration = Duration::from_millis(100);
/// Of failures in a row, the first is told and then each of this number: one in about 30 s while waiting.
const FAILURES_PER_WARNING: u32 = 10;

/// Which Lease, as whom, and how patiently.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// Namespace of the Lease: `kube-system`.
    pub namespace: String,
    /// Name of the Lease: `kube-scheduler`.
    pub name: String,
    /// Who this candidate is. Two that live at the same time must differ.
    pub identity: String,
    /// A Lease that has not changed for so long is free (15 s). Whole seconds.
    pub lease_duration: Duration,
    /// A leader that could not renew for so long gives up (10 s).
    pub renew_deadline: Duration,
    /// Between two tries (2 s).
    pub retry_period: Duration,
    /// The lock file of this candidate's slot: while it is held, a Lease in the own name is taken over at once.
    pub slot_lock: Option<PathBuf>,
    /// Whether a clean stop gives the Lease back.
    pub release_on_stop: bool,
}

impl ElectionConfig {
    /// Upstream's timing in `kube-system`.
    pub fn new(name: impl Into<String>, identity: impl Into<String>) -> Self {
        ElectionConfig {
            namespace: "kube-system".to_owned(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            slot_lock: None,
            release_on_stop: true,
        }
    }

    /// Checks that the times fit together, as client-go's leader election demands it.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), ElectionError> {
        if self.identity.is_empty() {
            return Err(ElectionError::Config("the identity is empty"));
        }
        if self.lease_duration < Duration::from_secs(1) || self.lease_duration.subsec_nanos() != 0 {
            return Err(ElectionError::Config("the lease duration must be whole seconds, at least one"));
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(ElectionError::Config("the lease duration must be longer than the renew deadline"));
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER) {
            return Err(ElectionError::Config("the renew deadline must be longer than 1.2 times the retry period"));
        }
        if self.retry_period.is_zero() {
            return Err(ElectionError::Config("the retry period must be longer than nothing"));
        }
        Ok(())
    }
}

/// Why an election cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The configuration contradicts itself.
    #[error("leader election: {0}")]
    Config(&'static str),
    /// The lock file of the slot cannot be used.
    #[error(transparent)]
    SlotLock(SlotLockError),
}

/// How leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was asked to stop (before or while leading), and has.
    Stopped,
    /// The Lease was lost: the work was stopped. The process should end.
    Lost,
    /// The work ended by itself.
    Finished,
}

/// A candidate.
pub struct LeaderElection {
    api: Api<Lease>,
    config: ElectionConfig,
    clock: SharedClock,
    recorder: Option<Recorder>,
    fence: Fence,
    slot_lock: Option<SlotLock>,
    observed: Option<Observed>,
    leading: bool,
    /// Tries in a row that failed otherwise than by a conflict.
    failures: u32,
}

/// The record as last seen, and since when it has been so.
struct Observed {
    lease: Cached<Lease>,
    since: Instant,
}

impl LeaderElection {
    /// A candidate for this Lease.
    pub fn new(client: &Client, config: ElectionConfig, clock: SharedClock) -> Self {
        LeaderElection {
            api: Api::new(client),
            config,
            clock,
            recorder: None,
            fence: Fence::shut(),
            slot_lock: None,
            observed: None,
            leading: false,
            failures: 0,
        }
    }

    /// Tells of leading and of its end through this recorder.
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Opens this fence while it leads: from each try that took or renewed the Lease for the renew deadline. As another
    /// candidate waits for the longer lease duration, it is shut everywhere else by the time one opens its own.
    #[must_use]
    pub fn fence(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Waits to be the leader, then works until told to stop or until the Lease is lost.
    ///
    /// The work gets a token; when it is cancelled the work must end. After a loss it is dropped when it has not ended
    /// by the time at which another may begin. The lock of the slot is held until this returns.
    pub async fn run<F>(
        mut self,
        shutdown: CancellationToken,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<Outcome, ElectionError>
    where
        F: Future<Output = ()>,
    {
        self.config.check()?;
        tokio::select! {
            () = shutdown.cancelled() => return Ok(Outcome::Stopped),
            acquired = Box::pin(self.acquire()) => acquired?,
        }
        self.tell("became leader");
        let stop = CancellationToken::new();
        let _stop_on_drop = stop.clone().drop_guard();
        let mut work = std::pin::pin!(work(stop.clone()));
        let outcome = {
            let mut lost = Box::pin(self.renew_until_lost());
            tokio::select! {
                () = &mut work => Outcome::Finished,
                () = &mut lost => Outcome::Lost,
                () = shutdown.cancelled() => {
                    stop.cancel();
                    // Winding down may take a while: the Lease is kept meanwhile.
                    tokio::select! {
                        () = &mut work => Outcome::Stopped,
                        () = &mut lost => Outcome::Lost,
                    }
                }
            }
        };
        self.leading = false;
        self.fence.close();
        if outcome == Outcome::Lost {
            stop.cancel();
            let grace = self.config.lease_duration - self.config.renew_deadline;
            if timeout(grace, &mut work).await.is_err() {
                tracing::warn!(lease = self.config.name, "the work of a lost leader is cut off");
            }
        } else if self.config.release_on_stop && timeout(RELEASE_WITHIN, Box::pin(self.release())).await.is_err() {
            tracing::debug!(lease = self.config.name, "the lease was not given back in time; it runs out by itself");
        }
        self.tell("stopped leading");
        Ok(outcome)
    }

    async fn acquire(&mut self) -> Result<(), ElectionError> {
        tracing::info!(lease = self.config.name, identity = self.config.identity, "waiting to be the leader");
        loop {
            self.try_slot_lock()?;
            let began = timer_now();
            match self.try_acquire_or_renew().await {
                Ok(true) => {
                    self.fence.open_until(began + self.config.renew_deadline);
                    (self.leading, self.failures) = (true, 0);
                    tracing::info!(lease = self.config.name, identity = self.config.identity, "leading");
                    return Ok(());
                }
                Ok(false) => self.failures = 0,
                Err(error) => self.note_failure(&error),
            }
            self.pause_before_retry().await?;
        }
    }

    /// Waits for the next try; less if the lock of the slot becomes free.
    async fn pause_before_retry(&mut self) -> Result<(), ElectionError> {
        let jitter = 1.0 + JITTER * rand::random::<f64>();
        let until = timer_now() + self.config.retry_period.mul_f64(jitter);
        while self.config.slot_lock.is_some() && self.slot_lock.is_none() {
            let left = until.saturating_duration_since(timer_now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(SLOT_LOCK_POLL)).await;
            self.try_slot_lock()?;
            if self.slot_lock.is_some() {
                return Ok(());
            }
        }
        tokio::time::sleep_until(until).await;
        Ok(())
    }

    fn try_slot_lock(&mut self) -> Result<(), ElectionError> {
        let Some(path) = self.config.slot_lock.as_ref().filter(|_| self.slot_lock.is_none()) else { return Ok(()) };
        match SlotLock::try_acquire(path) {
            Ok(lock) => self.slot_lock = Some(lock),
            Err(SlotLockError::Held { .. }) => {}
            Err(error) => return Err(ElectionError::SlotLock(error)),
        }
        Ok(())
    }

    /// Renews until that has failed for the renew deadline, or until another holds the Lease.
    async fn renew_until_lost(&mut self) {
        let mut good_until = timer_now() + self.config.renew_deadline;
        loop {
            sleep(self.config.retry_period.min(good_until.saturating_duration_since(timer_now()))).await;
            let left = good_until.saturating_duration_since(timer_now());
            let began = timer_now();
            match timeout(left, self.try_acquire_or_renew()).await {
                Ok(Ok(true)) => {
                    self.failures = 0;
                    good_until = began + self.config.renew_deadline;
                    self.fence.open_until(good_until);
                }
                Ok(Ok(false)) if self.is_held_by_another() => {
                    tracing::error!(lease = self.config.name, "the lease is in other hands");
                    return;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => self.note_failure(&error),
                Err(_) => {}
            }
            if timer_now() >= good_until {
                tracing::error!(lease = self.config.name, "the lease could not be renewed in time");
                return;
            }
        }
    }

    /// Tells why the Lease can be neither read nor written (a damaged record, a server that is away), and not too often.
    fn note_failure(&mut self, error: &Error) {
        let (lease, failures) = (&self.config.name, self.failures.saturating_add(1));
        if is_told(failures) {
            tracing::warn!(lease, failures, %error, "the lease cannot be read or written");
        } else {
            tracing::debug!(lease, failures, %error, "the lease cannot be read or written");
        }
        self.failures = failures;
    }

    fn is_held_by_another(&self) -> bool {
        let holder = self.observed.as_ref().map(|o| holder(&o.lease));
        holder.is_some_and(|holder| !holder.is_empty() && holder != self.config.identity)
    }

    /// One try: true if this candidate holds the Lease after it.
    async fn try_acquire_or_renew(&mut self) -> Result<bool, Error> {
        // A leader renews what it wrote last; only when that has changed under it does it look again.
        if self.leading
            && let Some(observed) = &self.observed
            && holder(&observed.lease) == self.config.identity
        {
            let renewed = self.claim(Some(&observed.lease));
            match self.api.update(&renewed).await {
                Ok(lease) => return Ok(self.observe(lease)),
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let key = ObjectKey::new(self.config.namespace.as_str(), self.config.name.as_str());
        let written = match self.api.get_opt(&key).await? {
            None => self.api.create(&self.claim(None)).await,
            Some(lease) => {
                self.observe(lease);
                let Some(observed) = self.observed.as_ref().filter(|o| self.may_take(o)) else { return Ok(false) };
                let claim = self.claim(Some(&observed.lease));
                self.api.update(&claim).await
            }
        };
        match written {
            Ok(lease) => Ok(self.observe(lease)),
            // Another was faster.
            Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes a record; whether this candidate holds it.
    fn observe(&mut self, lease: Cached<Lease>) -> bool {
        let is_own = holder(&lease) == self.config.identity;
        let is_known =
            self.observed.as_ref().is_some_and(|o| o.lease.revision == lease.revision && o.lease.uid == lease.uid);
        if !is_known {
            self.observed = Some(Observed { lease, since: timer_now() });
        }
        is_own
    }

    fn may_take(&self, observed: &Observed) -> bool {
        let holder = holder(&observed.lease);
        if holder.is_empty() {
            return true;
        }
        if holder == self.config.identity && (self.leading || self.slot_lock.is_some()) {
            return true;
        }
        let seconds = observed.lease.spec.as_ref().and_then(|s| s.lease_duration_seconds);
        let duration =
            seconds.and_then(|s| u64::try_from(s).ok()).map_or(self.config.lease_duration, Duration::from_secs);
        observed.since.elapsed() >= duration
    }

    /// The record by which this candidate holds the Lease.
    fn claim(&self, old: Option<&Cached<Lease>>) -> Lease {
        let now = MicroTime(self.clock.now());
        let mut lease = old.map_or_else(
            || Lease {
                metadata: ObjectMeta {
                    namespace: Some(self.config.namespace.clone()),
                    name: Some(self.config.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: None,
            },
            |old| old.object.clone(),
        );
        let before = lease.spec.take().unwrap_or_default();
        let is_same_holder = before.holder_identity.as_deref() == Some(self.config.identity.as_str());
        let transitions = before.lease_transitions.unwrap_or(0);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.config.lease_duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: if is_same_holder { before.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(if is_same_holder || old.is_none() { transitions } else { transitions + 1 }),
            ..before
        });
        lease
    }

    /// Gives the Lease back: the next candidate need not wait. A renewal that was under way when the end came may have
    /// written it after it was last seen; it is ours all the same.
    async fn release(&mut self) {
        let Some(mut observed) = self.observed.take().filter(|o| holder(&o.lease) == self.config.identity) else {
            return;
        };
        for _ in 0..RELEASE_TRIES {
            let mut lease = self.claim(Some(&observed.lease));
            if let Some(spec) = &mut lease.spec {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
            }
            let Err(error) = self.api.update(&lease).await else { break };
            tracing::debug!(lease = self.config.name, %error, "the lease was not given back");
            if !error.is_conflict() {
                break;
            }
            match self.api.get_opt(&observed.lease.key).await {
                Ok(Some(now)) if holder(&now) == self.config.identity => observed.lease = now,
                _ => break,
            }
        }
        self.observed = Some(observed);
    }

    fn tell(&self, what: &str) {
        if let (Some(recorder), Some(observed)) = (&self.recorder, &self.observed) {
            let message = format!("{} {what}", self.config.identity);
            recorder.event(&observed.lease, EventType::Normal, "LeaderElection", message);
        }
    }
}

fn holder(lease: &Cached<Lease>) -> &str {
    lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()).unwrap_or_default()
}

/// Whether the failure of this number in a row is worth a warning.
fn is_told(failures: u32) -> bool {
    failures == 1 || failures.is_multiple_of(FAILURES_PER_WARNING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_and_every_tenth_are_told() {
        let told: Vec<_> = (1..=30).filter(|n| is_told(*n)).collect();
        assert_eq!(told, [1, 10, 20, 30]);
    }
}
