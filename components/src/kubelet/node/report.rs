//! Keeps the API's Node equal to what the kubelet knows.
//!
//! Invariants: the node is Ready with its very first write; whoever takes that away while the kubelet lives (a node
//! controller after a long pause, a delete by hand) is answered at once, because the watch says so.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use listwatch_proto::resource::ObjectKey;
use serde_json::json;

use super::{NodeFacts, object::is_ready};
use crate::{
    client::{Api, Cached, Error, Patch},
    clock::SharedClock,
    runtime::{Backoff, BackoffPolicy, EventType, Queue, Recorder, Store, reference},
};

/// Pauses while the server does not take a write. Upstream has 100 ms to 7 s for a distant server of many; ours starts
/// and restarts beside us within a fraction of a second.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(10), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };

/// How often an unchanged status is told (Kubernetes: `nodeStatusReportFrequency`).
const REPORT_INTERVAL: Duration = Duration::from_secs(300);

/// Writes the Node.
pub(in crate::kubelet) struct Reporter {
    pub(in crate::kubelet) api: Api<Node>,
    pub(in crate::kubelet) store: Store<Node>,
    pub(in crate::kubelet) facts: NodeFacts,
    pub(in crate::kubelet) recorder: Recorder,
    pub(in crate::kubelet) clock: SharedClock,
}

impl Reporter {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.facts.name.as_str())
    }

    /// Creates the Node or takes over the one that is there; tries until it is done. Gives the Node's uid.
    pub(in crate::kubelet) async fn register(&self) -> String {
        let mut backoff = Backoff::new(RETRY);
        loop {
            match self.try_register().await {
                Ok(node) => {
                    self.tell(&node);
                    return node.uid;
                }
                Err(error) => {
                    let pause = backoff.next_delay();
                    tracing::debug!(node = self.facts.name, %error, ?pause, "the node is not registered yet");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    async fn try_register(&self) -> Result<Cached<Node>, Error> {
        let created = match self.api.create(&self.facts.node(self.clock.now())).await {
            Err(error) if error.is_already_exists() => {
                let metadata = json!({"labels": self.facts.all_labels(), "annotations": self.facts.annotations()});
                self.api.patch(&self.key(), &Patch::Merge(json!({ "metadata": metadata }))).await?
            }
            outcome => outcome?,
        };
        // A server that keeps the status of a new object has all of it already.
        let told = created.status.as_ref().is_some_and(|status| status.daemon_endpoints.is_some());
        if told && is_ready(&created) && self.is_current(&created) {
            return Ok(created);
        }
        self.write_status(created).await
    }

    /// Follows the Node: tells the status now and then, and at once when somebody has changed it. `changed` is fed with
    /// each change. Ends only by being dropped.
    pub(in crate::kubelet) async fn run(self, changed: Queue<ObjectKey>) {
        let mut next = REPORT_INTERVAL;
        loop {
            let due = tokio::select! {
                () = tokio::time::sleep(next) => true,
                key = changed.get() => {
                    let Some(key) = key else { return };
                    changed.done(&key);
                    !self.store.get(&self.key()).is_some_and(|node| is_ready(&node) && self.is_current(&node))
                }
            };
            if due {
                // Creates it again if it was deleted: this kubelet lives, and its pods run.
                let mut backoff = Backoff::new(RETRY);
                while let Err(error) = Box::pin(self.refresh()).await {
                    tracing::debug!(node = self.facts.name, %error, "the node's status is not written yet");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
            next = REPORT_INTERVAL;
        }
    }

    async fn refresh(&self) -> Result<(), Error> {
        match self.api.get_opt(&self.key()).await? {
            Some(node) => {
                let was_ready = is_ready(&node);
                let node = self.write_status(node).await?;
                if !was_ready {
                    self.event(&node, "NodeReady", format!("Node {} status is now: NodeReady", self.facts.name));
                }
                Ok(())
            }
            None => self.try_register().await.map(drop),
        }
    }

    /// Whether the object says where this kubelet is.
    fn is_current(&self, node: &Node) -> bool {
        let wanted = self.facts.status(node.status.as_ref(), Timestamp::UNIX_EPOCH);
        node.status.as_ref().is_some_and(|status| {
            status.daemon_endpoints == wanted.daemon_endpoints
                && status.addresses == wanted.addresses
                && status.capacity == wanted.capacity
                && status.allocatable == wanted.allocatable
                && status.node_info == wanted.node_info
        })
    }

    async fn write_status(&self, mut node: Cached<Node>) -> Result<Cached<Node>, Error> {
        loop {
            let status = self.facts.status(node.status.as_ref(), self.clock.now());
            let metadata = json!({"uid": node.uid, "resourceVersion": node.revision.to_string()});
            let patch = Patch::Merge(json!({"metadata": metadata, "status": status}));
            match self.api.patch_status(&self.key(), &patch).await {
                Err(error) if error.is_conflict() => node = self.api.get(&self.key()).await?,
                outcome => return outcome,
            }
        }
    }

    fn tell(&self, node: &Cached<Node>) {
        let name = &self.facts.name;
        self.event(node, "Starting", "Starting kubelet.".to_owned());
        for reason in ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"] {
            self.event(node, reason, format!("Node {name} status is now: {reason}"));
        }
    }

    fn event(&self, node: &Cached<Node>, reason: &str, message: String) {
        let about = ObjectReference { resource_version: None, ..reference(node) };
        self.recorder.event_about(about, EventType::Normal, reason, message);
    }
}
