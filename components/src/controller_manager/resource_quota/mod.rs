//! Resource quotas: how much of what a namespace uses, counted anew (Kubernetes 1.36, `resourcequota`).
//!
//! * [`plan`]: what a quota's status is to be, given all that it counts; pure
//! * [`reconciler`]: reads the quota, then what it counts, then writes the status if the quota is still as it was read
//!
//! The server adds to a quota what it lets in, in the same commit; this controller takes off what has gone. That it never
//! takes off too much follows from the order: whatever is let in after the quota was read changes the quota, and then the
//! write of the count is refused.

mod plan;
mod reconciler;

pub use plan::{concerns, counted_kinds, status};
pub use reconciler::ResourceQuotaReconciler;
