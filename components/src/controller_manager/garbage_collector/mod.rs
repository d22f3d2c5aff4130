//! Garbage collection: what is left when an owner goes (Kubernetes 1.36).
//!
//! * [`classify`]: what an object's owners being there or not means for it; pure
//! * [`graph`]: who owns what, over all caches
//! * [`reconciler`]: carries out, after the server has confirmed what the caches say
//!
//! Reference rules: an owner is found by kind, namespace, name and uid together; a namespaced object's owner is in its own
//! namespace or has none; an object without a namespace cannot be owned by one that has. What cannot be resolved is never
//! deleted.

mod classify;
mod graph;
mod reconciler;

pub use classify::{OwnerState, Verdict, verdict};
pub use graph::{Graph, Known, Members, known};
pub use reconciler::GarbageCollector;

/// The finalizer of an owner that goes after what it owns.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose things stay, ownerless.
pub const ORPHAN: &str = "orphan";
