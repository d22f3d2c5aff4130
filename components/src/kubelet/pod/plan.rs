//! Which containers of a pod to start, to end and to wait for, seen from how they are now.
//!
//! Invariant: level-triggered. The plan follows from the spec and the present state alone, so a lost event or a
//! restarted kubelet changes nothing.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::{
    super::runtime::seam::{ContainerState, ContainerStatus, Terminated},
    backoff::Backoffs,
    spec::{self, RestartPolicy, Role},
};

/// What to do now.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// To start, in this order.
    pub start: Vec<Start<'a>>,
    /// To end, because the pod asks for something else now; they are started again when they have ended.
    pub replace: Vec<(&'a Container, Role)>,
    /// Would start, but pause after failures.
    pub paused: Vec<Paused<'a>>,
    /// No container will ever start again: the pod is over, or will be when the running ones have ended.
    pub over: bool,
}

/// A container to start.
#[derive(Debug, PartialEq)]
pub struct Start<'a> {
    /// Which.
    pub container: &'a Container,
    /// Its role.
    pub role: Role,
    /// When its last run ended, if it had one.
    pub after: Option<Timestamp>,
}

/// A container that pauses.
#[derive(Debug, PartialEq)]
pub struct Paused<'a> {
    /// Which.
    pub container: &'a Container,
    /// Its role.
    pub role: Role,
    /// The whole pause.
    pub whole: Duration,
    /// What is left of it.
    pub left: Duration,
}

/// Makes the plan.
pub fn plan<'a>(spec: &'a PodSpec, now: Timestamp, states: &[ContainerStatus], backoffs: &Backoffs) -> Plan<'a> {
    let policy = spec::restart_policy(spec);
    let state_of = |name: &str| states.iter().find(|state| state.name == name);
    let mut planner = Planner { plan: Plan::default(), backoffs, now };
    // When an app container has ever run, the init containers had ended well, whatever is left of their traces.
    let initialized = spec.containers.iter().any(|container| state_of(&container.name).is_some());
    for (container, role) in spec::containers(spec) {
        let state = state_of(&container.name);
        match role {
            Role::App => planner.app(container, state, policy),
            Role::Sidecar => planner.sidecar(container, state),
            Role::Init if initialized => {}
            Role::Init => match planner.init(container, state, policy) {
                InitOutcome::Done => {}
                InitOutcome::Wait => return planner.plan,
                InitOutcome::Failed => {
                    planner.plan.over = true;
                    planner.plan.start.clear();
                    return planner.plan;
                }
            },
        }
    }
    let app_ended = |container: &Container| match state_of(&container.name).map(|state| &state.state) {
        Some(ContainerState::Exited(exit)) => !restarts(policy, exit),
        _ => false,
    };
    planner.plan.over = spec.containers.iter().all(app_ended);
    if planner.plan.over {
        // Sidecars serve the app containers; with these they end.
        planner.plan.start.clear();
        planner.plan.paused.clear();
    }
    planner.plan
}

/// Whether a container that ended so is started again. An end that only the cluster's end brought is no end of its own.
pub fn restarts(policy: RestartPolicy, exit: &Terminated) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit.exit_code != 0 || exit.interrupted,
        RestartPolicy::Never => false,
    }
}

enum InitOutcome {
    Done,
    Wait,
    Failed,
}

struct Planner<'a, 'b> {
    plan: Plan<'a>,
    backoffs: &'b Backoffs,
    now: Timestamp,
}

impl<'a> Planner<'a, '_> {
    fn app(&mut self, container: &'a Container, state: Option<&ContainerStatus>, policy: RestartPolicy) {
        match state.map(|state| (&state.state, state)) {
            None => self.start(container, Role::App, None),
            Some((ContainerState::Running { .. }, state)) => self.keep(container, Role::App, state),
            Some((ContainerState::Exited(exit), _)) if restarts(policy, exit) => {
                self.start(container, Role::App, Some(exit));
            }
            Some((ContainerState::Exited(_), _)) => {}
        }
    }

    fn sidecar(&mut self, container: &'a Container, state: Option<&ContainerStatus>) {
        self.app_like(container, Role::Sidecar, state);
    }

    fn app_like(&mut self, container: &'a Container, role: Role, state: Option<&ContainerStatus>) {
        match state.map(|state| (&state.state, state)) {
            None => self.start(container, role, None),
            Some((ContainerState::Running { .. }, state)) => self.keep(container, role, state),
            Some((ContainerState::Exited(exit), _)) => self.start(container, role, Some(exit)),
        }
    }

    fn init(
        &mut self,
        container: &'a Container,
        state: Option<&ContainerStatus>,
        policy: RestartPolicy,
    ) -> InitOutcome {
        match state.map(|state| &state.state) {
            None => self.start(container, Role::Init, None),
            Some(ContainerState::Running { .. }) => {}
            Some(ContainerState::Exited(exit)) if exit.exit_code == 0 && !exit.interrupted => return InitOutcome::Done,
            Some(ContainerState::Exited(_)) if policy == RestartPolicy::Never => return InitOutcome::Failed,
            Some(ContainerState::Exited(exit)) => self.start(container, Role::Init, Some(exit)),
        }
        InitOutcome::Wait
    }

    fn keep(&mut self, container: &'a Container, role: Role, state: &ContainerStatus) {
        if state.hash != spec::hash(container) {
            self.plan.replace.push((container, role));
        }
    }

    fn start(&mut self, container: &'a Container, role: Role, exit: Option<&Terminated>) {
        // Nobody is to blame for the end of the cluster.
        let failed = exit.filter(|exit| !exit.interrupted).map(|exit| exit.finished_at);
        match failed.and_then(|failed| self.backoffs.wait(&container.name, failed, self.now)) {
            Some(pause) => {
                self.plan.paused.push(Paused { container, role, whole: pause.whole, left: pause.left });
            }
            None => self.plan.start.push(Start { container, role, after: failed }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::pod::backoff::BackoffLimits;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    fn spec(policy: &str) -> PodSpec {
        serde_json::from_value(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i1"}, {"name": "i2"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "a"}, {"name": "b"}],
        }))
        .expect("a spec")
    }

    /// `a:run`, `a:0`, `a:3`, `a:cluster` (ended well with the cluster), `a:old` (runs with another hash).
    fn states(spec: &PodSpec, text: &str) -> Vec<ContainerStatus> {
        let exit = |exit_code, interrupted| {
            ContainerState::Exited(Terminated {
                id: "x".into(),
                exit_code,
                signal: None,
                reason: None,
                message: String::new(),
                started_at: Some(at(0)),
                finished_at: at(10),
                interrupted,
            })
        };
        text.split_ascii_whitespace()
            .map(|word| {
                let (name, state) = word.split_once(':').expect("name:state");
                let (container, _) = spec::containers(spec).find(|(c, _)| c.name == name).expect("known");
                ContainerStatus {
                    name: name.into(),
                    image: String::new(),
                    attempt: 0,
                    hash: if state == "old" { "other".into() } else { spec::hash(container) },
                    id: "x".into(),
                    state: match state {
                        "run" | "old" => ContainerState::Running { started_at: at(0) },
                        "cluster" => exit(0, true),
                        code => exit(code.parse().expect("a code"), false),
                    },
                    previous: None,
                }
            })
            .collect()
    }

    fn check(policy: &str, present: &str, expected: &str) {
        let spec = spec(policy);
        let backoffs = Backoffs::new(BackoffLimits::default());
        let plan = plan(&spec, at(10), &states(&spec, present), &backoffs);
        let mut words: Vec<_> = plan.start.iter().map(|start| format!("+{}", start.container.name)).collect();
        words.extend(plan.replace.iter().map(|(container, _)| format!("-{}", container.name)));
        if plan.over {
            words.push("over".into());
        }
        assert_eq!(words.join(" "), expected, "{policy} with {present:?}");
    }

    #[test]
    fn init_containers_run_one_after_the_other() {
        check("Always", "", "+i1");
        check("Always", "i1:run", "");
        check("Always", "i1:0", "+i2");
        check("Always", "i1:1", "+i1");
        check("Never", "i1:1", "over");
        check("Always", "i1:cluster", "+i1");
        check("Always", "i1:0 i2:0", "+s +a +b");
    }

    #[test]
    fn app_containers_follow_the_restart_policy() {
        check("Always", "s:run a:run b:run", "");
        check("Always", "s:run a:0 b:run", "+a");
        check("OnFailure", "s:run a:0 b:run", "");
        check("OnFailure", "s:run a:3 b:run", "+a");
        check("Never", "s:run a:3 b:run", "");
        check("OnFailure", "s:run a:0 b:0", "over");
        check("Never", "s:run a:3 b:0", "over");
        check("OnFailure", "s:run a:cluster b:run", "+a");
        check("Never", "s:1 a:run b:run", "+s");
        check("Never", "s:1 a:0 b:0", "over");
    }

    #[test]
    fn traces_of_init_containers_may_be_gone() {
        check("Always", "a:run b:1", "+s +b");
    }

    #[test]
    fn a_container_that_is_no_longer_asked_for_is_replaced() {
        check("Never", "s:run a:old b:run", "-a");
    }

    #[test]
    fn a_pause_holds_up_one_container_and_not_the_others() {
        let spec = spec("Always");
        let mut backoffs = Backoffs::new(BackoffLimits::default());
        backoffs.tried("a", at(0), at(0));
        let plan = plan(&spec, at(14), &states(&spec, "s:run a:1 b:1"), &backoffs);
        assert_eq!(plan.start.iter().map(|start| start.container.name.as_str()).collect::<Vec<_>>(), ["b"]);
        let pause = &plan.paused[0];
        assert_eq!((pause.container.name.as_str(), pause.whole.as_secs(), pause.left.as_secs()), ("a", 10, 6));
    }
}
