//! Pod garbage collection: pods that nobody will ever finish (Kubernetes 1.36, `podgc`).
//!
//! * [`plan`]: which pods are to go and why; pure
//! * [`reconciler`]: waits out the quarantine, asks the server, deletes
//!
//! Four rules: pods on a node that no longer exists; pods that were deleted before they had a node; pods that were deleted
//! on a node that an operator has declared out of service; pods that ended long ago when there are too many of them.

mod plan;
mod reconciler;

pub use plan::{out_of_service, stranded, surplus};
pub use reconciler::{FINISHED_KEY, PodGcReconciler, Timing, key_of_node};
