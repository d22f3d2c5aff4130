//! The scheduler without its wires: what the watches say goes in, what is to be done comes out.
//!
//! Invariants: one owner drives it, so no lock; after a restart the same watches rebuild it; a pod that is on its way to a
//! node is never tried again before its binding has failed.

use std::sync::Arc;
use std::time::Instant;

use listwatch_proto::resource::ObjectKey;

use super::framework::{ClusterEvent, Profile};
use super::queue::{Backoff, Queue, Queued};
use super::{Algorithm, Cache, Node, Pod, Snapshot};

/// The state of a scheduler.
pub struct Core {
    scheduler_name: String,
    profile: Profile,
    algorithm: Algorithm,
    cache: Cache,
    queue: Queue,
    snapshot: Snapshot,
}

/// What is to be done after a cycle.
#[derive(Debug)]
pub enum Decision {
    /// Bind the pod to the node; it is already counted there.
    Bind {
        /// The pod as it waits.
        queued: Queued,
        /// The node's name.
        node: Arc<str>,
    },
    /// Tell why no node was found; the pod is parked until something changes.
    Refuse {
        /// The pod.
        pod: Arc<Pod>,
        /// The message of condition and event.
        message: String,
    },
}

impl Core {
    /// An empty one.
    pub fn new(scheduler_name: &str, profile: Profile, algorithm: Algorithm, backoff: Backoff) -> Self {
        Core {
            scheduler_name: scheduler_name.to_owned(),
            profile,
            algorithm,
            cache: Cache::default(),
            queue: Queue::new(backoff),
            snapshot: Snapshot::default(),
        }
    }

    /// Takes in a pod as the watch has it.
    pub fn set_pod(&mut self, pod: Arc<Pod>, now: Instant) {
        if self.cache.pod(&pod.key).is_some_and(|held| held.uid != pod.uid) {
            self.remove_pod(&pod.key, now);
        }
        if pod.is_placed() {
            self.queue.remove(&pod.key);
            self.place(pod, now);
        } else if self.cache.is_assumed(&pod.key, &pod.uid) && !pod.finished {
            // On its way; its binding will tell.
        } else if pod.wants_node(&self.scheduler_name) {
            self.leave(&pod.key, now);
            self.queue.set(pod, &self.profile, now);
        } else {
            self.leave(&pod.key, now);
            self.queue.remove(&pod.key);
        }
    }

    /// Forgets a pod that is gone.
    pub fn remove_pod(&mut self, key: &ObjectKey, now: Instant) {
        self.leave(key, now);
        self.queue.remove(key);
    }

    /// Takes in a node as the watch has it.
    pub fn set_node(&mut self, node: Arc<Node>, now: Instant) {
        // A heartbeat changes nothing here.
        if self.cache.node(&node.name) == Some(&node) {
            return;
        }
        let event = match self.cache.set_node(node.clone()) {
            Some(old) => ClusterEvent::NodeUpdated { old, new: node },
            None => ClusterEvent::NodeAdded(node),
        };
        self.queue.happened(event, &self.profile, now);
    }

    /// Forgets a node that is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.cache.remove_node(name);
    }

    /// Runs one cycle, if a pod is worth a try.
    pub fn next(&mut self, now: Instant) -> Option<Decision> {
        let queued = self.queue.pop(now)?;
        self.cache.refresh(&mut self.snapshot);
        match self.algorithm.schedule(&self.profile, &self.snapshot, &queued.pod) {
            Ok(placement) => {
                self.cache.assume(Arc::new(queued.pod.placed_on(&placement.node)));
                self.queue.done(&queued.pod.key);
                Some(Decision::Bind { queued, node: placement.node })
            }
            Err(diagnosis) => {
                let pod = queued.pod.clone();
                self.queue.refused(queued, diagnosis.plugins(), &self.profile, now);
                Some(Decision::Refuse { pod, message: diagnosis.message() })
            }
        }
    }

    /// A binding failed. `live` is the pod as the server now has it; `None`: it is gone.
    pub fn bind_failed(&mut self, mut queued: Queued, live: Option<Arc<Pod>>, now: Instant) {
        let key = queued.pod.key.clone();
        if self.cache.forget(&key, &queued.pod.uid).map(|pod| self.left(pod, now)).is_none() {
            // The watch has settled the matter meanwhile.
            return;
        }
        let Some(live) = live else { return };
        if live.uid == queued.pod.uid && live.wants_node(&self.scheduler_name) {
            queued.pod = live;
            self.queue.failed(queued, now);
        } else {
            self.set_pod(live, now);
        }
    }

    /// When [`Core::next`] should be called even if nothing happens.
    pub fn wake_at(&self) -> Option<Instant> {
        self.queue.wake_at()
    }

    /// The number of pods that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Counts a pod on its node.
    fn place(&mut self, pod: Arc<Pod>, now: Instant) {
        let before = self.cache.pod(&pod.key).cloned();
        let same = before.as_ref().is_some_and(|held| {
            held.node_name == pod.node_name && held.requests == pod.requests && held.labels == pod.labels
        });
        let confirmed = self.cache.is_assumed(&pod.key, &pod.uid);
        self.cache.set_pod(pod.clone());
        if same && !confirmed {
            return;
        }
        if let Some(before) = before.filter(|_| !same) {
            self.left(before, now);
        }
        self.queue.happened(ClusterEvent::PodPlaced(pod), &self.profile, now);
    }

    /// Stops counting a pod, if it was.
    fn leave(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(pod) = self.cache.remove_pod(key) {
            self.left(pod, now);
        }
    }

    fn left(&mut self, pod: Arc<Pod>, now: Instant) {
        self.queue.happened(ClusterEvent::PodLeft(pod), &self.profile, now);
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
