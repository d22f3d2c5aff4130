//! The plugins, one file each, and the default profile that names them in order (Kubernetes 1.36).

mod default_preemption;
mod image_locality;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod scheduling_gates;
mod standard;
mod taint_toleration;
mod victims;

pub use default_preemption::DefaultPreemption;
pub use image_locality::ImageLocality;
pub use node_affinity::NodeAffinity;
pub use node_name::NodeName;
pub use node_ports::NodePorts;
pub use node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
pub use node_resources_fit::NodeResourcesFit;
pub use node_unschedulable::NodeUnschedulable;
pub use scheduling_gates::SchedulingGates;
pub use taint_toleration::TaintToleration;
