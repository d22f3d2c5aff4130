//! The states of one process, and when it is started again.
//!
//! First restart at once, then after 100 ms, doubling to 2 s; three seconds of health make the next one the first again.
//! One that was never ready is not restarted for ever: it will not get better by itself.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::spec::Spec;
use crate::cluster::control::ComponentStatus;

const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
const HEALTHY_AFTER: Duration = Duration::from_secs(3);

/// A component that ended so often by itself without ever having been ready ends the start of the cluster.
const STARTS_MAX: u32 = 3;

/// What the process does now, and so what comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// No process, and none is wanted until an order says so.
    Stopped,
    /// The process was started and has not said yet that it is ready.
    Starting,
    /// The process is ready.
    Running,
    /// SIGTERM was sent; when the process ends it is started again or not.
    Stopping {
        /// Whether it is started again.
        again: bool,
    },
    /// The process ended by itself; it is started again at this instant.
    BackOff {
        /// When.
        until: Instant,
    },
}

/// One component under supervision.
#[derive(Debug)]
pub(crate) struct Component {
    /// What it is and how it is started.
    pub(crate) spec: Spec,
    /// Its state.
    pub(crate) state: State,
    /// Its process id; 0 while there is none.
    pub(crate) pid: u32,
    /// Which of its runs this is: news of an earlier run are stale.
    pub(crate) run: u64,
    /// Where the log of this run begins in the component's log, in bytes.
    pub(crate) log_from: u64,
    /// Whether an order has killed it: its end says nothing against it.
    pub(crate) killed: bool,
    was_ready: bool,
    /// Ends by itself before it was ever ready.
    early_ends: u32,
    restarts: u32,
    started: Instant,
    backoff: Duration,
    addresses: BTreeMap<String, String>,
    last_exit: String,
}

impl Component {
    /// A component that has not been started yet.
    pub(crate) fn new(spec: Spec, now: Instant) -> Component {
        let (addresses, last_exit) = (BTreeMap::new(), String::new());
        let state = State::Stopped;
        Component {
            spec,
            state,
            pid: 0,
            run: 0,
            log_from: 0,
            killed: false,
            was_ready: false,
            early_ends: 0,
            restarts: 0,
            started: now,
            backoff: Duration::ZERO,
            addresses,
            last_exit,
        }
    }

    /// The process was started.
    pub(crate) fn started(&mut self, pid: u32, now: Instant) {
        self.restarts += u32::from(self.run > 0);
        self.run += 1;
        (self.pid, self.started, self.state) = (pid, now, State::Starting);
        self.addresses.clear();
    }

    /// The process could not be started.
    pub(crate) fn failed_to_start(&mut self, why: String, now: Instant) {
        self.run += 1;
        self.last_exit = why;
        self.early_ends += u32::from(!self.was_ready);
        self.wait_for_restart(now);
    }

    /// The process is ready.
    pub(crate) fn ready(&mut self, addresses: BTreeMap<String, String>) {
        self.addresses = addresses;
        self.was_ready = true;
        if self.state == State::Starting {
            self.state = State::Running;
        }
    }

    /// The process ended. Returns whether it is to be started again at once.
    pub(crate) fn ended(&mut self, how: String, now: Instant) -> bool {
        (self.pid, self.last_exit) = (0, how);
        match self.state {
            State::Stopping { again } => {
                self.state = State::Stopped;
                self.backoff = Duration::ZERO;
                again
            }
            _ => {
                self.early_ends += u32::from(!self.was_ready && !std::mem::take(&mut self.killed));
                if now.duration_since(self.started) >= HEALTHY_AFTER {
                    self.backoff = Duration::ZERO;
                }
                self.wait_for_restart(now);
                self.is_due(now)
            }
        }
    }

    fn wait_for_restart(&mut self, now: Instant) {
        self.state = State::BackOff { until: now + self.backoff };
        self.backoff = (self.backoff * 2).clamp(BACKOFF_FIRST, BACKOFF_MAX);
    }

    /// Why there is no use in starting it once more: it was never ready, and has ended too often.
    pub(crate) fn hopeless(&self) -> Option<String> {
        let (name, count) = (&self.spec.name, self.early_ends);
        (count >= STARTS_MAX).then(|| format!("{name} ended {count} times before it was ready ({})", self.last_exit))
    }

    /// Whether its wait is over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, State::BackOff { until } if until <= now)
    }

    /// How it stands, for a person.
    pub(crate) fn status(&self, now: Instant) -> ComponentStatus {
        let state = match self.state {
            State::Stopped => "Stopped",
            State::Starting => "Starting",
            State::Running => "Running",
            State::Stopping { .. } => "Stopping",
            State::BackOff { .. } => "BackOff",
        };
        let uptime = if self.pid == 0 { Duration::ZERO } else { now.duration_since(self.started) };
        ComponentStatus {
            name: self.spec.name.clone(),
            state: state.to_owned(),
            pid: self.pid,
            restarts: self.restarts,
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            addresses: self.addresses.clone(),
            last_exit: self.last_exit.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::spec::Class;

    #[test]
    fn restarts_begin_at_once_and_slow_down_until_health_returns() {
        let mut now = Instant::now();
        let mut component = Component::new(Spec { name: "x".into(), class: Class::Control, args: vec![] }, now);
        component.started(1, now);
        let mut waits = Vec::new();
        for _ in 0..7 {
            let at_once = component.ended("signal 9".into(), now);
            let State::BackOff { until } = component.state else { panic!("{:?}", component.state) };
            waits.push(u64::try_from((until - now).as_millis()).expect("short"));
            assert_eq!(at_once, until == now);
            now = until;
            assert!(component.is_due(now));
            component.started(1, now);
        }
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 2000]);
        now += HEALTHY_AFTER;
        assert!(component.ended("signal 9".into(), now), "healthy for three seconds: at once again");
    }

    #[test]
    fn a_component_that_was_never_ready_is_given_up_and_one_that_was_is_not() {
        let now = Instant::now();
        let spec = Spec { name: "x".into(), class: Class::Control, args: vec![] };
        let mut component = Component::new(spec.clone(), now);
        for ends in 1..=STARTS_MAX {
            assert_eq!(component.hopeless(), None, "before the end {ends}");
            component.started(1, now);
            component.ended("exit code 1".into(), now);
        }
        assert_eq!(component.hopeless().as_deref(), Some("x ended 3 times before it was ready (exit code 1)"));
        let (mut was_ready, mut killed, mut stopped) =
            (Component::new(spec.clone(), now), Component::new(spec.clone(), now), Component::new(spec, now));
        for run in 0..=STARTS_MAX {
            was_ready.started(1, now);
            if run == 0 {
                was_ready.ready(BTreeMap::new());
            }
            was_ready.ended("exit code 1".into(), now);
            killed.started(1, now);
            killed.killed = true;
            killed.ended("signal 9".into(), now);
            stopped.started(1, now);
            stopped.state = State::Stopping { again: true };
            stopped.ended("exit code 0".into(), now);
        }
        assert_eq!((was_ready.hopeless(), killed.hopeless(), stopped.hopeless()), (None, None, None));
    }

    #[test]
    fn a_component_stopped_by_order_stays_stopped() {
        let now = Instant::now();
        let mut component = Component::new(Spec { name: "x".into(), class: Class::Control, args: vec![] }, now);
        component.started(1, now);
        component.state = State::Stopping { again: false };
        assert!(!component.ended("exit code 0".into(), now));
        assert_eq!(component.state, State::Stopped);
    }
}
