//! The scheduler without its wires: what the watches say goes in, what is to be done comes out.
//!
//! A cycle has three steps: [`Core::begin`] takes a pod and brings the snapshot up to date, [`Algorithm`] looks for a node
//! without touching the core, [`Core::end`] takes the result in. So the core is held only for moments, and the watches go
//! on feeding it while a cycle thinks.
//!
//! Invariants: after a restart the same watches rebuild it; a pod that is on its way to a node is never tried again before
//! its binding has failed; what happens between `begin` and `end` is judged at `end`.
//!
//! [`Algorithm`]: super::Algorithm

use std::sync::Arc;
use std::time::Instant;

use listwatch_proto::resource::ObjectKey;

use super::framework::{ClusterEvent, Diagnosis, Profile};
use super::queue::{Backoff, Queue, Queued};
use super::{Cache, Node, Placement, Pod, Snapshot};

/// The state of a scheduler.
pub struct Core {
    scheduler_name: String,
    cache: Cache,
    queue: Queue,
}

/// A pod taken for a try.
#[derive(Debug)]
pub enum Try {
    /// Find it a node.
    Schedule(Queued),
    /// It is being deleted: it is not tried, and has left the queue.
    Skip(Arc<Pod>),
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
    /// Tell that a pod was left out because it is being deleted.
    Skip(Arc<Pod>),
}

impl Core {
    /// An empty one.
    pub fn new(scheduler_name: &str, profile: Arc<Profile>, backoff: Backoff, now: Instant) -> Self {
        Core {
            scheduler_name: scheduler_name.to_owned(),
            cache: Cache::default(),
            queue: Queue::new(profile, backoff, now),
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
            if !pod.terminating || self.queue.is_active(&pod.key) {
                self.queue.set(pod, now);
            } else {
                self.queue.remove(&pod.key);
            }
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
        self.queue.happened(event, now);
    }

    /// Forgets a node that is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.cache.remove_node(name);
    }

    /// Takes the next pod worth a try and brings the snapshot up to date, which is always the same one. The try is ended by
    /// [`Core::end`]; what happens until then is not lost on the pod.
    pub fn begin(&mut self, snapshot: &mut Snapshot, now: Instant) -> Option<Try> {
        let queued = self.queue.pop(now)?;
        if queued.pod.terminating {
            self.queue.remove(&queued.pod.key);
            return Some(Try::Skip(queued.pod));
        }
        self.cache.refresh(snapshot);
        Some(Try::Schedule(queued))
    }

    /// Ends a try with what the cycle has found. `None`: nothing is to be done, the pod or its node has gone meanwhile.
    pub fn end(
        &mut self,
        mut queued: Queued,
        found: Result<Placement, Box<Diagnosis>>,
        now: Instant,
    ) -> Option<Decision> {
        match found {
            Ok(placement) if self.cache.node(&placement.node).is_none() => {
                // Tried again at once: nobody has refused it.
                let pod = self.queue.done(&queued)?;
                self.queue.set(pod, now);
                None
            }
            Ok(placement) => {
                queued.pod = self.queue.done(&queued)?;
                self.cache.assume(Arc::new(queued.pod.placed_on(&placement.node)));
                Some(Decision::Bind { queued, node: placement.node })
            }
            Err(diagnosis) => {
                let pod = self.queue.refused(queued, diagnosis.plugins(), now)?;
                Some(Decision::Refuse { pod, message: diagnosis.message() })
            }
        }
    }

    /// A binding failed. `live` is the pod as the server now has it; `None`: it is gone.
    pub fn bind_failed(&mut self, mut queued: Queued, live: Option<Arc<Pod>>, now: Instant) {
        let key = queued.pod.key.clone();
        let Some(pod) = self.cache.forget(&key, &queued.pod.uid) else {
            // The watch has settled the matter meanwhile.
            return;
        };
        self.left(pod, now);
        let Some(live) = live else { return };
        if live.uid == queued.pod.uid && live.wants_node(&self.scheduler_name) && !live.terminating {
            queued.pod = live;
            self.queue.failed(queued, now);
        } else {
            self.set_pod(live, now);
        }
    }

    /// When [`Core::begin`] should be called even if nothing happens.
    pub fn wake_at(&self) -> Option<Instant> {
        self.queue.wake_at()
    }

    /// The number of pods that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// How often a refused pod was shown an event: what events have cost.
    pub fn examined(&self) -> u64 {
        self.queue.examined()
    }

    /// Counts a pod on its node.
    fn place(&mut self, pod: Arc<Pod>, now: Instant) {
        let before = self.cache.pod(&pod.key).cloned();
        let was_assumed = self.cache.is_assumed(&pod.key, &pod.uid);
        self.cache.set_pod(pod.clone());
        match before {
            Some(before) if before.node_name == pod.node_name && !was_assumed => {
                let node = self.cache.node_info(&pod.node_name).cloned();
                self.queue.happened(ClusterEvent::PodUpdated { old: before, new: pod, node }, now);
            }
            Some(before) if before.node_name != pod.node_name => {
                self.left(before, now);
                self.queue.happened(ClusterEvent::PodPlaced(pod), now);
            }
            _ => self.queue.happened(ClusterEvent::PodPlaced(pod), now),
        }
    }

    /// Stops counting a pod, if it was.
    fn leave(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(pod) = self.cache.remove_pod(key) {
            self.left(pod, now);
        }
    }

    fn left(&mut self, pod: Arc<Pod>, now: Instant) {
        let node = self.cache.node_info(&pod.node_name).cloned();
        self.queue.happened(ClusterEvent::PodLeft { pod, node }, now);
    }
}
