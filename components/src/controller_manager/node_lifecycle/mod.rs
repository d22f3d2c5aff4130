//! Node lifecycle: notices nodes that are not heard of, and marks nodes by their conditions (Kubernetes 1.36).
//!
//! * [`plan`]: a node, its health and the time in; conditions and taints out; pure
//! * [`reconciler`]: watches Leases and nodes, verifies, writes
//!
//! A node's health is judged by this process's own clock: the moment at which a renewal was *seen*. The times that the
//! kubelet writes are only ever compared with themselves.

mod plan;
mod reconciler;

pub use plan::{Health, NodePlan, Timing, observe, plan};
pub use reconciler::NodeLifecycleReconciler;

/// The namespace of the nodes' Leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
