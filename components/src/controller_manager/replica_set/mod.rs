//! ReplicaSet: as many pods as are wanted, no more and no fewer (Kubernetes 1.36).
//!
//! * [`plan`]: state in, acts out; pure
//! * [`rank`]: who goes first when there are too many
//! * [`status`]: what is said of the set
//! * [`reconciler`]: reads the caches, carries out a plan, writes the status last

mod plan;
mod rank;
mod reconciler;
mod status;

pub use plan::{FAILURES_MAX, Plan, Set, plan};
pub use rank::deletion_order;
pub use reconciler::{ReplicaSetReconciler, sets_of};
pub use status::{Failure, Status, status};
