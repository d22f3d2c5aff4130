//! Objects and a scheduler to try things on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_proto::resource::ObjectKey;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::scheduler::framework::Profile;
use crate::scheduler::{Algorithm, Backoff, Core, Cycle, Decision, Node, Pod, Queued};

/// A pod of namespace `default`; its uid is its name.
pub(super) fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let json = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec});
    Arc::new(Pod::from_json(json.to_string().as_bytes()).expect("a pod"))
}

/// The same pod with something changed.
pub(super) fn with(pod: &Arc<Pod>, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let mut copy = Pod::clone(pod);
    change(&mut copy);
    Arc::new(copy)
}

/// A spec that asks for cpu.
pub(super) fn cpu(amount: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]})
}

/// The same spec with further fields.
pub(super) fn and(mut spec: Value, more: Value) -> Value {
    let (Some(into), Value::Object(more)) = (spec.as_object_mut(), more) else { panic!("two maps") };
    into.extend(more);
    spec
}

/// A node of 4 cpu, 8Gi and 110 pods; `change` may set labels, spec and allocatable.
pub(super) fn node(name: &str, change: Value) -> Arc<Node> {
    let mut labels = json!({"kubernetes.io/hostname": name});
    let mut allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    for (into, key) in [(&mut labels, "labels"), (&mut allocatable, "allocatable")] {
        if change[key].is_object() {
            *into = and(into.take(), change[key].clone());
        }
    }
    let json = json!({"metadata": {"name": name, "labels": labels}, "spec": change["spec"].as_object(),
        "status": {"allocatable": allocatable}});
    let json = if change["spec"].is_null() { and(json, json!({"spec": {}})) } else { json };
    Arc::new(Node::from_json(json.to_string().as_bytes()).expect("a node"))
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// A scheduler without wires.
pub(super) struct Bench {
    pub(super) core: Mutex<Core>,
    cycle: Cycle,
    pub(super) now: Instant,
}

impl Bench {
    pub(super) fn new() -> Self {
        let (profile, now) = (Arc::new(Profile::standard()), Instant::now());
        let core = Mutex::new(Core::new("default-scheduler", profile.clone(), Backoff::default(), now));
        Bench { core, cycle: Cycle::new(profile, Algorithm::new(0, 1)), now }
    }
    pub(super) fn set_pod(&mut self, pod: Arc<Pod>) {
        self.core.get_mut().set_pod(pod, self.now);
    }
    pub(super) fn remove_pod(&mut self, name: &str) {
        self.core.get_mut().remove_pod(&key(name), self.now);
    }
    pub(super) fn set_node(&mut self, node: Arc<Node>) {
        self.core.get_mut().set_node(node, self.now);
    }
    pub(super) fn bind_failed(&mut self, queued: Queued, live: Option<Arc<Pod>>) {
        self.core.get_mut().bind_failed(queued, live, self.now);
    }
    pub(super) fn next(&mut self) -> Option<Decision> {
        self.cycle.next(&self.core, || self.now)
    }
    pub(super) fn waiting(&self) -> usize {
        self.core.lock().waiting()
    }
    pub(super) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

/// The node that was decided on.
pub(super) fn bound(decision: Option<Decision>) -> (Queued, String) {
    match decision {
        Some(Decision::Bind { queued, node }) => (queued, node.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Why no node was found.
pub(super) fn refused(decision: Option<Decision>) -> String {
    match decision {
        Some(Decision::Refuse { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}
