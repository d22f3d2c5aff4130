//! Preemption through the core: who is told to go, when the pod is tried again, and who may use the room meanwhile.

use std::sync::Arc;

use serde_json::{Value, json};

use super::bench::{Bench, and, bound, cpu, key, node, pod, refused, with};
use crate::scheduler::framework::Nomination;
use crate::scheduler::{Decision, Pod};

fn important(name: &str, amount: &str, priority: i32) -> Arc<Pod> {
    pod(name, and(cpu(amount), json!({"priority": priority})))
}

fn placed(name: &str, amount: &str, priority: i32) -> Arc<Pod> {
    pod(name, and(cpu(amount), json!({"priority": priority, "nodeName": "a"})))
}

/// Who is told to go, and whose promise is void.
fn preempts(decision: Option<Decision>) -> (Vec<String>, Vec<String>) {
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.key.name.clone()).collect();
    match decision {
        Some(Decision::Refuse { nomination: Nomination::Node { victims, .. }, displaced, message, .. }) => {
            assert!(!message.contains("preemption"), "{message}");
            (names(&victims), names(&displaced))
        }
        other => panic!("{other:?}"),
    }
}

fn full() -> Bench {
    let mut bench = Bench::new();
    bench.set_node(node("a", Value::Null));
    bench.set_pod(placed("low", "3", 0));
    bench
}

#[test]
fn it_waits_until_they_were_told_and_takes_the_room_when_they_are_gone() {
    let mut bench = full();
    bench.set_pod(important("high", "3", 10));
    assert_eq!(preempts(bench.next()), (vec!["low".to_owned()], Vec::new()));
    // Something happens that would bring it back; but the victims are just being told.
    bench.set_node(node("b", json!({"spec": {"unschedulable": true}})));
    bench.set_node(node("b", json!({"allocatable": {"cpu": "2"}})));
    bench.set_pod(with(&placed("low", "3", 0), |pod| (pod.terminating, pod.preempted) = (true, true)));
    assert!(bench.next().is_none());
    bench.core.get_mut().evicted(&key("high"), true, bench.now);
    assert_eq!(bench.waiting(), 1);
    // They have gone.
    bench.remove_pod("low");
    let (queued, on) = bound(bench.next());
    assert_eq!((queued.pod.key.name.as_str(), on.as_str()), ("high", "a"));
}

#[test]
fn room_that_was_promised_is_not_for_less_important_pods() {
    let mut bench = full();
    bench.set_pod(important("high", "3", 10));
    preempts(bench.next());
    bench.core.get_mut().evicted(&key("high"), true, bench.now);
    bench.set_pod(with(&placed("low", "3", 0), |pod| (pod.terminating, pod.preempted) = (true, true)));
    // The victim goes, and a small less important pod comes first: it gets what is left beside the promise.
    bench.set_pod(important("small", "1", 5));
    bench.remove_pod("low");
    assert_eq!(bound(bench.next()).0.pod.key.name, "small");
    assert_eq!(bound(bench.next()).0.pod.key.name, "high");
    // One that would need the promised room does not get it.
    let mut bench = full();
    bench.set_pod(important("high", "3", 10));
    preempts(bench.next());
    bench.set_pod(important("thief", "2", 5));
    bench.remove_pod("low");
    assert!(refused(bench.next()).contains("Insufficient cpu"), "high is held, and its room kept");
    bench.core.get_mut().evicted(&key("high"), true, bench.now);
    assert_eq!(bound(bench.next()).0.pod.key.name, "high");
}

#[test]
fn a_more_important_pod_takes_the_promise_over() {
    let mut bench = full();
    bench.set_pod(important("high", "3", 10));
    preempts(bench.next());
    bench.core.get_mut().evicted(&key("high"), true, bench.now);
    bench.set_pod(important("higher", "4", 20));
    assert_eq!(preempts(bench.next()), (vec!["low".to_owned()], vec!["high".to_owned()]));
}

#[test]
fn a_promise_survives_a_restart_in_the_status_alone() {
    let mut bench = full();
    let promised = with(&important("high", "3", 10), |pod| {
        pod.waiting.as_mut().expect("it waits").nominated_node = "a".into();
    });
    bench.set_pod(promised.clone());
    bench.set_pod(with(&placed("low", "3", 0), |pod| (pod.terminating, pod.preempted) = (true, true)));
    assert!(refused(bench.next()).ends_with("not eligible due to a terminating pod on the nominated node."));
    // A copy that does not speak of it yet, then one that withdraws it.
    assert_eq!(bench.core.lock().promised(&key("high")).as_deref(), Some("a"));
    bench.set_pod(important("high", "3", 10));
    assert_eq!(bench.core.lock().promised(&key("high")), None);
}

#[test]
fn evictions_that_fail_void_the_promise_and_it_is_tried_again() {
    let mut bench = full();
    bench.set_pod(important("high", "3", 10));
    preempts(bench.next());
    bench.core.get_mut().evicted(&key("high"), false, bench.now);
    assert_eq!(bench.core.lock().promised(&key("high")), None);
    assert_eq!(preempts(bench.next()).0, ["low"]);
    // It goes while they are being told: nothing is left of it.
    bench.remove_pod("high");
    bench.core.get_mut().evicted(&key("high"), true, bench.now);
    assert!(bench.next().is_none() && bench.waiting() == 0);
}
