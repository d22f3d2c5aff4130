//! NodePorts: a pod does not go where a port of the node that it wants is taken.

use crate::scheduler::framework::{ClusterEvent, CycleState, EventKinds, Filter, Hint, Plugin, Rejection};
use crate::scheduler::{NodeInfo, Pod, host_port};

const NAME: &str = "NodePorts";

/// See the module.
pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> EventKinds {
        EventKinds::NODE_ADDED | EventKinds::POD_LEFT
    }

    fn hint(&self, pod: &Pod, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(_) => Hint::Queue,
            // Only a pod that was in the way, and only if no other is.
            ClusterEvent::PodLeft { pod: left, node } => {
                let free = node.as_ref().is_some_and(|node| !host_port::taken(&pod.host_ports, &node.used_ports));
                (free && host_port::taken(&pod.host_ports, &left.host_ports)).into()
            }
            _ => Hint::Skip,
        }
    }
}

impl Filter for NodePorts {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        if host_port::taken(&pod.host_ports, &node.used_ports) {
            return Err(Rejection::unschedulable(NAME, "node(s) didn't have free ports for the requested pod ports"));
        }
        Ok(())
    }
}
