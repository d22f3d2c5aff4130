//! Work behind the commits: checkpoints and the physical floor, the end of leases, syncs of buffered writes.
//!
//! Each has a thread that sleeps until there is something to do, owned and joined by the engine. Without threads (tests
//! that must repeat exactly) the engine's owner calls the same steps by hand.

pub mod backlog;

pub(in crate::storage) mod checkpointer;

pub mod expirer;

pub mod flusher;

pub(in crate::storage) mod bell;

pub use backlog::{Backlog, CheckpointOptions};
pub use bell::Bell;
