//! NodeResourcesFit: what a pod requests must be free on the node; emptier nodes are liked better (LeastAllocated over cpu
//! and memory).

use crate::scheduler::framework::{
    ClusterEvent, Code, CycleState, EventKinds, Filter, Hint, Plugin, Reason, Rejection, Score,
};
use crate::scheduler::{Amounts, Node, NodeInfo, Pod};

const NAME: &str = "NodeResourcesFit";

/// See the module.
pub struct NodeResourcesFit;

/// Whether the node, emptied, would hold the pod.
fn fits_empty(node: &Node, pod: &Pod) -> bool {
    let mut reasons = Vec::new();
    node.allocatable.pods >= 1 && {
        lacking(&pod.requests, &node.allocatable, &Amounts::default(), &mut reasons);
        reasons.is_empty()
    }
}

/// Whether the pod has room on the node as it is.
fn fits(node: &NodeInfo, pod: &Pod) -> bool {
    node.node.is_some() && judge(pod, node).is_ok()
}

/// Whether a placed pod now takes less of something that is asked for.
fn frees(old: &Amounts, new: &Amounts, requests: &Amounts) -> bool {
    (requests.milli_cpu > 0 && new.milli_cpu < old.milli_cpu)
        || (requests.memory > 0 && new.memory < old.memory)
        || (requests.ephemeral_storage > 0 && new.ephemeral_storage < old.ephemeral_storage)
        || requests.scalars().any(|(name, amount)| amount > 0 && new.scalar(name) < old.scalar(name))
}

/// Names every resource that is too scarce on the node.
fn judge(pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
    let offers = node.allocatable();
    let mut reasons = Vec::new();
    if node.pods.len() as i64 + 1 > offers.pods {
        reasons.push("Too many pods".into());
    }
    let hopeless = lacking(&pod.requests, offers, &node.requested, &mut reasons);
    if reasons.is_empty() {
        return Ok(());
    }
    let code = if hopeless { Code::Unresolvable } else { Code::Unschedulable };
    Err(Rejection { plugin: NAME, code, reasons })
}

/// Whether a node now offers more of something that the pod requests.
fn grew(old: &Amounts, new: &Amounts, requests: &Amounts) -> bool {
    new.pods > old.pods
        || (requests.milli_cpu > 0 && new.milli_cpu > old.milli_cpu)
        || (requests.memory > 0 && new.memory > old.memory)
        || (requests.ephemeral_storage > 0 && new.ephemeral_storage > old.ephemeral_storage)
        || requests.scalars().any(|(name, amount)| amount > 0 && new.scalar(name) > old.scalar(name))
}

/// Names every resource of which too little is free; the answer tells whether even the empty node has too little.
fn lacking(requests: &Amounts, offers: &Amounts, taken: &Amounts, reasons: &mut Vec<Reason>) -> bool {
    if requests.is_zero() {
        return false;
    }
    let mut hopeless = false;
    let mut check = |request: i64, offer: i64, taken: i64, reason: &dyn Fn() -> Reason| {
        if request > 0 && request > offer - taken {
            reasons.push(reason());
            hopeless |= request > offer;
        }
    };
    check(requests.milli_cpu, offers.milli_cpu, taken.milli_cpu, &|| "Insufficient cpu".into());
    check(requests.memory, offers.memory, taken.memory, &|| "Insufficient memory".into());
    check(requests.ephemeral_storage, offers.ephemeral_storage, taken.ephemeral_storage, &|| {
        "Insufficient ephemeral-storage".into()
    });
    for (name, request) in requests.scalars() {
        check(request, offers.scalar(name), taken.scalar(name), &|| format!("Insufficient {name}").into());
    }
    hopeless
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn events(&self) -> EventKinds {
        EventKinds::NODE_ADDED
            | EventKinds::NODE_ALLOCATABLE
            | EventKinds::POD_LEFT
            | EventKinds::POD_SCALED_DOWN
            | EventKinds::OWN_SCALED_DOWN
    }

    fn hint(&self, pod: &Pod, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(node) => fits_empty(node, pod).into(),
            ClusterEvent::NodeUpdated { old, new } => {
                (grew(&old.allocatable, &new.allocatable, &pod.requests) && fits_empty(new, pod)).into()
            }
            // Who leaves frees at least a place; whether that is enough shows on the node as it now is.
            ClusterEvent::PodLeft { node, .. } => node.as_ref().is_some_and(|node| fits(node, pod)).into(),
            ClusterEvent::PodUpdated { old, new, node } => {
                let freed = frees(&old.requests, &new.requests, &pod.requests);
                (freed && node.as_ref().is_some_and(|node| fits(node, pod))).into()
            }
            ClusterEvent::PodChanged { old, new } => new.requests.is_less_somewhere(&old.requests).into(),
            _ => Hint::Skip,
        }
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        judge(pod, node)
    }
}

impl Score for NodeResourcesFit {
    fn score(&self, _state: &CycleState, pod: &Pod, node: &NodeInfo) -> i64 {
        let offers = node.allocatable();
        let cpu = (offers.milli_cpu, node.assumed_milli_cpu + pod.assumed_milli_cpu);
        let memory = (offers.memory, node.assumed_memory + pod.assumed_memory);
        let (mut sum, mut count) = (0, 0);
        for (offer, used) in [cpu, memory] {
            if offer > 0 {
                let free = (offer - used).max(0);
                sum += i64::try_from(i128::from(free) * 100 / i128::from(offer)).unwrap_or(0);
                count += 1;
            }
        }
        if count == 0 { 0 } else { sum / count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn node(cpu: i64, pods: i64) -> Arc<Node> {
        Arc::new(Node { allocatable: Amounts::sample(cpu, pods), ..Node::default() })
    }

    fn pod(cpu: i64) -> Pod {
        Pod { requests: Amounts::sample(cpu, 0), ..Pod::default() }
    }

    #[test]
    fn only_growth_that_could_help_brings_a_pod_back() {
        let hint = |pod: &Pod, event: ClusterEvent| NodeResourcesFit.hint(pod, &event);
        let grow = |from, to| ClusterEvent::NodeUpdated { old: node(from, 10), new: node(to, 10) };
        assert_eq!(hint(&pod(2000), ClusterEvent::NodeAdded(node(4000, 10))), Hint::Queue);
        assert_eq!(hint(&pod(2000), ClusterEvent::NodeAdded(node(1000, 10))), Hint::Skip);
        assert_eq!(hint(&pod(2000), ClusterEvent::NodeAdded(node(4000, 0))), Hint::Skip);
        assert_eq!(hint(&pod(2000), grow(1000, 4000)), Hint::Queue);
        assert_eq!(hint(&pod(2000), grow(4000, 4000)), Hint::Skip);
        assert_eq!(hint(&pod(0), grow(1000, 4000)), Hint::Skip);
        let with = |cpu, taken: &[i64]| {
            let mut info = NodeInfo { node: Some(node(cpu, 3)), ..NodeInfo::default() };
            taken.iter().for_each(|cpu| info.add_pod(Arc::new(pod(*cpu))));
            Some(Arc::new(info))
        };
        let left = |node| ClusterEvent::PodLeft { pod: Arc::new(pod(1000)), node };
        assert_eq!(hint(&pod(2000), left(with(4000, &[1500]))), Hint::Queue);
        assert_eq!(hint(&pod(2000), left(with(4000, &[2500]))), Hint::Skip);
        assert_eq!(hint(&pod(2000), left(with(4000, &[1, 1, 1]))), Hint::Skip, "too many pods");
        assert_eq!(hint(&pod(2000), left(None)), Hint::Skip, "no such node");
        let scaled = |from, to, node| {
            let (old, new) = (Arc::new(pod(from)), Arc::new(pod(to)));
            ClusterEvent::PodUpdated { old, new, node }
        };
        assert_eq!(hint(&pod(2000), scaled(3000, 1500, with(4000, &[1500]))), Hint::Queue);
        assert_eq!(hint(&pod(2000), scaled(3000, 2500, with(4000, &[2500]))), Hint::Skip);
        assert_eq!(hint(&pod(2000), scaled(1000, 1500, with(4000, &[1500]))), Hint::Skip);
        assert_eq!(hint(&pod(0), scaled(3000, 1500, with(4000, &[1500]))), Hint::Skip, "it asks for no cpu");
        assert_eq!(hint(&pod(2000), ClusterEvent::PodPlaced(Arc::new(pod(1)))), Hint::Skip);
    }

    #[test]
    fn a_pod_beyond_the_empty_node_is_hopeless() {
        let info = NodeInfo { node: Some(node(1000, 1)), ..NodeInfo::default() };
        let refused = |pod: &Pod| NodeResourcesFit.filter(&CycleState::default(), pod, &info).err();
        assert_eq!(refused(&pod(1000)), None);
        assert_eq!(refused(&pod(1001)).map(|r| r.code), Some(Code::Unresolvable));
        let mut full = info.clone();
        full.add_pod(Arc::new(pod(500)));
        let refusal = NodeResourcesFit.filter(&CycleState::default(), &pod(600), &full).expect_err("full");
        assert_eq!(refusal.code, Code::Unschedulable);
        assert_eq!(refusal.reasons, ["Too many pods", "Insufficient cpu"]);
    }
}
