//! Keeps one timer a pod, and deletes the pod when its time is over.
//!
//! Invariants: a pod goes only after the server itself has shown its node with the taint and the pod without the
//! toleration; the condition that says why is written before the delete; the delete names the uid.

use std::collections::HashMap;

use async_trait::async_trait;
use jiff::Timestamp;
use listwatch_proto::resource::{Object, ObjectKey};
use parking_lot::Mutex;
use serde_json::json;

use super::{Standing, Stay, first_seen, stay_of};
use crate::client::{Api, DeleteParams, Error};
use crate::controller_manager::caches::Caches;
use crate::controller_manager::node::Node;
use crate::controller_manager::pod::Pod;
use crate::controller_manager::pod_status::{Condition, DISRUPTION_TARGET, merge_status, with_condition};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, EventType, ReconcileError, Reconciler, reference_to};

/// Why the pod goes.
const CONDITION: Condition = Condition {
    kind: DISRUPTION_TARGET,
    status: true,
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

/// Reconciles pods on tainted nodes.
pub struct TaintEvictionReconciler {
    caches: Caches,
    tools: Tools,
    nodes: Api<Object>,
    pods: Api<Object>,
    memory: Mutex<Memory>,
}

/// What this process remembers; lost, it costs only the Events about deletions that did not come, and a longer stay
/// where a taint does not say when it was added.
#[derive(Default)]
struct Memory {
    /// The NoExecute taints of tainted nodes.
    tainted: HashMap<String, (String, Vec<Standing>)>,
    /// Pods whose end is set, by uid.
    pending: HashMap<ObjectKey, String>,
}

impl TaintEvictionReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let (nodes, pods) = (tools.api("", "nodes"), tools.api("", "pods"));
        TaintEvictionReconciler { caches, tools, nodes, pods, memory: Mutex::default() }
    }

    /// Whether a change of this pod may matter: its node is tainted, or its end is set. Does not block.
    pub fn concerns(&self, key: &ObjectKey, pod: &Pod) -> bool {
        let node = self.caches.nodes.get(&ObjectKey::new("", &*pod.node));
        node.is_some_and(|node| node.evicting().next().is_some()) || self.memory.lock().pending.contains_key(key)
    }

    /// Nothing evicts from this node any more. Does not block.
    pub fn forget_node(&self, node: &str) {
        self.memory.lock().tainted.remove(node);
    }

    fn standing(&self, name: &str, uid: &str, node: &Node, now: Timestamp) -> Vec<Standing> {
        let mut memory = self.memory.lock();
        let before = memory.tainted.remove(name).filter(|(held, _)| held == uid).map(|(_, taints)| taints);
        let taints = first_seen(&before.unwrap_or_default(), node.evicting(), now);
        if !taints.is_empty() {
            memory.tainted.insert(name.to_owned(), (uid.to_owned(), taints.clone()));
        }
        taints
    }

    /// Drops the pod's end; tells so, if it was set for this very pod.
    fn cancel(&self, key: &ObjectKey, uid: &str) {
        let held = self.memory.lock().pending.remove(key);
        if held.is_some_and(|held| held == uid) {
            self.tell(key, uid, format!("Cancelling deletion of Pod {}/{}", key.namespace, key.name));
        }
    }

    fn tell(&self, key: &ObjectKey, uid: &str, message: String) {
        let about = reference_to(self.pods.kind(), key, uid);
        self.tools.recorder.event_about(about, EventType::Normal, "TaintManagerEviction", message);
    }

    /// Asks the server, and lets the pod go if that says the same.
    async fn evict(&self, key: &ObjectKey, uid: &str) -> Result<Stay, Error> {
        let gone = Ok(Stay::Over);
        let Some(live) = self.pods.get_opt(key).await?.filter(|live| live.uid == uid) else { return gone };
        let Ok(pod) = Pod::of(&live.object) else { return gone };
        let now = self.tools.clock.now();
        let node = self.nodes.get_opt(&ObjectKey::new("", &*pod.node)).await?;
        let Some((node_uid, node)) = node.and_then(|n| Some((n.uid.clone(), Node::of(&n.object).ok()?))) else {
            // Its pods are collected as those of a node that is no more.
            return Ok(Stay::Forever);
        };
        match stay_of(&pod, &self.standing(&pod.node, &node_uid, &node, now), now) {
            Stay::Over if pod.terminating => return gone,
            Stay::Over => {}
            stays => return Ok(stays),
        }
        if let Some(conditions) = with_condition(&live.object, CONDITION, now) {
            merge_status(&self.pods, &live, json!({"conditions": conditions})).await?;
        }
        self.tell(key, uid, format!("Marking for deletion Pod {}/{}", key.namespace, key.name));
        match self.pods.delete(key, &DeleteParams::uid(uid)).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => gone,
        }
    }
}

#[async_trait]
impl Reconciler for TaintEvictionReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(pod) = self.caches.pods.get(key).filter(|pod| !pod.terminating && !pod.node.is_empty()) else {
            self.memory.lock().pending.remove(key);
            return Ok(Action::Done);
        };
        let now = self.tools.clock.now();
        let mut stays = match self.caches.nodes.get(&ObjectKey::new("", &*pod.node)) {
            Some(node) => stay_of(&pod, &self.standing(&pod.node, &node.uid, &node, now), now),
            None => Stay::Forever,
        };
        if stays == Stay::Over {
            stays = self.evict(key, &pod.uid).await?;
        }
        match stays {
            // What has ended by itself is no deletion that was taken back.
            Stay::Forever if pod.is_finished() => drop(self.memory.lock().pending.remove(key)),
            Stay::Forever => self.cancel(key, &pod.uid),
            Stay::Over => drop(self.memory.lock().pending.remove(key)),
            Stay::Until(end) => {
                self.memory.lock().pending.insert(key.clone(), pod.uid.clone());
                let left = end.duration_since(self.tools.clock.now());
                return Ok(Action::RequeueAfter(left.try_into().unwrap_or_default()));
            }
        }
        Ok(Action::Done)
    }
}
