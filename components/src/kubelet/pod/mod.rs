//! One pod: what its containers should do, and what is said of it. Everything here is pure: no clock, no calls.
//!
//! * [`spec`]: the parts of a pod's spec that decide, and what is refused
//! * [`facts`]: what a container may be told of its pod
//! * [`env`]: environment and expansion of `$(NAME)`
//! * [`volumes`]: what volumes hold and who sees them
//! * [`backoff`]: pauses that double
//! * [`probe`]: when probes ask, and what their answers mean
//! * [`plan`]: which containers to start, to end, to wait for
//! * [`phase`], [`status`]: what the API is told
//! * [`admission`]: whether the node takes the pod

pub mod admission;
pub mod backoff;
pub mod env;
pub mod facts;
pub mod phase;
pub mod plan;
pub mod probe;
pub mod spec;
pub mod status;
pub mod volumes;
