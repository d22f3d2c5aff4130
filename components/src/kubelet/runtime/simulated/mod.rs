//! The simulated runtime: pods run without processes, and each container behaves as its command says.
//!
//! For clusters of many pods on one small machine, and for sessions that need no images. Everything of the kubelet above
//! the seam is real: admission, status, probes' consequences, graceful ends, restarts. What a container would have to do
//! by itself is decided by a table instead, and what would need a process (`exec`, a real log) is refused or empty.
//!
//! * [`behaviour`]: the table; pure
//! * [`record`]: what is kept of a pod, in memory and in its file
//! * [`addresses`]: addresses of pods that no packet is sent to
//! * [`SimulatedRuntime`]: all of it behind the kubelet's seam

mod addresses;
mod behaviour;
mod record;
mod service;

pub use service::SimulatedRuntime;
