//! NodeUnschedulable: no pod goes to a cordoned node unless it tolerates the cordon.

use listwatch_proto::resource::Taint;
use listwatch_proto::resource::toleration::{NO_SCHEDULE, TAINT_UNSCHEDULABLE, tolerated};

use crate::scheduler::framework::{ClusterEvent, CycleState, EventKinds, Filter, Hint, Plugin, Rejection};
use crate::scheduler::{Node, NodeInfo, Pod};

const NAME: &str = "NodeUnschedulable";

/// See the module.
pub struct NodeUnschedulable;

fn tolerates_cordon(pod: &Pod) -> bool {
    tolerated(&Taint::new(TAINT_UNSCHEDULABLE, NO_SCHEDULE), &pod.asks().tolerations)
}

fn admits(node: &Node, pod: &Pod) -> bool {
    !node.unschedulable || tolerates_cordon(pod)
}

impl Plugin for NodeUnschedulable {
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
            ClusterEvent::PodChanged { old, new } => (!tolerates_cordon(old) && tolerates_cordon(new)).into(),
            _ => Hint::Skip,
        }
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        if admits(node.object(), pod) {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) were unschedulable"))
    }
}
