//! The node as the API sees it: registration, status, heartbeats.
//!
//! * [`object`]: the Node object, built and compared; pure
//! * [`report`]: keeps the API's Node equal to it
//! * [`lease`]: says every few seconds that the kubelet lives

mod lease;
mod object;
mod report;

pub(super) use lease::Heartbeat;
pub(super) use object::{NodeFacts, system_facts};
pub(super) use report::Reporter;
