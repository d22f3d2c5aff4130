//! NodeAffinity: `spec.nodeSelector` and required node affinity must hold; preferred terms add their weights.

use listwatch_proto::resource::{NodeSelectorTerm, node_matches};

use crate::scheduler::framework::{
    ClusterEvent, CycleState, EventKinds, Filter, Hint, NodeNames, Plugin, PreFilter, Rejection, Score,
    normalize_to_max,
};
use crate::scheduler::{Node, NodeInfo, Pod, Snapshot};

const NAME: &str = "NodeAffinity";

/// See the module.
pub struct NodeAffinity;

fn admits(node: &Node, pod: &Pod) -> bool {
    let asks = pod.asks();
    node_matches(&asks.node_selector, asks.node_affinity.as_ref(), node.labels())
}

/// The nodes that a term pins by name: those that every `metadata.name In` field names. `None`: it pins none.
fn pinned(term: &NodeSelectorTerm) -> Option<NodeNames> {
    let pins = term.match_fields.iter().filter(|f| f.key == "metadata.name" && f.operator == "In");
    pins.map(|f| f.values.iter().cloned().collect::<NodeNames>()).reduce(|a, b| a.intersection(&b).cloned().collect())
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> EventKinds {
        EventKinds::NODE_ADDED | EventKinds::NODE_LABELS | EventKinds::OWN_NODE_RULES
    }

    fn hint(&self, pod: &Pod, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(node) => admits(node, pod).into(),
            ClusterEvent::NodeUpdated { old, new } => (!admits(old, pod) && admits(new, pod)).into(),
            ClusterEvent::PodChanged { old, new } => {
                let (old, new) = (old.asks(), new.asks());
                (old.node_selector != new.node_selector || old.node_affinity != new.node_affinity).into()
            }
            _ => Hint::Skip,
        }
    }
}

impl PreFilter for NodeAffinity {
    /// Nodes named by every required term are the only ones looked at: the quick way of pods made for one node.
    fn pre_filter(&self, _: &mut CycleState, pod: &Pod, _: &Snapshot) -> Result<Option<NodeNames>, Rejection> {
        let Some(required) = pod.asks().node_affinity.as_ref().and_then(|a| a.required.as_ref()) else {
            return Ok(None);
        };
        let mut names = NodeNames::new();
        for term in &required.node_selector_terms {
            match pinned(term) {
                // One term without a pin opens every node.
                None => return Ok(None),
                Some(more) => names.extend(more),
            }
        }
        if required.node_selector_terms.is_empty() {
            return Ok(None);
        }
        if names.is_empty() {
            return Err(Rejection::unresolvable(NAME, "pod affinity terms conflict"));
        }
        Ok(Some(names))
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        if admits(node.object(), pod) {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) didn't match Pod's node affinity/selector"))
    }
}

impl Score for NodeAffinity {
    fn pre_score(&self, _state: &mut CycleState, pod: &Pod, _nodes: &Snapshot, _feasible: &[usize]) -> bool {
        pod.asks().node_affinity.as_ref().is_some_and(|a| !a.preferred.is_empty())
    }

    fn score(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> i64 {
        pod.asks().node_affinity.as_ref().map_or(0, |a| a.preference(node.object().labels()))
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_to_max(scores, false);
    }
}
