//! Taint eviction: pods leave a node whose NoExecute taints they do not tolerate, or no longer (Kubernetes 1.36,
//! `tainteviction`).
//!
//! * [`plan`]: taints, tolerations and the time in; how long the pod may stay out; pure
//! * [`reconciler`]: one timer a pod, the condition, the delete
//!
//! A pod's time runs from when the taint was added (`timeAdded`) and the pod was on the node, whichever came later. So it
//! ends at the same moment whether this process lives on or is started anew, and whatever is edited meanwhile: longer,
//! shorter, other taints. Upstream's runs from when its process first saw the pod, and can only be shortened.

mod plan;
mod reconciler;

pub use plan::{Standing, Stay, first_seen, stay_of};
pub use reconciler::TaintEvictionReconciler;
