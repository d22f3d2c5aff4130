//! NodeResourcesBalancedAllocation: nodes where the pod brings cpu and memory closer to the same share are liked better.
//!
//! The formula is that of Kubernetes 1.36, as recorded from it: the change that the pod makes, around 75.

use crate::scheduler::framework::{CycleState, Plugin, Score};
use crate::scheduler::{NodeInfo, Pod, Snapshot};

/// See the module.
pub struct NodeResourcesBalancedAllocation;

/// `int((1 − deviation) × 100)` of the shares taken, of which there are at most two.
fn balance(taken: [(i64, i64); 2]) -> i64 {
    let mut shares = [0.0_f64; 2];
    let mut count = 0;
    for (offer, used) in taken {
        if offer > 0 {
            shares[count] = (used as f64 / offer as f64).min(1.0);
            count += 1;
        }
    }
    let deviation = if count == 2 { ((shares[0] - shares[1]) / 2.0).abs() } else { 0.0 };
    ((1.0 - deviation) * 100.0) as i64
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }
}

impl Score for NodeResourcesBalancedAllocation {
    /// A pod that requests neither has no say, or all such pods would be drawn to one node.
    fn pre_score(&self, _state: &mut CycleState, pod: &Pod, _nodes: &Snapshot, _feasible: &[usize]) -> bool {
        pod.requests.milli_cpu > 0 || pod.requests.memory > 0
    }

    fn score(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> i64 {
        let offers = node.allocatable();
        let shares = |cpu: i64, memory: i64| {
            let taken = &node.requested;
            balance([(offers.milli_cpu, taken.milli_cpu + cpu), (offers.memory, taken.memory + memory)])
        };
        let with = shares(pod.requests.milli_cpu, pod.requests.memory);
        let without = shares(0, 0);
        50 + (50 + with - without) / 2
    }
}
