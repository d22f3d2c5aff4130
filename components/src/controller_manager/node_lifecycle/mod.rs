//! Node lifecycle: notices nodes that are not heard of, and marks nodes by their conditions (Kubernetes 1.36).
//!
//! * [`plan`]: a node, its health and the time in; conditions and taints out; pure
//! * [`zones`]: how fast nodes may be given the taint that evicts their pods; pure
//! * [`watched`]: what is remembered of all nodes
//! * [`reconciler`]: watches Leases and nodes, verifies, writes
//!
//! A node's health is judged by this process's own clock: the moment at which a renewal was *seen*. The times that the
//! kubelet writes are only ever compared with themselves. Before a node is given up the server is asked, so a cache that has
//! stopped makes nobody look lost, and nobody look alive.

mod plan;
mod reconciler;
mod watched;
mod zones;

pub use plan::{Health, Source, Timing, observe};
pub use reconciler::NodeLifecycleReconciler;
pub use zones::Rates;

/// The namespace of the nodes' Leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
