//! Garbage collection: what is left when an owner goes (Kubernetes 1.36).
//!
//! * [`classify`]: what an object's owners being there or not means for it; pure
//! * [`world`]: what the collector sees and may do, so that it can be tested without a server
//! * [`collect`]: which change needs a look, and what a look leads to
//! * [`absent`]: owners that the server has said do not exist
//! * [`graph`]: who owns what, over all caches; the world as it is
//! * [`reconciler`]: one queue a kind
//!
//! Reference rules: an owner is found by kind, namespace, name and uid together; a namespaced object's owner is in its own
//! namespace or has none; an object without a namespace cannot be owned by one that has. What cannot be resolved is never
//! deleted. Every kind of the table of kinds is collected, but for Events, and every kind that is defined meanwhile.

mod absent;
mod classify;
mod collect;
mod graph;
mod reconciler;
mod world;

#[cfg(test)]
mod model_tests;

pub use classify::{OwnerState, Verdict, verdict};
pub use collect::{changed, removed};
pub use graph::Graph;
pub use reconciler::GarbageCollector;
pub use world::World;
