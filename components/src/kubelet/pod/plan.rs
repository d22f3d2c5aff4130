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
    probe::Kind,
    spec::{self, Role},
};

/// What is known when a plan is made.
pub struct Situation<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// The containers, as the runtime has them.
    pub states: &'a [ContainerStatus],
    /// Pauses after failures, by [`backoff_name`].
    pub backoffs: &'a Backoffs,
    /// Whether a running container has come up.
    pub started: &'a dyn Fn(&str) -> bool,
    /// The probe or hook that a running container has failed, if it must be ended for that.
    pub sick: &'a dyn Fn(&str) -> Option<Kind>,
}

/// What to do now.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// To start, in this order.
    pub start: Vec<Start<'a>>,
    /// To end although the pod goes on.
    pub end: Vec<End<'a>>,
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

/// A container to end: the pod asks for something else now, or a probe has failed.
#[derive(Debug, PartialEq)]
pub struct End<'a> {
    /// Which.
    pub container: &'a Container,
    /// Its role.
    pub role: Role,
    /// The probe or hook that failed; `None`: its definition has changed.
    pub probe: Option<Kind>,
    /// What the Event says.
    pub message: String,
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

/// The name under which a container's pauses are remembered: another definition begins anew.
pub fn backoff_name(container: &Container) -> String {
    format!("{}/{}", container.name, spec::hash(container))
}

/// Makes the plan.
pub fn plan<'a>(spec: &'a PodSpec, situation: &Situation<'_>) -> Plan<'a> {
    let state_of = |name: &str| situation.states.iter().find(|state| state.name == name);
    let mut planner = Planner { plan: Plan::default(), spec, situation };
    // When an app container has ever run, the init containers had ended well, whatever is left of their traces.
    let initialized = spec.containers.iter().any(|container| state_of(&container.name).is_some());
    for (container, role) in spec::containers(spec) {
        let state = state_of(&container.name);
        let outcome = match role {
            Role::App => planner.keep_up(container, role, state),
            Role::Sidecar if initialized => planner.keep_up(container, role, state),
            Role::Init if initialized => InitOutcome::Done,
            Role::Sidecar => planner.bring_up(container, state),
            Role::Init => planner.init(container, state),
        };
        match outcome {
            InitOutcome::Done => {}
            InitOutcome::Wait => return planner.plan,
            InitOutcome::Failed => {
                planner.plan.over = true;
                planner.plan.start.clear();
                return planner.plan;
            }
        }
    }
    let app_ended = |container: &Container| match state_of(&container.name) {
        Some(ContainerStatus { state: ContainerState::Exited(exit), hash, .. }) => {
            *hash == spec::hash(container) && !spec::restarts(spec, container, Role::App, exit)
        }
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

/// Which of the running containers are to be ended now when the pod is to end: first all that are not sidecars, at
/// once; then the sidecars one after the other, the last one first (Kubernetes 1.36).
pub fn next_to_stop<'a>(spec: &'a PodSpec, running: &[&str]) -> Vec<(&'a Container, Role)> {
    let running: Vec<_> =
        spec::containers(spec).filter(|(container, _)| running.contains(&container.name.as_str())).collect();
    let mains: Vec<_> = running.iter().copied().filter(|(_, role)| *role != Role::Sidecar).collect();
    if mains.is_empty() { running.last().copied().into_iter().collect() } else { mains }
}

enum InitOutcome {
    Done,
    Wait,
    Failed,
}

struct Planner<'a, 'b> {
    plan: Plan<'a>,
    spec: &'a PodSpec,
    situation: &'b Situation<'b>,
}

impl<'a> Planner<'a, '_> {
    /// A container that should run, or have ended for good.
    fn keep_up(&mut self, container: &'a Container, role: Role, state: Option<&ContainerStatus>) -> InitOutcome {
        match state.map(|state| (&state.state, state)) {
            None => self.start(container, role, None),
            Some((ContainerState::Running { .. }, state)) => self.watch_over(container, role, state),
            Some((ContainerState::Exited(exit), state)) => {
                let changed = state.hash != spec::hash(container);
                if changed || spec::restarts(self.spec, container, role, exit) {
                    self.start(container, role, Some(exit));
                }
            }
        }
        InitOutcome::Done
    }

    /// A sidecar before the first app container: the next one waits until it has come up.
    fn bring_up(&mut self, container: &'a Container, state: Option<&ContainerStatus>) -> InitOutcome {
        self.keep_up(container, Role::Sidecar, state);
        let runs = state.is_some_and(|state| matches!(state.state, ContainerState::Running { .. }));
        if runs && (self.situation.started)(&container.name) { InitOutcome::Done } else { InitOutcome::Wait }
    }

    fn init(&mut self, container: &'a Container, state: Option<&ContainerStatus>) -> InitOutcome {
        match state.map(|state| &state.state) {
            None => self.start(container, Role::Init, None),
            Some(ContainerState::Running { .. }) => {}
            Some(ContainerState::Exited(exit)) if exit.exit_code == 0 && !exit.interrupted => return InitOutcome::Done,
            Some(ContainerState::Exited(exit)) if self.failed_for_good(container, exit) => return InitOutcome::Failed,
            Some(ContainerState::Exited(exit)) => self.start(container, Role::Init, Some(exit)),
        }
        InitOutcome::Wait
    }

    fn failed_for_good(&self, container: &Container, exit: &Terminated) -> bool {
        !spec::restarts_on_failure(self.spec, container, Role::Init) && !spec::rule_restarts(container, exit.exit_code)
    }

    fn watch_over(&mut self, container: &'a Container, role: Role, state: &ContainerStatus) {
        let name = &container.name;
        if state.hash != spec::hash(container) {
            let message = format!("Container {name} definition changed, will be restarted");
            self.plan.end.push(End { container, role, probe: None, message });
        } else if let Some(probe) = (self.situation.sick)(name) {
            let again = if spec::restarts_on_failure(self.spec, container, role) { ", will be restarted" } else { "" };
            let message = match probe {
                Kind::PostStart => "FailedPostStartHook".to_owned(),
                probe => format!("Container {name} failed {} probe{again}", probe.word()),
            };
            self.plan.end.push(End { container, role, probe: Some(probe), message });
        }
    }

    fn start(&mut self, container: &'a Container, role: Role, exit: Option<&Terminated>) {
        // Nobody is to blame for the end of the cluster.
        let failed = exit.filter(|exit| !exit.interrupted).map(|exit| exit.finished_at);
        let pause = |failed| self.situation.backoffs.wait(&backoff_name(container), failed, self.situation.now);
        match failed.and_then(pause) {
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

    /// `a:run`, `a:0`, `a:3`, `a:cluster` (ended well with the cluster), `a:old` (runs with another
    /// hash), `a:was` (ended well with another hash).
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
                asked: false,
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
                    hash: if matches!(state, "old" | "was") { "other".into() } else { spec::hash(container) },
                    id: "x".into(),
                    state: match state {
                        "run" | "old" => ContainerState::Running { started_at: at(0) },
                        "cluster" => exit(0, true),
                        "was" => exit(0, false),
                        code => exit(code.parse().expect("a code"), false),
                    },
                    previous: None,
                }
            })
            .collect()
    }

    /// Every running container has come up but those called `s`-something-`slow`; those called `sick` fail.
    fn make<'a>(spec: &'a PodSpec, now: Timestamp, states: &[ContainerStatus], backoffs: &Backoffs) -> Plan<'a> {
        let started = |name: &str| !name.ends_with("slow");
        let sick = |name: &str| (name == "sick").then_some(Kind::Liveness);
        plan(spec, &Situation { now, states, backoffs, started: &started, sick: &sick })
    }

    fn check(policy: &str, present: &str, expected: &str) {
        let spec = spec(policy);
        let backoffs = Backoffs::new(BackoffLimits::default());
        let plan = make(&spec, at(10), &states(&spec, present), &backoffs);
        let mut words: Vec<_> = plan.start.iter().map(|start| format!("+{}", start.container.name)).collect();
        words.extend(plan.end.iter().map(|end| format!("-{}", end.container.name)));
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
        check("Always", "i1:0 i2:0", "+s");
        check("Always", "i1:0 i2:0 s:run", "+a +b");
        check("Always", "i1:0 i2:0 s:1", "+s");
        check("Never", "i1:0 i2:0 s:1", "+s");
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
        check("Never", "s:run a:was b:run", "+a");
        check("Never", "s:run a:was b:0", "+a");
    }

    #[test]
    fn a_sidecar_holds_up_the_next_container_until_it_has_come_up() {
        let spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "slow", "restartPolicy": "Always"}, {"name": "i"}], "containers": [{"name": "a"}],
        }))
        .expect("a spec");
        let backoffs = Backoffs::new(BackoffLimits::default());
        let plan = make(&spec, at(10), &states(&spec, "slow:run"), &backoffs);
        assert_eq!(plan, Plan::default());
        let plan = make(&spec, at(10), &states(&spec, "slow:run a:run"), &backoffs);
        assert_eq!(plan, Plan::default(), "not once the pod is initialized");
    }

    #[test]
    fn a_container_that_fails_its_probe_is_ended() {
        for (policy, expected) in [
            ("Always", "Container sick failed liveness probe, will be restarted"),
            ("Never", "Container sick failed liveness probe"),
        ] {
            let spec: PodSpec =
                serde_json::from_value(json!({"restartPolicy": policy, "containers": [{"name": "sick"}]}))
                    .expect("a spec");
            let backoffs = Backoffs::new(BackoffLimits::default());
            let plan = make(&spec, at(10), &states(&spec, "sick:run"), &backoffs);
            assert_eq!(plan.end.iter().map(|end| end.message.as_str()).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn sidecars_end_last_and_in_reverse() {
        let spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [
                {"name": "s1", "restartPolicy": "Always"}, {"name": "i"}, {"name": "s2", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "a"}, {"name": "b"}],
        }))
        .expect("a spec");
        for (running, expected) in [
            (vec!["s1", "s2", "a", "b"], vec!["a", "b"]),
            (vec!["s1", "i"], vec!["i"]),
            (vec!["s1", "s2"], vec!["s2"]),
            (vec!["s1"], vec!["s1"]),
            (vec![], vec![]),
        ] {
            let names: Vec<_> =
                next_to_stop(&spec, &running).into_iter().map(|(container, _)| container.name.as_str()).collect();
            assert_eq!(names, expected, "{running:?}");
        }
    }

    #[test]
    fn a_container_may_have_a_policy_and_rules_of_its_own() {
        let spec: PodSpec = serde_json::from_value(json!({
            "restartPolicy": "Never",
            "containers": [
                {"name": "always", "restartPolicy": "Always"},
                {"name": "rule", "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
                ]},
            ],
        }))
        .expect("a spec");
        let backoffs = Backoffs::new(BackoffLimits::default());
        let starts = |present: &str| -> Vec<String> {
            let plan = make(&spec, at(10), &states(&spec, present), &backoffs);
            plan.start.iter().map(|start| start.container.name.clone()).collect()
        };
        assert_eq!(starts("always:0 rule:0"), ["always"]);
        assert_eq!(starts("always:run rule:42"), ["rule"]);
    }

    #[test]
    fn a_pause_holds_up_one_container_and_not_the_others() {
        let spec = spec("Always");
        let mut backoffs = Backoffs::new(BackoffLimits::default());
        backoffs.tried(&backoff_name(&spec.containers[0]), at(0), at(0));
        let plan = make(&spec, at(14), &states(&spec, "s:run a:1 b:1"), &backoffs);
        assert_eq!(plan.start.iter().map(|start| start.container.name.as_str()).collect::<Vec<_>>(), ["b"]);
        let pause = &plan.paused[0];
        assert_eq!((pause.container.name.as_str(), pause.whole.as_secs(), pause.left.as_secs()), ("a", 10, 6));
    }
}
