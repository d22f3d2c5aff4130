//! The plugins, one file each, and the default profile that names them in order (Kubernetes 1.36).

mod default_preemption;
mod node_affinity;
mod node_name;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod taint_toleration;

pub use default_preemption::DefaultPreemption;
pub use node_affinity::NodeAffinity;
pub use node_name::NodeName;
pub use node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
pub use node_resources_fit::NodeResourcesFit;
pub use node_unschedulable::NodeUnschedulable;
pub use taint_toleration::TaintToleration;

use super::framework::{Profile, Weighted};

impl Profile {
    /// The default profile: upstream's plugins in upstream's order and with its weights, as far as they exist.
    pub fn standard() -> Self {
        Profile {
            pre_filters: vec![Box::new(NodeAffinity)],
            filters: vec![
                Box::new(NodeUnschedulable),
                Box::new(NodeName),
                Box::new(TaintToleration),
                Box::new(NodeAffinity),
                Box::new(NodeResourcesFit),
            ],
            post_filters: vec![Box::new(DefaultPreemption)],
            scores: vec![
                Weighted { plugin: Box::new(TaintToleration), weight: 3 },
                Weighted { plugin: Box::new(NodeAffinity), weight: 2 },
                Weighted { plugin: Box::new(NodeResourcesFit), weight: 1 },
                Weighted { plugin: Box::new(NodeResourcesBalancedAllocation), weight: 1 },
            ],
        }
    }
}
