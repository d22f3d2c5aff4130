//! Multi-version concurrency: which revisions each key has, and what a read or a transaction makes of them.
//!
//! Invariants: the index holds only what is durable and published; a read at a revision gives the same answer for as
//! long as the revision is above the floor; a transaction happens at one revision or not at all.

pub mod key_index;

pub mod index;

pub mod store;

pub mod compaction;

pub mod hash;

pub mod read;

pub mod write;

pub use index::Index;
pub use key_index::{KeyEntry, Version};
pub use read::Reader;
pub use store::Store;
pub use write::Batch;
