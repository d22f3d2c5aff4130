//! Namespaces that are being deleted: empties them, then lets them go (Kubernetes 1.36).
//!
//! * [`conditions`]: what the namespace says about its end while it is stuck; pure
//! * [`reconciler`]: deletes, counts, finalizes
//!
//! Invariants: pods go first, so that what they depend on outlives them; a namespace is let go only when the server itself
//! has said that nothing is left in it.

mod conditions;
mod reconciler;

pub use conditions::{Remains, conditions};
pub use reconciler::NamespaceReconciler;
