//! Watches over nodes.
//!
//! Invariants: a node is only marked lost after the server was asked for its Lease and had nothing newer than the cache;
//! every write is refused if the node has changed since it was read.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use listwatch_proto::resource::toleration::NO_EXECUTE;
use listwatch_proto::resource::{Object, ObjectKey, Taint, time};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::plan::LOST_CONDITIONS;
use super::{Health, LEASE_NAMESPACE, Timing, observe, plan};
use crate::client::{Api, Cached, Error, Patch};
use crate::clock::timer_now;
use crate::controller_manager::caches::{BY_NODE, Caches, kind};
use crate::controller_manager::node::{Lease, Node, Truth};
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, EventType, ReconcileError, Reconciler};

/// Pods of a lost node that are marked at the same time.
const PODS_AT_ONCE: usize = 16;
/// The cache lags behind the server: it will be told soon, and this is only in case it is not.
const CATCH_UP: Duration = Duration::from_millis(500);

/// Reconciles nodes.
pub struct NodeLifecycleReconciler {
    caches: Caches,
    tools: Tools,
    timing: Timing,
    nodes: Api<Object>,
    pods: Api<Object>,
    leases: Api<Lease>,
    known: Mutex<HashMap<String, Known>>,
}

/// What this process remembers of a node.
struct Known {
    uid: String,
    health: Health,
    /// Whether it was ready when last looked at.
    ready: bool,
}

impl NodeLifecycleReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools, timing: Timing) -> Self {
        let (nodes, pods) = (tools.api("", "nodes"), tools.api("", "pods"));
        let leases = Api::of_kind(&tools.client, kind("coordination.k8s.io", "leases"));
        NodeLifecycleReconciler { caches, tools, timing, nodes, pods, leases, known: Mutex::default() }
    }

    /// Takes in what the caches show; tells whether the node has just ceased to be ready, as far as it was known.
    fn look(&self, node: &Cached<Node>, now: Instant) -> (Health, bool) {
        let lease = self.caches.leases.get(&ObjectKey::new(LEASE_NAMESPACE, &*node.key.name));
        let mut known = self.known.lock();
        let held = known.remove(&node.key.name).filter(|held| held.uid == node.uid);
        if held.is_none() {
            let name = &node.key.name;
            self.tell(node, "RegisteredNode", format!("Node {name} event: Registered Node {name} in Controller"));
        }
        let health = observe(held.as_ref().map(|h| &h.health), &node.object, lease.as_ref().map(|l| &l.object), now);
        let ready = node.ready() == Truth::True;
        let fell = held.is_some_and(|held| held.ready && !ready);
        known.insert(node.key.name.clone(), Known { uid: node.uid.clone(), health: health.clone(), ready });
        (health, fell)
    }

    fn gone(&self, name: &str) {
        let Some(known) = self.known.lock().remove(name) else { return };
        let about = reference(name, &known.uid);
        let message = format!("Node {name} event: Removing Node {name} from Controller");
        self.tools.recorder.event_about(about, EventType::Normal, "RemovingNode", message);
    }

    fn tell(&self, node: &Cached<Node>, reason: &str, message: String) {
        self.tools.recorder.event_about(reference(&node.key.name, &node.uid), EventType::Normal, reason, message);
    }

    fn others_ready(&self, name: &str) -> bool {
        self.caches.nodes.list().iter().any(|other| other.key.name != name && other.ready() == Truth::True)
    }

    /// Whether the server has nothing newer of the node's Lease than the cache: absence in a cache is no proof.
    async fn is_silent(&self, name: &str) -> Result<bool, Error> {
        let key = ObjectKey::new(LEASE_NAMESPACE, name);
        let live = self.leases.get_opt(&key).await?;
        let cached = self.caches.leases.get(&key);
        Ok(live.map(|l| l.object.renewed) == cached.map(|l| l.renewed.clone()))
    }

    /// Makes the conditions of a lost node Unknown; its new version comes back, if it still is what the cache shows.
    async fn mark_lost(&self, node: &Cached<Node>, spoke: bool) -> Result<i64, Error> {
        let Some(live) = self.nodes.get_opt(&node.key).await? else { return Ok(node.revision) };
        let now = time(self.tools.clock.now());
        let conditions = lost(&live.object, spoke, &now);
        let patch = json!({
            "metadata": {"uid": node.uid, "resourceVersion": node.revision.to_string()},
            "status": {"conditions": conditions},
        });
        let written = self.nodes.patch_status(&node.key, &Patch::Merge(patch)).await?;
        self.tell(node, "NodeNotReady", format!("Node {} status is now: NodeNotReady", node.key.name));
        Ok(written.revision)
    }

    async fn write_taints(&self, node: &Cached<Node>, revision: i64, mut taints: Vec<Taint>) -> Result<(), Error> {
        for taint in taints.iter_mut().filter(|t| t.effect == NO_EXECUTE && t.time_added.is_none()) {
            taint.time_added = Some(time(self.tools.clock.now()));
        }
        let taints = if taints.is_empty() { Value::Null } else { json!(taints) };
        let patch = json!({
            "metadata": {"uid": node.uid, "resourceVersion": revision.to_string()},
            "spec": {"taints": taints},
        });
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
        let now = time(self.tools.clock.now());
        let mut conditions = live.object.at(&["status", "conditions"]).and_then(Value::as_array).cloned();
        let ready = conditions.iter_mut().flatten().find(|c| c["type"] == "Ready" && c["status"] == "True");
        let Some(ready) = ready else { return Ok(()) };
        ready["status"] = "False".into();
        ready["lastTransitionTime"] = now.into();
        let patch = json!({
            "metadata": {"uid": pod.uid, "resourceVersion": live.revision.to_string()},
            "status": {"conditions": conditions},
        });
        match self.pods.patch_status(&pod.key, &Patch::Merge(patch)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => {
                self.tools.tell(&live, EventType::Warning, "NodeNotReady", "Node is not ready");
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Reconciler for NodeLifecycleReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let now = timer_now();
        let Some(node) = self.caches.nodes.get(key) else {
            self.gone(&key.name);
            return Ok(Action::Done);
        };
        let (health, fell) = self.look(&node, now);
        let others_ready = node.ready() == Truth::True || self.others_ready(&key.name);
        let mut plan = plan(&node.object, &health, self.timing, others_ready, now);
        let mut revision = node.revision;
        if plan.lost {
            if !self.is_silent(&key.name).await? {
                return Ok(Action::RequeueAfter(CATCH_UP));
            }
            if !others_ready || !self.others_ready(&key.name) {
                plan = super::plan(&node.object, &health, self.timing, false, now);
            }
            revision = self.mark_lost(&node, health.spoke).await?;
        }
        if let Some(taints) = plan.taints {
            self.write_taints(&node, revision, taints).await?;
        }
        if plan.lost || fell {
            self.mark_pods(&key.name).await?;
        }
        Ok(plan.again_after.map_or(Action::Done, Action::RequeueAfter))
    }
}

/// The conditions of a node, with those that only its kubelet can tell Unknown.
fn lost(node: &Object, spoke: bool, now: &str) -> Vec<Value> {
    let (reason, message) = if spoke {
        ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    } else {
        ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
    };
    let mut conditions = node.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    for kind in LOST_CONDITIONS {
        let held = conditions.iter_mut().find(|c| c["type"] == *kind);
        let Some(condition) = held else {
            conditions.push(json!({
                "type": kind, "status": "Unknown", "reason": reason, "message": message,
                "lastHeartbeatTime": node.creation_timestamp(), "lastTransitionTime": now,
            }));
            continue;
        };
        if condition["status"] != "Unknown" {
            condition["status"] = "Unknown".into();
            condition["reason"] = reason.into();
            condition["message"] = message.into();
            condition["lastTransitionTime"] = now.into();
        }
    }
    conditions
}

fn reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_knows_nothing() {
        let node = Object::from_value(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "h"}, {"type": "Custom", "status": "True"}]}}))
        .expect("an object");
        let conditions = lost(&node, true, "now");
        assert_eq!(conditions.len(), 5);
        assert_eq!(conditions[0]["reason"], "NodeStatusUnknown");
        assert_eq!(conditions[0]["lastHeartbeatTime"], "h");
        assert_eq!(conditions[1], json!({"type": "Custom", "status": "True"}));
        assert!(conditions[2..].iter().all(|c| c["status"] == "Unknown"));
    }
}
