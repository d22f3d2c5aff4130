//! Pod garbage collection: pods that nobody will ever finish (Kubernetes 1.36, `podgc`).
//!
//! Pods on a node that no longer exists, pods that were deleted before they had a node, and pods that ended long ago when
//! there are too many of them.

mod plan;
mod reconciler;

pub use plan::{orphaned, surplus};
pub use reconciler::{FINISHED_KEY, PodGcReconciler, Timing, key_of_node};
