//! Collects pods.
//!
//! Invariant: a node that the cache does not show is not yet a node that is gone: it must stay away for a while, and then
//! the server must say so.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use listwatch_proto::resource::{Object, ObjectKey, time};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{orphaned, surplus};
use crate::client::{Api, DeleteParams, Error, Patch};
use crate::clock::timer_now;
use crate::controller_manager::caches::{BY_NODE, Caches, FINISHED};
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// How patient the collector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A node must have been away for so long before its pods go.
    pub quarantine: Duration,
    /// More pods than this that have ended are not kept; 0: all are (`--terminated-pod-gc-threshold`).
    pub finished_max: usize,
}

impl Default for Timing {
    /// 40 s and 12,500 (Kubernetes 1.36).
    fn default() -> Self {
        Timing { quarantine: Duration::from_secs(40), finished_max: 12_500 }
    }
}

/// The key that stands for all pods that have ended.
pub const FINISHED_KEY: ObjectKey = ObjectKey { namespace: String::new(), name: String::new() };

/// The key that stands for the pods of a node; keys with a namespace stand for one pod.
pub fn key_of_node(node: &str) -> ObjectKey {
    ObjectKey::new("", node)
}

/// Collects pods.
pub struct PodGcReconciler {
    caches: Caches,
    tools: Tools,
    timing: Timing,
    pods: Api<Object>,
    nodes: Api<Object>,
    /// Since when a node has been away.
    away: Mutex<HashMap<String, Instant>>,
}

impl PodGcReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools, timing: Timing) -> Self {
        let (pods, nodes) = (tools.api("", "pods"), tools.api("", "nodes"));
        PodGcReconciler { caches, tools, timing, pods, nodes, away: Mutex::default() }
    }

    async fn collect_finished(&self) -> Result<Action, Error> {
        for pod in surplus(self.caches.pods.by_index(FINISHED, ""), self.timing.finished_max) {
            self.remove(&pod).await?;
        }
        Ok(Action::Done)
    }

    async fn collect_node(&self, node: &str) -> Result<Action, Error> {
        let pods = self.caches.pods.by_index(BY_NODE, node);
        let here = self.caches.nodes.get(&key_of_node(node)).is_some();
        if here || pods.is_empty() {
            self.away.lock().remove(node);
            return Ok(Action::Done);
        }
        let now = timer_now();
        let since = *self.away.lock().entry(node.to_owned()).or_insert(now);
        let left = self.timing.quarantine.saturating_sub(now.duration_since(since));
        if !left.is_zero() {
            return Ok(Action::RequeueAfter(left));
        }
        if self.nodes.get_opt(&key_of_node(node)).await?.is_some() {
            self.away.lock().remove(node);
            return Ok(Action::Done);
        }
        for pod in pods {
            self.mark(&pod).await?;
            self.remove(&pod).await?;
        }
        Ok(Action::Done)
    }

    /// Says why the pod goes, for those who watch it go.
    async fn mark(&self, pod: &PodRef) -> Result<(), Error> {
        if pod.is_finished() {
            return Ok(());
        }
        let Some(live) = self.pods.get_opt(&pod.key).await?.filter(|live| live.uid == pod.uid) else { return Ok(()) };
        let held = live.object.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut conditions: Vec<Value> = held.into_iter().filter(|c| c["type"] != "DisruptionTarget").collect();
        conditions.push(json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": time(self.tools.clock.now()),
        }));
        let patch = json!({
            "metadata": {"uid": pod.uid, "resourceVersion": live.revision.to_string()},
            "status": {"phase": "Failed", "conditions": conditions},
        });
        match self.pods.patch_status(&pod.key, &Patch::Merge(patch)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes the pod away without grace: there is nobody who could use it.
    async fn remove(&self, pod: &PodRef) -> Result<(), Error> {
        match self.pods.delete(&pod.key, &DeleteParams::uid(&*pod.uid).grace(0)).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Reconciler for PodGcReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        if *key == FINISHED_KEY {
            return Ok(self.collect_finished().await?);
        }
        if key.namespace.is_empty() {
            return Ok(self.collect_node(&key.name).await?);
        }
        if let Some(pod) = self.caches.pods.get(key).filter(orphaned) {
            self.remove(&pod).await?;
        }
        Ok(Action::Done)
    }
}
