//! Tests of [`super`]: tables of what is seen and what is told.

use super::*;
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

fn pod(policy: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"restartPolicy": policy, "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]},
    }))
    .expect("a pod")
}

fn exit(code: i32) -> Terminated {
    Terminated {
        id: "process://1.2".into(),
        exit_code: code,
        signal: None,
        reason: None,
        message: String::new(),
        started_at: Some(at(0)),
        finished_at: at(5),
        interrupted: false,
        asked: false,
    }
}

fn container(name: &str, attempt: u32, state: ContainerState) -> ContainerStatus {
    let previous = (attempt > 0).then(|| exit(9));
    ContainerStatus {
        name: name.into(),
        image: "i".into(),
        attempt,
        hash: "h".into(),
        id: "process://1.2".into(),
        state,
        previous,
    }
}

fn running(name: &str) -> ContainerStatus {
    container(name, 0, ContainerState::Running { started_at: at(0) })
}

fn see(pod: &Pod, containers: &[ContainerStatus], waiting: &[(&str, &'static str)], ending: bool) -> PodStatus {
    let waiting =
        waiting.iter().map(|(name, reason)| ((*name).to_owned(), Waiting { reason, message: "why".into() })).collect();
    observe(Seen {
        pod,
        containers,
        waiting: &waiting,
        health: &BTreeMap::from([("sick".to_owned(), Health { started: true, ready: false })]),
        host_ip: "127.0.0.1",
        pod_ip: Some("127.1.2.3"),
        ending,
        failed: None,
        simulated: false,
        now: at(10),
    })
}

fn condition(status: &PodStatus, kind: &str) -> String {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition.type_ == kind).expect(kind);
    [Some(found.status.clone()), found.reason.clone(), found.message.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn an_ephemeral_container_waits_and_says_why() {
    let mut pod = pod("Always");
    let debugger = json!([{"name": "debugger", "image": "busybox"}]);
    pod.spec.as_mut().expect("a spec").ephemeral_containers = Some(serde_json::from_value(debugger).expect("a list"));
    let status = see(&pod, &[running("a"), running("b")], &[], false);
    let told = status.ephemeral_container_statuses.as_ref().expect("told");
    let waiting = told[0].state.as_ref().and_then(|state| state.waiting.as_ref()).expect("it waits");
    assert_eq!((told.len(), told[0].name.as_str()), (1, "debugger"));
    assert_eq!(waiting.reason.as_deref(), Some("CreateContainerConfigError"));
    assert_eq!(waiting.message.as_deref(), Some("ephemeral containers are not supported by this kubelet"));
    assert_eq!(condition(&status, "Ready"), "True", "the pod is no worse for it");
}

#[test]
fn a_pod_that_runs_is_ready() {
    let status = see(&pod("Always"), &[running("a"), running("b")], &[], false);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&status, kind), "True");
    }
    let json = serde_json::to_value(&status).expect("plain data");
    assert_eq!(json["podIPs"], json!([{"ip": "127.1.2.3"}]));
    assert_eq!(json["qosClass"], "BestEffort");
    let told = &json["containerStatuses"][0];
    assert_eq!(told["state"], json!({"running": {"startedAt": "2027-01-15T08:00:00Z"}}));
    assert_eq!((&told["ready"], &told["started"], &told["restartCount"]), (&json!(true), &json!(true), &json!(0)));
}

#[test]
fn a_container_that_pauses_is_waiting_with_its_last_end() {
    let states = [running("a"), container("b", 2, ContainerState::Exited(exit(3)))];
    let status = see(&pod("Always"), &states, &[("b", "CrashLoopBackOff")], false);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(condition(&status, "Ready"), "False ContainersNotReady containers with unready status: [b]");
    let told = serde_json::to_value(&status.container_statuses.expect("told")[1]).expect("plain data");
    assert_eq!(told["state"]["waiting"], json!({"reason": "CrashLoopBackOff", "message": "why"}));
    assert_eq!(told["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(told["lastState"]["terminated"]["reason"], "Error");
    assert_eq!(told["restartCount"], 2);
}

#[test]
fn a_pod_that_has_nothing_yet_is_creating() {
    let status = see(&pod("Always"), &[], &[("a", "ErrImagePull")], false);
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    let told: Value = serde_json::to_value(&status.container_statuses).expect("plain data");
    assert_eq!(told[0]["state"]["waiting"]["reason"], "ErrImagePull");
    assert_eq!(told[1]["state"]["waiting"], json!({"reason": "ContainerCreating"}));
    assert_eq!(condition(&status, "ContainersReady"), "False ContainersNotReady containers with unready status: [a b]");
}

#[test]
fn a_pod_that_is_over_says_how() {
    let states = |code| {
        [container("a", 0, ContainerState::Exited(exit(0))), container("b", 0, ContainerState::Exited(exit(code)))]
    };
    let well = see(&pod("Never"), &states(0), &[], false);
    assert_eq!(well.phase.as_deref(), Some("Succeeded"));
    assert_eq!(condition(&well, "Ready"), "False PodCompleted");
    assert_eq!(condition(&well, "Initialized"), "True PodCompleted");
    let badly = see(&pod("Never"), &states(1), &[], false);
    assert_eq!(badly.phase.as_deref(), Some("Failed"));
    assert_eq!(condition(&badly, "Ready"), "False PodFailed");
    let deleted = see(&pod("Always"), &states(0), &[], true);
    assert_eq!(deleted.phase.as_deref(), Some("Succeeded"));
}

#[test]
fn what_the_api_has_is_kept_where_it_is_not_ours() {
    let mut base = see(&pod("Always"), &[running("a"), running("b")], &[], false);
    let foreign = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"});
    base.conditions.as_mut().expect("told").push(serde_json::from_value(foreign).expect("a condition"));
    base.start_time = Some(Time(at(1)));
    let mut later =
        see(&pod("Always"), &[running("a"), container("b", 0, ContainerState::Exited(exit(1)))], &[], false);
    for condition in later.conditions.as_mut().expect("told") {
        condition.last_transition_time = Some(Time(at(99)));
    }
    let merged = merge(Some(&base), &later);
    assert_eq!(merged.start_time, Some(Time(at(1))));
    let since = |kind: &str| {
        let conditions = merged.conditions.as_deref().expect("told");
        conditions.iter().find(|c| c.type_ == kind).and_then(|c| c.last_transition_time.clone()).map(|time| time.0)
    };
    assert_eq!(since("Initialized"), Some(at(10)), "unchanged");
    assert_eq!(since("Ready"), Some(at(99)), "changed");
    assert_eq!(condition(&merged, "DisruptionTarget"), "True DeletionByTaintManager");
    base.conditions.as_mut().expect("told").reverse();
    let again = merge(Some(&base), &later).conditions.expect("told");
    let kinds: Vec<_> = again.iter().map(|condition| condition.type_.as_str()).collect();
    let own = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    assert_eq!(kinds, [&own[..], &["DisruptionTarget"]].concat(), "its own first, in its order");
}

#[test]
fn a_pod_that_is_over_stays_over() {
    let base = PodStatus { phase: Some("Failed".into()), reason: Some("Evicted".into()), ..PodStatus::default() };
    let merged = merge(Some(&base), &see(&pod("Always"), &[running("a"), running("b")], &[], false));
    assert_eq!((merged.phase.as_deref(), merged.reason.as_deref()), (Some("Failed"), Some("Evicted")));
}

#[test]
fn a_pod_is_over_only_when_its_sidecars_are_gone() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "a", "image": "i"}],
        },
    }))
    .expect("a pod");
    let ended = container("a", 0, ContainerState::Exited(exit(0)));
    let status = see(&pod, &[running("side"), ended.clone()], &[], false);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(condition(&status, "Initialized"), "True");
    let status = see(&pod, &[container("side", 0, ContainerState::Exited(exit(137))), ended], &[], false);
    assert_eq!(status.phase.as_deref(), Some("Succeeded"));
}

#[test]
fn init_containers_are_complete_when_they_have_ended_well() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "initContainers": [{"name": "first", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "sick", "image": "i"}],
        },
    }))
    .expect("a pod");
    let status = see(&pod, &[running("first")], &[], false);
    assert_eq!(
        condition(&status, "Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [first side]"
    );
    let first = container("first", 0, ContainerState::Exited(exit(0)));
    let status = see(&pod, &[first, running("side"), running("sick")], &[], false);
    assert_eq!(condition(&status, "Initialized"), "True");
    assert_eq!(
        condition(&status, "ContainersReady"),
        "False ContainersNotReady containers with unready status: [sick]"
    );
    assert_eq!(status.container_statuses.expect("told")[0].started, Some(true));
}

#[test]
fn a_pod_that_was_refused_tells_why_and_of_no_container() {
    let pod = pod("Always");
    let why = ("OutOfcpu".to_owned(), "Pod was rejected: …".to_owned());
    let refused = observe(Seen {
        pod: &pod,
        containers: &[],
        waiting: &Default::default(),
        health: &BTreeMap::new(),
        host_ip: "127.0.0.1",
        pod_ip: None,
        ending: true,
        failed: Some(&why),
        simulated: false,
        now: at(1),
    });
    assert_eq!((refused.phase.as_deref(), refused.reason.as_deref()), (Some("Failed"), Some("OutOfcpu")));
    assert_eq!((refused.container_statuses, refused.init_container_statuses), (None, None));
}
