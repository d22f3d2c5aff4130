//! Pods that fail as soon as they are made are made slowly.
//!
//! A pod that its node refuses (no room, a taint, a label that does not fit) fails at once and counts no more, so its set
//! makes another, which fails as well: upstream does that without end (kubernetes 114637, 120160). Here the rate falls
//! with every failure. The rule, which is documented for users:
//!
//! * Up to [`FAILURES_FREE`] failures cost nothing: a node that had just filled up is no reason to wait.
//! * From then on pods are made one at a time, a tenth of a second apart for each failure, at least [`PAUSE_MIN`] and at
//!   most [`PAUSE_MAX`]. So there is never more than one a second; of a set that fails for ever some 35 pods are made in
//!   the first minute and 270 in the first hour; and once the cause is cured the wait is short beside the time it lasted.
//! * Failures from before the newest pod that has held are forgotten: it shows that the cause is gone.
//!
//! Invariant: nothing is remembered. The failed pods that still exist are the count, so a restart changes nothing, and
//! removing them (which pod garbage collection or a person may do) gives the set a fresh start.

use jiff::{SignedDuration, Timestamp};

use crate::controller_manager::pod::{Phase, PodRef};

/// Pods of a set that may fail before the next are made slowly.
pub const FAILURES_FREE: usize = 10;
/// The shortest pause between two pods once they are made slowly.
pub const PAUSE_MIN: SignedDuration = SignedDuration::from_secs(1);
/// The longest one.
pub const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(60);
/// By how much each failure makes the pause longer.
const PAUSE_PER_FAILURE_MS: i64 = 100;
/// A pod that has been ready for so long has held.
const HELD: SignedDuration = SignedDuration::from_secs(10);

/// A set whose pods fail.
#[derive(Debug, Clone)]
pub struct Throttle {
    /// How many have failed since one has held.
    pub failures: usize,
    /// The newest of them.
    pub last: PodRef,
    /// Between two pods.
    pub pause: SignedDuration,
    /// How long until the next one may be made; zero: now.
    pub wait: SignedDuration,
}

/// Judges the pods that a set owns, active or not; `None`: it may make as many as it wants.
pub fn throttle(own: &[PodRef], now: Timestamp) -> Option<Throttle> {
    let held = |pod: &&PodRef| pod.is_active() && pod.available_at(HELD.as_secs()).is_some_and(|at| at <= now);
    let last_held = own.iter().filter(held).map(|pod| pod.created).max();
    let failed = || own.iter().filter(|pod| pod.phase == Phase::Failed && last_held.is_none_or(|at| pod.created > at));
    let failures = failed().count();
    if failures < FAILURES_FREE {
        return None;
    }
    let last = failed().max_by_key(|pod| pod.created)?.clone();
    let pause = SignedDuration::from_millis(PAUSE_PER_FAILURE_MS.saturating_mul(i64::try_from(failures).ok()?));
    let pause = pause.clamp(PAUSE_MIN, PAUSE_MAX);
    // The newest pod counts whatever has become of it: one that has not failed yet may be about to.
    let last_made = own.iter().map(|pod| pod.created).max()?;
    let wait = (pause - now.duration_since(last_made)).clamp(SignedDuration::ZERO, pause);
    Some(Throttle { failures, last, pause, wait })
}

impl Throttle {
    /// Why pods are made slowly, for the set's condition.
    pub fn message(&self) -> String {
        let (reason, message) = self.last.failure.as_deref().cloned().unwrap_or_default();
        format!(
            "pods fail soon after they are created, so they are created slowly ({FAILURES_FREE} or more have failed; \
             at most one a second from then on). The last failed with {reason}: {message}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Cached;
    use crate::controller_manager::pod::Pod;
    use listwatch_proto::resource::ObjectKey;
    use std::sync::Arc;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).expect("a time")
    }

    fn pod(created: i64, phase: Phase) -> PodRef {
        let failure = Some(Box::new(("OutOfcpu".to_owned(), "no room".to_owned())));
        let object = Pod { created: at(created), phase, failure, ..Pod::default() };
        let name = format!("p{created}");
        Arc::new(Cached { key: ObjectKey::new("default", &*name), uid: name, revision: 1, object })
    }

    fn failed(count: usize, newest: i64) -> Vec<PodRef> {
        (0..count).map(|n| pod(newest - i64::try_from(n).expect("few"), Phase::Failed)).collect()
    }

    /// The pause and the wait in milliseconds.
    fn check(own: &[PodRef], now: i64, expected: Option<(i128, i128)>) {
        let got = throttle(own, at(now)).map(|t| (t.pause.as_millis(), t.wait.as_millis()));
        assert_eq!(got, expected, "{} pods at {now}", own.len());
    }

    #[test]
    fn the_pause_grows_with_the_failures() {
        check(&failed(FAILURES_FREE - 1, 0), 0, None);
        check(&failed(10, 0), 0, Some((1000, 1000)));
        check(&failed(10, 0), 1, Some((1000, 0)));
        check(&failed(11, 0), 500, Some((1100, 0)));
        check(&failed(200, 0), 5, Some((20_000, 15_000)));
        check(&failed(5000, 0), 1, Some((60_000, 59_000)));
    }

    #[test]
    fn a_pod_that_has_not_failed_yet_counts_as_the_last_made() {
        let own = [failed(10, 0), vec![pod(100, Phase::Pending)]].concat();
        check(&own, 100, Some((1000, 1000)));
        // A clock that stands behind the server's does not make it wait longer than the pause.
        check(&own, 50, Some((1000, 1000)));
    }

    #[test]
    fn a_pod_that_has_held_ends_it() {
        let ready = |created: i64, since: i64| {
            let mut pod = Cached::clone(&pod(created, Phase::Running));
            pod.object.ready_since = Some(at(since));
            Arc::new(pod)
        };
        let own = [failed(30, 0), vec![ready(5, 6)]].concat();
        check(&own, 15, Some((3000, 0)));
        check(&own, 16, None);
        // One that was made before they began to fail says nothing.
        check(&[failed(30, 0), vec![ready(-100, -99)]].concat(), 16, Some((3000, 0)));
        // One that held and was then lost says nothing any more.
        let mut lost = Cached::clone(&ready(5, 6));
        lost.object.phase = Phase::Failed;
        check(&[failed(30, 0), vec![Arc::new(lost)]].concat(), 100, Some((3100, 0)));
    }

    /// The documented bounds: what a set makes that fails for ever, seen every tenth of a second.
    #[test]
    fn the_documented_rate_holds() {
        let made = |seconds: i64| {
            let mut own: Vec<PodRef> = (0..3).map(|_| pod(0, Phase::Failed)).collect();
            for now in 0..seconds {
                let room = 3_usize;
                let create = throttle(&own, at(now)).map_or(room, |t| usize::from(t.wait.is_zero()));
                own.extend((0..create).map(|_| pod(now, Phase::Failed)));
            }
            own.len()
        };
        let (minute, hour) = (made(60), made(3600));
        assert!((20..=45).contains(&minute), "{minute} in a minute");
        assert!((200..=290).contains(&hour), "{hour} in an hour");
    }
}
