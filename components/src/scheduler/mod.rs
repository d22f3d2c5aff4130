//! The scheduler: gives each waiting pod a node.
//!
//! Watches pods and nodes, keeps what they add up to, and for one pod after another asks the plugins which nodes fit and
//! which of them is best. The decision is a pure function of a snapshot; the only thing written is the binding.
//! Everything in memory is cache: a scheduler killed at any point loses nothing but time.
//!
//! One river: watch → [`Core`] (cache and queue) → [`Cycle`] ([`Algorithm`] over a [`Snapshot`]) → binding.

mod amounts;
mod budget;
mod host_port;
mod image;
mod node;
mod pod;

pub mod framework;
pub mod plugins;

mod cache;
mod queue;

mod algorithm;
mod core;
mod cycle;

mod bind;
mod evict;
mod program;
mod report;

pub use self::core::{Core, Decision, Try};
pub use algorithm::{Algorithm, Placement, Scores};
pub use amounts::Amounts;
pub use budget::Budget;
pub use cache::{Cache, Nominations, Snapshot};
pub use cycle::Cycle;
pub use host_port::HostPort;
pub use image::Image;
pub use node::{Node, NodeInfo};
pub use pod::{DEFAULT_SCHEDULER, Pod, Waiting};
pub use program::{Error, Options, run};
pub use queue::{Backoff, Queue, Queued};

#[cfg(test)]
mod tests;
