//! What a plugin is: one trait for each extension point.

use std::sync::Arc;

use super::{ClusterEvent, CycleState, Diagnosis, EventKinds, Hint, NodeNames, Profile, Rejection};
use crate::scheduler::{NodeInfo, Pod, Snapshot};

/// What every plugin has.
pub trait Plugin: Send + Sync {
    /// Its name in messages and tables.
    fn name(&self) -> &'static str;

    /// The kinds of events that could cure its refusals.
    fn events(&self) -> EventKinds {
        EventKinds::NONE
    }

    /// Whether an event of one of these kinds could cure its refusal of this pod.
    fn hint(&self, _pod: &Pod, _event: &ClusterEvent) -> Hint {
        Hint::Queue
    }
}

/// Judges the pod alone, before it may be tried at all.
pub trait PreEnqueue: Plugin {
    /// Whether the pod may be tried; if not, only a change of the pod itself brings it forward.
    fn may_be_tried(&self, pod: &Pod) -> bool;
}

/// Looks at the pod before any node: computes what the filter reads, narrows the nodes, or refuses the pod.
pub trait PreFilter: Plugin {
    /// The only nodes worth looking at; `None` means all.
    fn pre_filter(&self, state: &mut CycleState, pod: &Pod, nodes: &Snapshot) -> Result<Option<NodeNames>, Rejection>;
}

/// Judges one node.
pub trait Filter: Plugin {
    /// Refuses the node for this pod, or does not.
    fn filter(&self, state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection>;
}

/// What becomes of the node that a pod was promised.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Nomination {
    /// It stays as it is.
    #[default]
    Keep,
    /// The promise is void.
    Withdraw,
    /// This node is promised: once these pods have gone the pod fits.
    Node {
        /// The node's name.
        node: Arc<str>,
        /// Who is to go, the most important first.
        victims: Vec<Arc<Pod>>,
    },
}

/// What was found out after every node had been refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PostFilterOutcome {
    /// What is added to the message; empty: nothing.
    pub message: String,
    /// What becomes of the pod's promised node.
    pub nomination: Nomination,
}

/// Looks for a way out when no node fits.
pub trait PostFilter: Plugin {
    /// Says what could be done. `turn` is random: where to begin when not all nodes need to be looked at.
    fn post_filter(
        &self,
        profile: &Profile,
        state: &CycleState,
        pod: &Pod,
        nodes: &Snapshot,
        diagnosis: &Diagnosis,
        turn: usize,
    ) -> PostFilterOutcome;
}

/// Prefers some nodes to others.
pub trait Score: Plugin {
    /// Whether it has anything to say about this pod; if not, it adds nothing to any node. May compute what `score`
    /// reads, over all nodes or over the places of those that fit.
    fn pre_score(&self, _state: &mut CycleState, _pod: &Pod, _nodes: &Snapshot, _feasible: &[usize]) -> bool {
        true
    }

    /// The raw score of a node.
    fn score(&self, state: &CycleState, pod: &Pod, node: &NodeInfo) -> i64;

    /// Brings raw scores of all nodes to the range from 0 to 100.
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// `100 × score / max`, turned round if `reverse`; without any score all are 100 when turned round, else 0.
pub fn normalize_to_max(scores: &mut [i64], reverse: bool) {
    let max = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let scaled = if max == 0 { 0 } else { *score * 100 / max };
        *score = if reverse { 100 - scaled } else { scaled };
    }
}
