//! Leases through the engine.

use std::time::Duration;

use super::{Engine, Inner, revision_of};
use crate::storage::commit::{Reply, Request};
use crate::storage::housekeeping::expirer::{LEASES_AT_ONCE, Leases};
use crate::storage::lease::{LeaseInfo, Moment};
use crate::storage::{Error, Origin};

/// Before due leases are tried again after a failure, such as a full queue.
const RETRY_AFTER: Duration = Duration::from_millis(500);

impl Engine {
    /// Grants a lease; id 0 = draw one. Answers its id and the time to live in seconds, raised to the least allowed.
    ///
    /// # Errors
    /// [`Error::LeaseExists`], [`Error::LeaseTtlTooLarge`], [`Error::Poisoned`].
    pub fn lease_grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Error> {
        match self.inner.request(Request::LeaseGrant { id, ttl_secs: ttl })? {
            Reply::Lease(record) => {
                self.inner.leases_bell.ring();
                Ok((record.id, record.ttl_secs))
            }
            other => unreachable!("{other:?} is no answer to a grant"),
        }
    }

    /// The same for tasks, as [`Engine::submit`].
    ///
    /// # Errors
    /// As [`Engine::lease_grant`].
    pub async fn submit_lease_grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Error> {
        match self.inner.request_async(Request::LeaseGrant { id, ttl_secs: ttl }).await? {
            Reply::Lease(record) => {
                self.inner.leases_bell.ring();
                Ok((record.id, record.ttl_secs))
            }
            other => unreachable!("{other:?} is no answer to a grant"),
        }
    }

    /// Ends a lease and deletes its keys in one revision; answers where the store stands.
    ///
    /// # Errors
    /// [`Error::LeaseNotFound`], [`Error::Poisoned`].
    pub fn lease_revoke(&self, id: i64) -> Result<i64, Error> {
        let origin = Origin::system();
        revision_of(self.inner.request(Request::LeaseRevoke { ids: vec![id], origin, only_due: false })?)
    }

    /// The same for tasks, as [`Engine::submit`].
    ///
    /// # Errors
    /// As [`Engine::lease_revoke`].
    pub async fn submit_lease_revoke(&self, id: i64) -> Result<i64, Error> {
        let origin = Origin::system();
        revision_of(self.inner.request_async(Request::LeaseRevoke { ids: vec![id], origin, only_due: false }).await?)
    }

    /// Renews a lease to its granted time; `None` = no such lease.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn lease_keep_alive(&self, id: i64) -> Result<Option<i64>, Error> {
        let now = Moment::now(&*self.inner.clock);
        let Some(renewal) = self.inner.lessor.lock().keep_alive(id, now) else { return Ok(None) };
        if let Some(record) = renewal.record {
            match self.inner.request(Request::LeaseRenew(record)) {
                Ok(_) => {}
                Err(Error::LeaseNotFound(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(renewal.ttl_secs))
    }

    /// The same for tasks, as [`Engine::submit`]. Most renewals need no record and do not wait for anything.
    ///
    /// # Errors
    /// As [`Engine::lease_keep_alive`].
    pub async fn submit_lease_keep_alive(&self, id: i64) -> Result<Option<i64>, Error> {
        let now = Moment::now(&*self.inner.clock);
        let Some(renewal) = self.inner.lessor.lock().keep_alive(id, now) else { return Ok(None) };
        if let Some(record) = renewal.record {
            match self.inner.request_async(Request::LeaseRenew(record)).await {
                Ok(_) => {}
                Err(Error::LeaseNotFound(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(renewal.ttl_secs))
    }

    /// What is left of a lease; `None` = no such lease.
    pub fn lease_time_to_live(&self, id: i64, keys: bool) -> Option<LeaseInfo> {
        let now = Moment::now(&*self.inner.clock);
        self.inner.lessor.lock().time_to_live(id, keys, now)
    }

    /// All leases, the next to end first.
    pub fn leases(&self) -> Vec<i64> {
        self.inner.lessor.lock().ids()
    }

    /// Ends the leases whose time is over; answers how long until the next one is due.
    pub fn end_due_leases(&self) -> Option<Duration> {
        self.inner.end_due()
    }
}

impl Leases for Inner {
    fn end_due(&self) -> Option<Duration> {
        let now = Moment::now(&*self.clock);
        let due = self.lessor.lock().tick(now, LEASES_AT_ONCE);
        let more = due.len() == LEASES_AT_ONCE;
        if !due.is_empty() {
            let request = Request::LeaseRevoke { ids: due, origin: Origin::system(), only_due: true };
            let outcome = self.request(request);
            if matches!(outcome, Err(Error::Poisoned { .. } | Error::Closed)) {
                // Nothing ends any more until a restart; the leases are then as old as they are.
                return None;
            }
            if let Err(error) = outcome {
                tracing::warn!(%error, "due leases could not be ended; they are tried again");
                return Some(RETRY_AFTER);
            }
        }
        if more {
            return Some(Duration::ZERO);
        }
        let next = self.lessor.lock().next_deadline()?;
        Some(next.saturating_sub(self.clock.monotonic()))
    }
}
