//! Group commit by leader and followers: whoever finds nobody leading takes all that waits, evaluates it in order,
//! writes one frame, syncs once, publishes, and wakes the others.
//!
//! Invariants: at most one leads; a request is evaluated once, in the order of arrival; nothing is visible or answered
//! before it is durable; a request whose caller has gone is done all the same. A lone writer does everything on its own
//! thread: waking another one costs more than the disk.

pub mod request;

pub mod queue;

pub mod group;

pub use group::{Committer, Parts, Stand};
pub use queue::{Queue, in_place};
pub use request::{Reply, Request};
