//! The scheduler without wires: watch events in, decisions out.

use super::*;
use serde_json::{Value, json};
use std::time::Duration;

fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let json = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec});
    Arc::new(Pod::from_json(json.to_string().as_bytes()).expect("a pod"))
}

fn cpu(amount: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]})
}

fn node(name: &str, spec: Value) -> Arc<Node> {
    let json = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
    Arc::new(Node::from_json(json.to_string().as_bytes()).expect("a node"))
}

fn core() -> (Core, Instant) {
    let core = Core::new("default-scheduler", Profile::standard(), Algorithm::new(0, 1), Backoff::default());
    (core, Instant::now())
}

fn bound(decision: Option<Decision>) -> (Queued, String) {
    match decision {
        Some(Decision::Bind { queued, node }) => (queued, node.to_string()),
        other => panic!("{other:?}"),
    }
}

fn refused(decision: Option<Decision>) -> String {
    match decision {
        Some(Decision::Refuse { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_pod_sees_what_was_just_placed() {
    let (mut core, now) = core();
    core.set_node(node("a", json!({})), now);
    core.set_node(node("b", json!({})), now);
    for name in ["p", "q", "r"] {
        core.set_pod(pod(name, cpu("3")), now);
    }
    let (first, second) = (bound(core.next(now)).1, bound(core.next(now)).1);
    assert_ne!(first, second);
    assert_eq!(
        refused(core.next(now)),
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are \
         available: 2 No preemption victims found for incoming pod."
    );
    assert!(core.next(now).is_none());
    // A pod that goes makes room at once.
    core.set_pod(pod("p", json!({"nodeName": first, "containers": cpu("3")["containers"]})), now);
    core.remove_pod(&ObjectKey::new("default", "p"), now);
    assert_eq!(bound(core.next(now)).1, first);
}

#[test]
fn a_pod_on_its_way_is_not_tried_again() {
    let (mut core, now) = core();
    core.set_node(node("a", json!({})), now);
    core.set_pod(pod("p", cpu("1")), now);
    let (queued, _) = bound(core.next(now));
    // A status write of somebody else, seen before the binding is.
    core.set_pod(pod("p", cpu("1")), now);
    assert!(core.next(now).is_none());
    // The binding fails and the pod is still there: again after the back-off.
    core.bind_failed(queued, Some(pod("p", cpu("1"))), now);
    assert!(core.next(now).is_none());
    assert_eq!(core.wake_at(), Some(now + Duration::from_secs(1)));
    assert_eq!(bound(core.next(now + Duration::from_secs(1))).1, "a");
}

#[test]
fn a_binding_whose_answer_was_lost_is_not_repeated() {
    let (mut core, now) = core();
    core.set_node(node("a", json!({})), now);
    core.set_pod(pod("p", cpu("3")), now);
    let (queued, _) = bound(core.next(now));
    let live = pod("p", json!({"nodeName": "a", "containers": cpu("3")["containers"]}));
    core.bind_failed(queued, Some(live), now + Duration::from_secs(9));
    assert!(core.next(now + Duration::from_secs(60)).is_none());
    // It still counts where it is.
    core.set_pod(pod("q", cpu("3")), now);
    refused(core.next(now));
    // Gone altogether: forgotten.
    core.remove_pod(&ObjectKey::new("default", "p"), now);
    let (queued, _) = bound(core.next(now));
    core.bind_failed(queued, None, now);
    assert_eq!(core.waiting(), 0);
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let (mut core, now) = core();
    core.set_node(node("a", json!({})), now);
    core.set_pod(pod("p", cpu("3")), now);
    bound(core.next(now));
    let mut other = Pod::clone(&pod("p", cpu("3")));
    other.uid = "another".into();
    core.set_pod(Arc::new(other), now);
    assert_eq!(bound(core.next(now)).1, "a");
}

#[test]
fn a_placed_pod_counts_but_is_never_scheduled() {
    let (mut core, now) = core();
    core.set_pod(pod("p", json!({"nodeName": "a", "containers": cpu("3")["containers"]})), now);
    core.set_node(node("a", json!({})), now);
    assert!(core.next(now).is_none());
    core.set_pod(pod("q", cpu("2")), now);
    refused(core.next(now));
    // What has finished takes nothing.
    let mut done = Pod::clone(&pod("p", json!({"nodeName": "a", "containers": cpu("3")["containers"]})));
    done.finished = true;
    core.set_pod(Arc::new(done), now);
    assert_eq!(bound(core.next(now)).1, "a");
}

#[test]
fn each_refusal_is_cured_by_its_event() {
    let cases: [(&str, Value, Value, Value); 4] = [
        ("cordon", cpu("1"), json!({"unschedulable": true}), json!({})),
        ("taint", cpu("1"), json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}), json!({})),
        (
            "toleration",
            json!({"tolerations": [{"key": "k", "operator": "Exists"}]}),
            json!({"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "z", "effect": "NoExecute"}]}),
            json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        ),
        (
            "prefer",
            cpu("1"),
            json!({"taints": [{"key": "k", "effect": "NoExecute"}]}),
            json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}),
        ),
    ];
    for (name, spec, before, after) in cases {
        let (mut core, now) = core();
        core.set_node(node("a", before.clone()), now);
        core.set_pod(pod("p", spec), now);
        refused(core.next(now));
        core.set_node(node("a", before), now);
        assert!(core.next(now).is_none(), "{name}: nothing changed");
        core.set_node(node("a", after), now);
        assert_eq!(bound(core.next(now)).1, "a", "{name}");
    }
}

#[test]
fn a_label_or_a_node_brings_a_pod_to_its_place() {
    let (mut core, now) = core();
    core.set_pod(pod("p", json!({"nodeSelector": {"kubernetes.io/hostname": "b"}})), now);
    assert_eq!(refused(core.next(now)), "no nodes available to schedule pods");
    core.set_node(node("a", json!({})), now);
    assert_eq!(
        refused(core.next(now)),
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    core.set_node(node("b", json!({})), now);
    assert_eq!(bound(core.next(now)).1, "b");
}
