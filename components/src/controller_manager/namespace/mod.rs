//! Namespaces that are being deleted: empties them, then lets them go (Kubernetes 1.36).
//!
//! Invariants: pods go first, so that what they depend on outlives them; a namespace is let go only when the server itself
//! has said that nothing is left in it.

mod reconciler;

pub use reconciler::NamespaceReconciler;
