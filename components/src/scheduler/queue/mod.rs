//! The pods that wait for a node, and when each is worth another try.
//!
//! Four places: *active* (try now, higher priority first), *back-off* (try when the time has come, or, if the pod was
//! refused and not failed by an error, when there is nothing better to do), *parked* (refused; only an event that could cure
//! the refusal, or five minutes, brings it back), *gated* (not to be tried; no timer wakes it).

mod backoff;
mod flights;
mod parked;
mod queued;
mod waiting;

pub use backoff::Backoff;
pub use queued::Queued;
pub use waiting::Queue;
