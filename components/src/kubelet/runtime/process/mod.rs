//! The process runtime: containers are plain processes of this machine, each under a shim of its own.
//!
//! It claims no isolation: no root file system, no namespaces, no limits. It does keep the promises about life and
//! death: never two processes of one container of one pod, exit codes survive every kubelet, and what runs is found
//! again. Linux only, for `pidfd`, `flock` and `/proc`.
//!
//! * [`layout`], [`record`]: the files by which kubelets and shims know of each other
//! * [`identity`], [`lock`]: who is meant, and who may
//! * [`shim`]: the program that runs one container, and the one that runs a command beside it
//! * [`lifeline`]: whether the cluster is there
//! * [`cri_log`], [`termination`]: its output on disk, and what it says of its end
//! * [`attempt`], [`launch`]: the kubelet's side: what is there, and how one more is started
//! * [`images`], [`builtin`], [`ports`]: what to run, and where it may listen
//! * [`escort`]: how a command beside a container is started, and what ends it
//! * [`exec`]: a command beside a running container
//! * [`interact`]: one that somebody follows, in a terminal or not
//! * [`ProcessRuntime`]: all of it behind the kubelet's seam

pub mod attempt;
pub mod builtin;
pub mod cri_log;
mod escort;
mod exec;
pub mod identity;
pub mod images;
mod interact;
pub mod launch;
pub mod layout;
pub mod lifeline;
pub mod lock;
mod pod;
pub mod ports;
pub mod record;
mod service;
pub mod shim;
mod termination;

pub use service::ProcessRuntime;
