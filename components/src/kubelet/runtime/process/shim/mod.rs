//! The shim: a small single-threaded program that runs one container and outlives the kubelet that started it.
//!
//! It is handed the container's lock as standard input and a pipe for one report as standard output. It writes
//! `starting.json`, starts the program in a session of its own, writes `started.json`, reports, copies the output into
//! the log, and when every process of the container is gone writes `exit.json`, synced, and exits. Its end is what
//! the kubelet waits for.
//!
//! Invariants:
//! * Nothing is started without the lock of that container, and every process of the container inherits it.
//! * The end of the shim means the end of the container: its first process dies with it, and the shim ends only after
//!   all descendants are reaped.
//! * End of file on the cluster's pipe (`LW_CLUSTER_PIPE_FD`) is a request to stop.
//!
//! A command beside a container has an [`escort()`], which keeps the same promises for all that the command starts.

mod container;
mod entry;
mod escort;
mod namespace;
mod supervise;
mod sys;
mod view;

pub use entry::{CLUSTER_PIPE_ENV, main};
pub use escort::escort;
