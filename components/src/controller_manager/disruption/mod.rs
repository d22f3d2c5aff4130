//! The disruption controller: how many pods of a PodDisruptionBudget may go now (Kubernetes 1.36, `disruption`).
//!
//! * [`plan`]: the status of a budget from its pods and the replicas that are wanted; pure
//! * [`expected`]: how many replicas the controllers of the pods want
//! * [`reconciler`]: writes the status, and says on failure that nothing may go
//! * [`stale`]: takes back the announcement of a deletion that never came
//!
//! Invariant: when in doubt nothing may go. A budget whose pods cannot be counted allows no disruption, and a pod that was
//! promised to go does not count as healthy until it has gone or two minutes have passed.

mod expected;
mod plan;
mod reconciler;
mod stale;

pub use plan::covers;
pub use reconciler::DisruptionReconciler;
pub use stale::StaleDisruptionReconciler;
