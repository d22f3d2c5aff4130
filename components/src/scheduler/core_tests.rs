//! The scheduler without wires: watch events in, decisions out.

use super::*;
use crate::scheduler::{Algorithm, Cycle};
use parking_lot::Mutex;
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

/// A scheduler without wires.
struct Bench {
    core: Mutex<Core>,
    cycle: Cycle,
}

impl Bench {
    fn set_pod(&mut self, pod: Arc<Pod>, now: Instant) {
        self.core.get_mut().set_pod(pod, now);
    }
    fn remove_pod(&mut self, name: &str, now: Instant) {
        self.core.get_mut().remove_pod(&ObjectKey::new("default", name), now);
    }
    fn set_node(&mut self, node: Arc<Node>, now: Instant) {
        self.core.get_mut().set_node(node, now);
    }
    fn bind_failed(&mut self, queued: Queued, live: Option<Arc<Pod>>, now: Instant) {
        self.core.get_mut().bind_failed(queued, live, now);
    }
    fn next(&mut self, now: Instant) -> Option<Decision> {
        self.cycle.next(&self.core, || now)
    }
}

fn core() -> (Bench, Instant) {
    let (profile, now) = (Arc::new(Profile::standard()), Instant::now());
    let core = Mutex::new(Core::new("default-scheduler", profile.clone(), Backoff::default(), now));
    (Bench { core, cycle: Cycle::new(profile, Algorithm::new(0, 1)) }, now)
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
    core.remove_pod("p", now);
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
    assert_eq!(core.core.lock().wake_at(), Some(now + Duration::from_secs(1)));
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
    core.remove_pod("p", now);
    let (queued, _) = bound(core.next(now));
    core.bind_failed(queued, None, now);
    assert_eq!(core.core.lock().waiting(), 0);
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
fn a_pod_that_goes_while_it_is_tried_is_not_bound() {
    let (mut core, now) = core();
    core.set_node(node("a", json!({})), now);
    let mut snapshot = Snapshot::default();
    let mut algorithm = Algorithm::new(0, 1);
    let profile = Profile::standard();
    let mut try_it = |core: &mut Bench, meanwhile: &dyn Fn(&mut Core)| {
        let core = core.core.get_mut();
        let Some(Try::Schedule(queued)) = core.begin(&mut snapshot, now) else { panic!("a pod is to be tried") };
        let found = algorithm.schedule(&profile, &snapshot, &queued.pod);
        meanwhile(core);
        core.end(queued, found, now)
    };
    core.set_pod(pod("p", cpu("1")), now);
    let gone = try_it(&mut core, &|core| core.remove_pod(&ObjectKey::new("default", "p"), now));
    assert!(gone.is_none() && core.core.lock().waiting() == 0);
    core.set_pod(pod("p", cpu("1")), now);
    let placed = json!({"nodeName": "a", "containers": []});
    let placed_by_another = try_it(&mut core, &|core| core.set_pod(pod("p", placed.clone()), now));
    assert!(placed_by_another.is_none());
    // Its node goes: it is tried anew.
    core.set_pod(pod("q", cpu("1")), now);
    assert!(try_it(&mut core, &|core| core.remove_node("a")).is_none());
    core.set_node(node("b", json!({})), now);
    let (queued, on) = bound(try_it(&mut core, &|core| {
        let mut labelled = Pod::clone(&pod("q", cpu("1")));
        labelled.labels = vec![("new".into(), "label".into())];
        core.set_pod(Arc::new(labelled), now);
    }));
    assert_eq!((on.as_str(), queued.pod.label("new")), ("b", Some("label")), "the newest copy is bound");
}

#[test]
fn a_deleting_pod_at_the_head_is_skipped() {
    let (mut core, now) = core();
    core.set_node(node("a", json!({})), now);
    let going = |name: &str| {
        let mut going = Pod::clone(&pod(name, cpu("1")));
        going.terminating = true;
        Arc::new(going)
    };
    core.set_pod(pod("p", cpu("1")), now);
    core.set_pod(going("p"), now);
    assert!(matches!(core.next(now), Some(Decision::Skip(pod)) if pod.key.name == "p"));
    assert!(core.next(now).is_none());
    // One that waits for something else just goes.
    core.set_pod(pod("q", cpu("100")), now);
    refused(core.next(now));
    core.set_pod(going("q"), now);
    assert_eq!(core.core.lock().waiting(), 0);
    // A binding that failed because the pod is being deleted is not tried again.
    core.set_pod(pod("r", cpu("1")), now);
    let (queued, _) = bound(core.next(now));
    core.bind_failed(queued, Some(going("r")), now);
    assert_eq!(core.core.lock().waiting(), 0);
}
