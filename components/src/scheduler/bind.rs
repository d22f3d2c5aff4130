//! Bindings: the one decision the scheduler writes.
//!
//! Invariant: a pod stays counted on its node until its binding is known to have failed. When an answer is lost, the
//! server is asked what became of the pod; nothing is guessed.

use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::{Kind, ObjectKey};

use super::{Pod, Queued};
use crate::client::{Api, Client, Error};
use crate::runtime::{Backoff, BackoffPolicy};

/// Pauses between questions to a server that does not answer.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(20), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };

/// Writes bindings and reads pods back.
#[derive(Clone)]
pub(super) struct Binder {
    pods: Api<Arc<Pod>>,
}

/// How a binding ended.
#[derive(Debug)]
pub(super) enum Bound {
    /// The pod has its node.
    Done,
    /// It has not, or not this one.
    Failed {
        /// Why.
        error: Error,
        /// The pod as the server has it; `None`: it is gone.
        live: Option<Arc<Pod>>,
    },
}

/// Whether the server has this very pod on this node after all: the write was done and its answer lost, or somebody else
/// had the same thought.
pub(super) fn is_settled(live: Option<&Pod>, uid: &str, node: &str) -> bool {
    live.is_some_and(|pod| pod.uid == uid && pod.node_name == node)
}

impl Binder {
    pub(super) fn new(client: &Client, pods: &'static Kind) -> Self {
        Binder { pods: Api::of_kind(client, pods) }
    }

    /// Binds the pod to the node.
    pub(super) async fn bind(&self, queued: &Queued, node: &str) -> Bound {
        let key = &queued.pod.key;
        let Err(error) = self.pods.bind(key, &queued.pod.uid, node).await else { return Bound::Done };
        let live = self.live(key).await;
        if is_settled(live.as_deref(), &queued.pod.uid, node) { Bound::Done } else { Bound::Failed { error, live } }
    }

    /// The pod as the server has it; asks until there is an answer.
    pub(super) async fn live(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        let mut backoff = Backoff::new(RETRY);
        loop {
            match self.pods.get_opt(key).await {
                Ok(pod) => return pod.map(|cached| cached.object.clone()),
                Err(error) => {
                    tracing::debug!(%key, %error, "cannot read the pod back");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
    }
}
