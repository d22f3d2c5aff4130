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

use super::framework::{ClusterEvent, Diagnosis, Nomination, Profile};
use super::queue::{Backoff, Queue, Queued};
use super::{Budget, Cache, Node, Placement, Pod, Snapshot};

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
        /// What becomes of the node that it was promised. Who has to go for it is to be told to, and then
        /// [`Core::evicted`] is called; until then the pod is not tried.
        nomination: Nomination,
        /// Less important pods whose promise of that node is void.
        displaced: Vec<Arc<Pod>>,
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
            self.cache.withdraw_nomination(&pod.key);
            self.queue.remove(&pod.key);
            self.place(pod, now);
        } else if self.cache.is_assumed(&pod.key, &pod.uid) && !pod.finished {
            // On its way; its binding will tell.
        } else if pod.wants_node(&self.scheduler_name) {
            self.leave(&pod.key, now);
            if !pod.terminating || self.queue.is_active(&pod.key) {
                self.note_nomination(&pod);
                self.queue.set(pod, now);
            } else {
                self.cache.withdraw_nomination(&pod.key);
                self.queue.remove(&pod.key);
            }
        } else {
            self.remove_pod(&pod.key, now);
        }
    }

    /// Forgets a pod that is gone.
    pub fn remove_pod(&mut self, key: &ObjectKey, now: Instant) {
        self.leave(key, now);
        self.cache.withdraw_nomination(key);
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
                self.cache.withdraw_nomination(&queued.pod.key);
                self.cache.assume(Arc::new(queued.pod.placed_on(&placement.node)));
                Some(Decision::Bind { queued, node: placement.node })
            }
            Err(diagnosis) => {
                let key = queued.pod.key.clone();
                if matches!(&diagnosis.nomination, Nomination::Node { victims, .. } if !victims.is_empty()) {
                    self.queue.hold(&key);
                }
                let Some(pod) = self.queue.refused(queued, diagnosis.plugins(), now) else {
                    self.queue.release(&key, false, now);
                    return None;
                };
                let displaced = self.nominate(&pod, &diagnosis.nomination);
                Some(Decision::Refuse {
                    pod,
                    message: diagnosis.message(),
                    nomination: diagnosis.nomination,
                    displaced,
                })
            }
        }
    }

    /// Those who had to go for a pod were told to, or could not be: then the promise is void and the pod is tried again.
    pub fn evicted(&mut self, key: &ObjectKey, told: bool, now: Instant) {
        if !told {
            self.cache.withdraw_nomination(key);
        }
        self.queue.release(key, !told, now);
    }

    /// Takes in how many pods may be disrupted.
    pub fn set_budgets(&mut self, budgets: Vec<Budget>) {
        self.cache.set_budgets(budgets);
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
            self.note_nomination(&live);
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

    /// The node that a waiting pod was promised.
    pub fn promised(&self, key: &ObjectKey) -> Option<String> {
        self.cache.nominations().of(key).map(str::to_owned)
    }

    /// How often a refused pod was shown an event: what events have cost.
    pub fn examined(&self) -> u64 {
        self.queue.examined()
    }

    /// Takes over what the pod's status says it was promised, if that is news: what was decided here may not be there yet.
    fn note_nomination(&mut self, pod: &Arc<Pod>) {
        let told = &pod.asks().nominated_node;
        let is_news = self.queue.get(&pod.key).is_none_or(|held| held.asks().nominated_node != *told);
        match self.cache.nominations().of(&pod.key).map(str::to_owned) {
            _ if is_news && told.is_empty() => self.cache.withdraw_nomination(&pod.key),
            _ if is_news => self.cache.nominate(pod.clone(), told),
            // The newest copy of the pod counts on its node.
            Some(node) => self.cache.nominate(pod.clone(), &node),
            None => {}
        }
    }

    /// Keeps what a pod was promised; less important pods that were promised the same node come back without it.
    fn nominate(&mut self, pod: &Arc<Pod>, nomination: &Nomination) -> Vec<Arc<Pod>> {
        match nomination {
            Nomination::Keep => Vec::new(),
            Nomination::Withdraw => {
                self.cache.withdraw_nomination(&pod.key);
                Vec::new()
            }
            Nomination::Node { node, .. } => {
                let others = self.cache.nominations().on(node).iter();
                let displaced: Vec<_> = others.filter(|other| other.priority < pod.priority).cloned().collect();
                displaced.iter().for_each(|other| self.cache.withdraw_nomination(&other.key));
                self.cache.nominate(pod.clone(), node);
                displaced
            }
        }
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
