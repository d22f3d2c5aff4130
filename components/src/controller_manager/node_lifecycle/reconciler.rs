//! Watches over nodes.
//!
//! Invariants: a node is only marked lost after the server was asked for it and for its Lease and had nothing new; every
//! write is refused if the node has changed since it was read.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use listwatch_proto::resource::{Object, ObjectKey, Taint, time};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::plan::{Eviction, LOST_CONDITIONS, eviction, is_marked_lost, lost_in, mark_lost, taints};
use super::watched::{Look, Watched};
use super::zones::{Due, Turn};
use super::{LEASE_NAMESPACE, Source, Timing};
use crate::client::{Api, Cached, Error, Patch};
use crate::clock::timer_now;
use crate::controller_manager::caches::{BY_NODE, Caches, kind};
use crate::controller_manager::node::{Lease, Node, Truth};
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::pod_status::merge_status;
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, EventType, RateLimitedQueue, ReconcileError, Reconciler, reference_to};

/// Pods of a lost node that are marked at the same time.
const PODS_AT_ONCE: usize = 16;

/// Reconciles nodes.
pub struct NodeLifecycleReconciler {
    caches: Caches,
    tools: Tools,
    timing: Timing,
    nodes: Api<Object>,
    pods: Api<Object>,
    leases: Api<Lease>,
    watched: Mutex<Watched>,
    queue: OnceLock<RateLimitedQueue<ObjectKey>>,
}

/// What asking the server about a silent node has come to.
enum Asked {
    /// It is alive, gone, or cannot be judged yet: look again.
    Again(Duration),
    /// It is lost; this is how the server shows it.
    Lost(Box<Cached<Object>>),
}

impl NodeLifecycleReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools, timing: Timing) -> Self {
        let (nodes, pods) = (tools.api("", "nodes"), tools.api("", "pods"));
        let leases = Api::of_kind(&tools.client, kind("coordination.k8s.io", "leases"));
        let watched = Mutex::new(Watched::new(timing));
        NodeLifecycleReconciler { caches, tools, timing, nodes, pods, leases, watched, queue: OnceLock::new() }
    }

    /// Gives the reconciler its own queue, for what one node means for others.
    pub fn connect(&self, queue: RateLimitedQueue<ObjectKey>) {
        // A second one would be the same one.
        let _ = self.queue.set(queue);
    }

    fn wake(&self, due: Vec<Due>) {
        let Some(queue) = self.queue.get() else { return };
        due.into_iter().for_each(|(name, wait)| queue.add_after(ObjectKey::new("", name), wait));
    }

    /// All nodes are counted before the first is judged: one alone would seem to be a whole cluster that is lost.
    fn count_all(&self, now: Instant) {
        if !self.watched.lock().is_empty() {
            return;
        }
        let mut nodes = self.caches.nodes.list();
        nodes.sort_by_key(|node| node.ready() != Truth::True);
        for node in nodes {
            self.look(&node, self.lease(&node.key.name).as_deref(), Source::Caches, now);
        }
    }

    fn lease(&self, node: &str) -> Option<std::sync::Arc<Cached<Lease>>> {
        self.caches.leases.get(&ObjectKey::new(LEASE_NAMESPACE, node))
    }

    fn look(&self, node: &Cached<Node>, lease: Option<&Cached<Lease>>, source: Source, now: Instant) -> Look {
        let (look, due) = self.watched.lock().look(node, lease, source, now);
        self.wake(due);
        if look.new {
            let name = &node.key.name;
            self.tell(node, "RegisteredNode", format!("Node {name} event: Registered Node {name} in Controller"));
        }
        look
    }

    fn gone(&self, name: &str) {
        let Some((uid, due)) = self.watched.lock().gone(name, timer_now()) else { return };
        self.wake(due);
        let message = format!("Node {name} event: Removing Node {name} from Controller");
        self.tools.recorder.event_about(reference(name, &uid), EventType::Normal, "RemovingNode", message);
    }

    fn tell(&self, node: &Cached<Node>, reason: &str, message: String) {
        self.tools.recorder.event_about(reference(&node.key.name, &node.uid), EventType::Normal, reason, message);
    }

    fn tell_not_ready(&self, node: &Cached<Node>) {
        self.tell(node, "NodeNotReady", format!("Node {} status is now: NodeNotReady", node.key.name));
    }

    /// Asks the server about a node that was not heard of: absence in a cache is no proof.
    async fn ask(&self, node: &Cached<Node>) -> Result<Asked, Error> {
        let before = timer_now();
        let key = ObjectKey::new(LEASE_NAMESPACE, &*node.key.name);
        let answer = tokio::try_join!(self.leases.get_opt(&key), self.nodes.get_opt(&node.key));
        let now = timer_now();
        self.watched.lock().answered(answer.is_ok().then(|| now - before), now);
        let (lease, live) = answer?;
        let Some(live) = live.filter(|live| live.uid == node.uid) else { return Ok(Asked::Again(self.timing.period)) };
        let Ok(read) = Node::of(&live.object) else { return Ok(Asked::Again(self.timing.period)) };
        let shown = Cached { key: live.key.clone(), uid: live.uid.clone(), revision: live.revision, object: read };
        let health = self.look(&shown, lease.as_ref(), Source::Server, now).health;
        if let Some(left) = lost_in(&health, self.timing, now) {
            return Ok(Asked::Again(left));
        }
        match self.watched.lock().deaf_for(now) {
            Some(left) => Ok(Asked::Again(left)),
            None => Ok(Asked::Lost(Box::new(live))),
        }
    }

    /// Makes the conditions of a lost node Unknown; the node as it then is, or `None` if there is nothing to mark.
    async fn give_up(&self, live: &Cached<Object>) -> Result<Option<Cached<Node>>, Error> {
        let Ok(mut node) = Node::of(&live.object) else { return Ok(None) };
        let mut revision = live.revision;
        if !is_marked_lost(&node) {
            let conditions = lost(&live.object, &time(self.tools.clock.now()));
            let patch = json!({
                "metadata": {"uid": live.uid, "resourceVersion": live.revision.to_string()},
                "status": {"conditions": conditions},
            });
            revision = self.nodes.patch_status(&live.key, &Patch::Merge(patch)).await?.revision;
        }
        let was_ready = node.ready() == Truth::True;
        mark_lost(&mut node);
        let node = Cached { key: live.key.clone(), uid: live.uid.clone(), revision, object: node };
        self.wake(self.watched.lock().marked(&node.key.name, timer_now()));
        if was_ready {
            self.tell_not_ready(&node);
        }
        Ok(Some(node))
    }

    /// The evicting taint that the node may have now, and when to ask again if it must wait.
    fn evicting(&self, node: &Cached<Node>) -> (Option<&'static str>, Option<Duration>) {
        let mut watched = self.watched.lock();
        if watched.cut_off() {
            return (None, None);
        }
        match eviction(node) {
            Eviction::None => (None, None),
            Eviction::Standing(key) => (Some(key), None),
            Eviction::Wanted(key) => {
                let (turn, due) = watched.request(node, timer_now());
                drop(watched);
                self.wake(due);
                match turn {
                    Turn::Now => (Some(key), None),
                    Turn::In(wait) => (None, Some(wait)),
                    Turn::Later => (None, None),
                }
            }
        }
    }

    /// Writes the taints, if they are to change, and the labels that old clients ask for.
    async fn write(&self, node: &Cached<Node>, taints: Option<Vec<Taint>>) -> Result<(), Error> {
        let mut patch = json!({"metadata": {"uid": node.uid, "resourceVersion": node.revision.to_string()}});
        if taints.is_none() && node.missing_labels.is_empty() {
            return Ok(());
        }
        for (name, value) in &node.missing_labels {
            patch["metadata"]["labels"][*name] = value.as_ref().into();
        }
        if let Some(mut wanted) = taints {
            let added = |taint: &Taint| !node.taints.iter().any(|held| held.is_same(taint));
            for taint in wanted.iter_mut().filter(|taint| taint.time_added.is_none() && added(taint)) {
                taint.time_added = Some(time(self.tools.clock.now()));
            }
            patch["spec"]["taints"] = if wanted.is_empty() { Value::Null } else { json!(wanted) };
        }
        self.nodes.patch(&node.key, &Patch::Merge(patch)).await.map(drop)
    }

    /// The pods of a node that is not ready are not ready either.
    async fn mark_pods(&self, node: &str) -> Result<(), Error> {
        let pods = self.caches.pods.by_index(BY_NODE, node);
        let ready = pods.into_iter().filter(|pod| pod.ready_since.is_some());
        let mut marks = stream::iter(ready.map(|pod| self.mark_pod(pod))).buffer_unordered(PODS_AT_ONCE);
        while let Some(outcome) = marks.next().await {
            outcome?;
        }
        Ok(())
    }

    async fn mark_pod(&self, pod: PodRef) -> Result<(), Error> {
        let Some(live) = self.pods.get_opt(&pod.key).await?.filter(|live| live.uid == pod.uid) else { return Ok(()) };
        let mut conditions = live.object.at(&["status", "conditions"]).and_then(Value::as_array).cloned();
        let ready = conditions.iter_mut().flatten().find(|c| c["type"] == "Ready" && c["status"] == "True");
        let Some(ready) = ready else { return Ok(()) };
        ready["status"] = "False".into();
        ready["lastTransitionTime"] = time(self.tools.clock.now()).into();
        merge_status(&self.pods, &live, json!({"conditions": conditions})).await?;
        self.tools.tell(&live, EventType::Warning, "NodeNotReady", "Node is not ready");
        Ok(())
    }
}

#[async_trait]
impl Reconciler for NodeLifecycleReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let now = timer_now();
        self.count_all(now);
        let Some(cached) = self.caches.nodes.get(key) else {
            self.gone(&key.name);
            return Ok(Action::Done);
        };
        let look = self.look(&cached, self.lease(&key.name).as_deref(), Source::Caches, now);
        let left = lost_in(&look.health, self.timing, now);
        let mut node = (*cached).clone();
        if left.is_none() && !is_marked_lost(&node) {
            match self.ask(&cached).await? {
                Asked::Again(after) => return Ok(Action::RequeueAfter(after)),
                Asked::Lost(live) => match self.give_up(&live).await? {
                    Some(lost) => node = lost,
                    None => return Ok(Action::RequeueAfter(self.timing.period)),
                },
            }
        }
        let (evicting, wait) = self.evicting(&node);
        self.write(&node, taints(&node, evicting)).await?;
        if look.fell {
            self.tell_not_ready(&node);
        }
        // A silent kubelet says nothing else, at any time; one that speaks is overruled once.
        if look.fell || is_marked_lost(&node) {
            self.mark_pods(&key.name).await?;
        }
        let again = if node.ready() == Truth::True { left } else { Some(self.timing.period) };
        let again = [again, wait].into_iter().flatten().min();
        Ok(again.map_or(Action::Done, Action::RequeueAfter))
    }
}

/// The conditions of a node, with those that only its kubelet can tell Unknown.
fn lost(node: &Object, now: &str) -> Vec<Value> {
    let mut conditions = node.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    for kind in LOST_CONDITIONS {
        let held = conditions.iter_mut().find(|c| c["type"] == *kind);
        let Some(condition) = held else {
            conditions.push(json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node.creation_timestamp(), "lastTransitionTime": now,
            }));
            continue;
        };
        if condition["status"] != "Unknown" {
            condition["status"] = "Unknown".into();
            condition["reason"] = "NodeStatusUnknown".into();
            condition["message"] = "Kubelet stopped posting node status.".into();
            condition["lastTransitionTime"] = now.into();
        }
    }
    conditions
}

fn reference(name: &str, uid: &str) -> ObjectReference {
    reference_to(kind("", "nodes"), &ObjectKey::new("", name), uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_knows_nothing() {
        let node = Object::from_value(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "h"}, {"type": "Custom", "status": "True"}]}}))
        .expect("an object");
        let conditions = lost(&node, "now");
        assert_eq!(conditions.len(), 5);
        assert_eq!(conditions[0]["reason"], "NodeStatusUnknown");
        assert_eq!(conditions[0]["lastHeartbeatTime"], "h");
        assert_eq!(conditions[1], json!({"type": "Custom", "status": "True"}));
        assert!(conditions[2..].iter().all(|c| c["status"] == "Unknown" && c["reason"] == "NodeStatusNeverUpdated"));
    }
}
