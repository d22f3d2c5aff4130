//! The watch cache of a kind: every object once, encoded, with the facts that selectors look at; and the dispatch of its
//! changes to those who are interested.
//!
//! The cache is one watch of the store, drained by whoever comes first: a task that the store wakes, or a reader that
//! wants the latest state. So a list after a write always shows the write, without waiting for a task.
//!
//! Invariants:
//! * what the cache holds is the state of the kind at its revision, which never goes back while it is whole;
//! * a watcher in step gets each revision once, in order; one that is too slow is let go and reads from the store;
//! * whatever the cache cannot answer is read from the store: it saves work, it decides nothing.

mod dispatch;
mod feed;
mod queue;
mod state;

pub(super) use feed::Caches;
pub(super) use queue::{Delivery, Seat};
