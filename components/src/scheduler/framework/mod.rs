//! The frame that plugins hang in: what a plugin may be asked, what it answers, and how the answers add up.
//!
//! A cycle is a pure function of a pod and a snapshot: no plugin reads anything else, so a cycle can be replayed and tested
//! as data. Semantics are those of the scheduling framework of Kubernetes 1.36.

mod diagnosis;
mod event;
mod plugin;
mod profile;
mod state;
mod verdict;

pub use diagnosis::{Diagnosis, NO_NODES, available};
pub use event::{ClusterEvent, EventKinds, Hint};
pub use plugin::{
    Filter, Nomination, Plugin, PostFilter, PostFilterOutcome, PreEnqueue, PreFilter, Score, normalize_to_max,
};
pub use profile::{NO_NODES_AT_ALL, Profile, Weighted};
pub use state::CycleState;
pub use verdict::{Code, NodeNames, Reason, Rejection};
