//! SchedulingGates: a pod with gates is not scheduled before somebody has taken the last of them away. The API server says
//! so in its condition; the scheduler says nothing.

use crate::scheduler::Pod;
use crate::scheduler::framework::{ClusterEvent, EventKinds, Hint, Plugin, PreEnqueue};

/// See the module.
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn events(&self) -> EventKinds {
        EventKinds::OWN_GATES
    }

    fn hint(&self, _pod: &Pod, event: &ClusterEvent) -> Hint {
        matches!(event, ClusterEvent::PodChanged { new, .. } if !new.asks().gated).into()
    }
}

impl PreEnqueue for SchedulingGates {
    fn may_be_tried(&self, pod: &Pod) -> bool {
        !pod.asks().gated
    }
}
