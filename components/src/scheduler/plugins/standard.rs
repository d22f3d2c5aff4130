//! The default profile.

use super::{
    DefaultPreemption, ImageLocality, NodeAffinity, NodeName, NodePorts, NodeResourcesBalancedAllocation,
    NodeResourcesFit, NodeUnschedulable, SchedulingGates, TaintToleration,
};
use crate::scheduler::framework::{Profile, Weighted};

impl Profile {
    /// The default profile: upstream's plugins in upstream's order and with its weights, as far as they exist.
    pub fn standard() -> Self {
        Profile {
            pre_enqueue: vec![Box::new(SchedulingGates)],
            pre_filters: vec![Box::new(NodeAffinity)],
            filters: vec![
                Box::new(NodeUnschedulable),
                Box::new(NodeName),
                Box::new(TaintToleration),
                Box::new(NodeAffinity),
                Box::new(NodePorts),
                Box::new(NodeResourcesFit),
            ],
            post_filters: vec![Box::new(DefaultPreemption)],
            scores: vec![
                Weighted { plugin: Box::new(TaintToleration), weight: 3 },
                Weighted { plugin: Box::new(NodeAffinity), weight: 2 },
                Weighted { plugin: Box::new(NodeResourcesFit), weight: 1 },
                Weighted { plugin: Box::new(NodeResourcesBalancedAllocation), weight: 1 },
                Weighted { plugin: Box::new(ImageLocality), weight: 1 },
            ],
        }
    }
}
