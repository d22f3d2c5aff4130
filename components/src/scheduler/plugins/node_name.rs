//! NodeName: a pod that names its node goes nowhere else. Such pods never reach the queue; the filter serves simulations.

use crate::scheduler::framework::{ClusterEvent, CycleState, EventKinds, Filter, Hint, Plugin, Rejection};
use crate::scheduler::{NodeInfo, Pod};

const NAME: &str = "NodeName";

/// See the module.
pub struct NodeName;

fn admits(node: &str, pod: &Pod) -> bool {
    pod.node_name.is_empty() || pod.node_name == node
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> EventKinds {
        EventKinds::NODE_ADDED
    }

    fn hint(&self, pod: &Pod, event: &ClusterEvent) -> Hint {
        matches!(event, ClusterEvent::NodeAdded(node) if admits(&node.name, pod)).into()
    }
}

impl Filter for NodeName {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        if admits(&node.object().name, pod) {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) didn't match the requested node name"))
    }
}
