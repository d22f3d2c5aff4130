//! Cycles: what a decision sees, and what becomes of a pod on its way.

use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{Bench, bound, cpu, key, node, pod, refused, with};
use crate::scheduler::framework::Profile;
use crate::scheduler::{Algorithm, Core, Decision, Snapshot, Try};

#[test]
fn the_next_pod_sees_what_was_just_placed() {
    let mut core = Bench::new();
    core.set_node(node("a", Value::Null));
    core.set_node(node("b", Value::Null));
    for name in ["p", "q", "r"] {
        core.set_pod(pod(name, cpu("3")));
    }
    let (first, second) = (bound(core.next()).1, bound(core.next()).1);
    assert_ne!(first, second);
    assert_eq!(
        refused(core.next()),
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are \
         available: 2 No preemption victims found for incoming pod."
    );
    assert!(core.next().is_none());
    // A pod that goes makes room at once.
    core.set_pod(pod("p", json!({"nodeName": first, "containers": cpu("3")["containers"]})));
    core.remove_pod("p");
    assert_eq!(bound(core.next()).1, first);
}

#[test]
fn a_pod_on_its_way_is_not_tried_again() {
    let mut core = Bench::new();
    core.set_node(node("a", Value::Null));
    core.set_pod(pod("p", cpu("1")));
    let (queued, _) = bound(core.next());
    // A status write of somebody else, seen before the binding is.
    core.set_pod(pod("p", cpu("1")));
    assert!(core.next().is_none());
    // The binding fails and the pod is still there: again after the back-off.
    core.bind_failed(queued, Some(pod("p", cpu("1"))));
    assert!(core.next().is_none());
    assert_eq!(core.core.lock().wake_at(), Some(core.now + Duration::from_secs(1)));
    core.pass(1);
    assert_eq!(bound(core.next()).1, "a");
}

#[test]
fn a_binding_whose_answer_was_lost_is_not_repeated() {
    let mut core = Bench::new();
    core.set_node(node("a", Value::Null));
    core.set_pod(pod("p", cpu("3")));
    let (queued, _) = bound(core.next());
    let live = pod("p", json!({"nodeName": "a", "containers": cpu("3")["containers"]}));
    core.bind_failed(queued, Some(live));
    core.pass(60);
    assert!(core.next().is_none());
    // It still counts where it is.
    core.set_pod(pod("q", cpu("3")));
    refused(core.next());
    // Gone altogether: forgotten.
    core.remove_pod("p");
    let (queued, _) = bound(core.next());
    core.bind_failed(queued, None);
    assert_eq!(core.waiting(), 0);
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut core = Bench::new();
    core.set_node(node("a", Value::Null));
    core.set_pod(pod("p", cpu("3")));
    bound(core.next());
    core.set_pod(with(&pod("p", cpu("3")), |pod| pod.uid = "another".into()));
    assert_eq!(bound(core.next()).1, "a");
}

#[test]
fn a_placed_pod_counts_but_is_never_scheduled() {
    let mut core = Bench::new();
    core.set_pod(pod("p", json!({"nodeName": "a", "containers": cpu("3")["containers"]})));
    core.set_node(node("a", Value::Null));
    assert!(core.next().is_none());
    core.set_pod(pod("q", cpu("2")));
    refused(core.next());
    // What has finished takes nothing.
    let placed = pod("p", json!({"nodeName": "a", "containers": cpu("3")["containers"]}));
    core.set_pod(with(&placed, |pod| pod.finished = true));
    assert_eq!(bound(core.next()).1, "a");
}

/// One try, with something happening while the nodes are looked at.
fn try_while(bench: &mut Bench, meanwhile: impl Fn(&mut Core)) -> Option<Decision> {
    let (now, core) = (bench.now, bench.core.get_mut());
    let mut snapshot = Snapshot::default();
    // A core has one snapshot; a node that comes and goes makes it complete for another one.
    let rearrange = |core: &mut Core| {
        core.set_node(node("z", json!({"spec": {"unschedulable": true}})), now);
        core.remove_node("z");
    };
    rearrange(core);
    let Some(Try::Schedule(queued)) = core.begin(&mut snapshot, now) else { panic!("a pod is to be tried") };
    let found = Algorithm::new(0, 1).schedule(&Profile::standard(), &snapshot, &queued.pod);
    meanwhile(core);
    rearrange(core);
    core.end(queued, found, now)
}

#[test]
fn a_pod_that_goes_while_it_is_tried_is_not_bound() {
    let mut bench = Bench::new();
    let now = bench.now;
    bench.set_node(node("a", Value::Null));
    bench.set_pod(pod("p", cpu("1")));
    assert!(try_while(&mut bench, |core| core.remove_pod(&key("p"), now)).is_none());
    assert_eq!(bench.waiting(), 0);
    // Somebody else places it.
    bench.set_pod(pod("p", cpu("1")));
    let placed = pod("p", json!({"nodeName": "a", "containers": []}));
    assert!(try_while(&mut bench, |core| core.set_pod(placed.clone(), now)).is_none());
    assert_eq!(bench.waiting(), 0);
    // Another pod takes its name: that one is not bound by this try.
    bench.set_pod(pod("q", cpu("1")));
    let another = with(&pod("q", cpu("1")), |pod| pod.uid = "another".into());
    assert!(try_while(&mut bench, |core| core.set_pod(another.clone(), now)).is_none());
    assert_eq!(bound(bench.next()).0.pod.uid, "another");
    // Its node goes: it is tried anew.
    bench.set_pod(pod("r", cpu("1")));
    assert!(try_while(&mut bench, |core| core.remove_node("a")).is_none());
    bench.set_node(node("b", Value::Null));
    // It changes: the newest copy is bound.
    let labelled = with(&pod("r", cpu("1")), |pod| pod.labels = vec![("new".into(), "label".into())]);
    let (queued, on) = bound(try_while(&mut bench, |core| core.set_pod(labelled.clone(), now)));
    assert_eq!((on.as_str(), queued.pod.label("new")), ("b", Some("label")));
}

#[test]
fn a_deleting_pod_at_the_head_is_skipped() {
    let mut bench = Bench::new();
    bench.set_node(node("a", Value::Null));
    let going = |name: &str| with(&pod(name, cpu("1")), |pod| pod.terminating = true);
    bench.set_pod(pod("p", cpu("1")));
    bench.set_pod(going("p"));
    assert!(matches!(bench.next(), Some(Decision::Skip(pod)) if pod.key.name == "p"));
    assert!(bench.next().is_none());
    // One that waits for something else just goes.
    bench.set_pod(pod("q", cpu("100")));
    refused(bench.next());
    bench.set_pod(going("q"));
    assert_eq!(bench.waiting(), 0);
    // A binding that failed because the pod is being deleted is not tried again.
    bench.set_pod(pod("r", cpu("1")));
    let (queued, _) = bound(bench.next());
    bench.bind_failed(queued, Some(going("r")));
    assert_eq!(bench.waiting(), 0);
}
