//! Collects pods.
//!
//! Invariant: a node that the cache does not show is not yet a node that is gone: it must stay away for a while, and then
//! the server must say so.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use listwatch_proto::resource::{Object, ObjectKey};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{out_of_service, stranded, surplus};
use crate::client::{Api, DeleteParams, Error};
use crate::clock::timer_now;
use crate::controller_manager::caches::{BY_NODE, Caches, FINISHED};
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::pod_status::{Condition, DISRUPTION_TARGET, merge_status, with_condition};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// Pods that are removed at the same time.
const REMOVALS_AT_ONCE: usize = 16;

/// Why a pod goes whose node is no more.
const NODE_GONE: Condition = Condition {
    kind: DISRUPTION_TARGET,
    status: true,
    reason: "DeletionByPodGC",
    message: "PodGC: node no longer exists",
};

/// How patient the collector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A node must have been away for so long before its pods go (`--pod-gc-quarantine`).
    pub quarantine: Duration,
    /// More pods than this that have ended are not kept; 0: all are (`--terminated-pod-gc-threshold`).
    pub finished_max: usize,
    /// Pods that have ended are counted at most so often (`--pod-gc-period`).
    pub period: Duration,
}

impl Default for Timing {
    /// 40 s, 12,500 and 20 s (Kubernetes 1.36).
    fn default() -> Self {
        Timing { quarantine: Duration::from_secs(40), finished_max: 12_500, period: Duration::from_secs(20) }
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
        let surplus = surplus(self.caches.pods.by_index(FINISHED, ""), self.timing.finished_max);
        self.remove_all(surplus, None).await.map(|()| Action::Done)
    }

    async fn collect_node(&self, name: &str) -> Result<Action, Error> {
        let pods = self.caches.pods.by_index(BY_NODE, name);
        let node = self.caches.nodes.get(&key_of_node(name));
        if node.is_some() || pods.is_empty() {
            self.away.lock().remove(name);
            if let Some(node) = node.filter(|node| out_of_service(node)) {
                let stranded = pods.into_iter().filter(|pod| stranded(pod, Some(&node))).collect();
                self.remove_all(stranded, None).await?;
            }
            return Ok(Action::Done);
        }
        let now = timer_now();
        let since = *self.away.lock().entry(name.to_owned()).or_insert(now);
        let left = self.timing.quarantine.saturating_sub(now.duration_since(since));
        if !left.is_zero() {
            return Ok(Action::RequeueAfter(left));
        }
        if self.nodes.get_opt(&key_of_node(name)).await?.is_none() {
            self.remove_all(pods, Some(NODE_GONE)).await?;
        }
        // Whatever comes or stays has a quarantine of its own: a set whose pods name a node that never was must not make and
        // lose them without a pause.
        self.away.lock().remove(name);
        Ok(Action::RequeueAfter(self.timing.quarantine))
    }

    async fn remove_all(&self, pods: Vec<PodRef>, why: Option<Condition>) -> Result<(), Error> {
        let removals = stream::iter(pods.into_iter().map(|pod| async move { self.remove(&pod, why).await }));
        removals.buffer_unordered(REMOVALS_AT_ONCE).try_collect().await
    }

    /// Takes the pod away without grace: there is nobody who could use it. Says first that it has failed, for those who
    /// watch it go.
    async fn remove(&self, pod: &PodRef, why: Option<Condition>) -> Result<(), Error> {
        if !pod.is_finished() {
            let Some(live) = self.pods.get_opt(&pod.key).await?.filter(|live| live.uid == pod.uid) else {
                return Ok(());
            };
            let mut status = json!({"phase": "Failed"});
            let conditions = why.and_then(|why| with_condition(&live.object, why, self.tools.clock.now()));
            if let Some(conditions) = conditions {
                status["conditions"] = conditions.into();
            }
            merge_status(&self.pods, &live, status).await?;
        }
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
        if let Some(pod) = self.caches.pods.get(key) {
            let node = self.caches.nodes.get(&key_of_node(&pod.node));
            if stranded(&pod, node.as_deref().map(|node| &node.object)) {
                self.remove(&pod, None).await?;
            }
        }
        Ok(Action::Done)
    }
}
