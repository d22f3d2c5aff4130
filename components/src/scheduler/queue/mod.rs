//! The pods that wait for a node, and when each is worth another try.
//!
//! Three places: *active* (try now, higher priority first), *back-off* (try when the time has come, or when there is
//! nothing better to do), *parked* (refused; only an event that could cure the refusal, or five minutes, brings it back).
//! Gated pods are parked too, and no timer wakes them.

mod backoff;
mod waiting;

pub use backoff::Backoff;
pub use waiting::{Queue, Queued};
