//! The Watch service: any number of watches on one stream, all driven by the task that writes the stream.
//!
//! There is no queue between the store and the wire. The stream is polled when the connection can take more, and only
//! then asks its watches; one that a slow reader leaves waiting falls behind in the store, which costs nobody else, and
//! catches up from history later. Invariants: one answer holds events of one watch; a revision is never split, unless
//! the client allowed it; progress is told by the task that delivers, after all it had taken from the store.

mod events;
mod service;
mod session;
mod watching;

pub(super) use service::WatchService;
