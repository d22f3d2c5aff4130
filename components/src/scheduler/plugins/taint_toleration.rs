//! TaintToleration: nodes with untolerated NoSchedule or NoExecute taints are refused, those with untolerated
//! PreferNoSchedule taints are liked less.

use listwatch_proto::resource::Toleration;
use listwatch_proto::resource::toleration::{PREFER_NO_SCHEDULE, tolerated, untolerated};

use crate::scheduler::framework::{
    ClusterEvent, CycleState, EventKinds, Filter, Hint, Plugin, Rejection, Score, normalize_to_max,
};
use crate::scheduler::{Node, NodeInfo, Pod, Snapshot};

const NAME: &str = "TaintToleration";

/// See the module.
pub struct TaintToleration;

/// The tolerations that count against PreferNoSchedule taints.
struct Preferences(Vec<Toleration>);

fn admits(node: &Node, pod: &Pod) -> bool {
    untolerated(&node.taints, &pod.asks().tolerations).is_none()
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> EventKinds {
        EventKinds::NODE_ADDED | EventKinds::NODE_TAINTS | EventKinds::OWN_TOLERATIONS
    }

    fn hint(&self, pod: &Pod, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(node) => admits(node, pod).into(),
            ClusterEvent::NodeUpdated { old, new } => (!admits(old, pod) && admits(new, pod)).into(),
            ClusterEvent::PodChanged { old, new } => (old.asks().tolerations != new.asks().tolerations).into(),
            _ => Hint::Skip,
        }
    }
}

impl Filter for TaintToleration {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        if admits(node.object(), pod) {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) had untolerated taint(s)"))
    }
}

impl Score for TaintToleration {
    fn pre_score(&self, state: &mut CycleState, pod: &Pod, _nodes: &Snapshot, _feasible: &[usize]) -> bool {
        let counts = |t: &&Toleration| t.effect.is_empty() || t.effect == PREFER_NO_SCHEDULE;
        state.write(Preferences(pod.asks().tolerations.iter().filter(counts).cloned().collect()));
        true
    }

    fn score(&self, state: &CycleState, _pod: &Pod, node: &NodeInfo) -> i64 {
        let tolerations = state.read::<Preferences>().map_or(&[][..], |p| &p.0);
        let taints = node.object().taints.iter();
        taints.filter(|t| t.effect == PREFER_NO_SCHEDULE && !tolerated(t, tolerations)).count() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_to_max(scores, true);
    }
}
