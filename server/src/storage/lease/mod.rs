//! Leases: who lives how long, and which keys go when one ends.
//!
//! The [`Lessor`] is a plain data structure: it reads no clock, writes no log and deletes no key. The engine hands it
//! the [`Moment`], logs the records it names, and deletes the keys of the leases it names as due.
//!
//! Invariants: a lease lives at least as long as was acknowledged, also over a restart; none ends in the first
//! min(TTL, 5 s) after a start or a stall of the process; the monotonic clock alone decides when one is due.

mod expiry;
mod lessor;

pub use expiry::{GRACE, STALL, TICK_MAX};
pub use lessor::{KeepAlive, LeaseInfo, Lessor, Moment, TTL_SECS_MAX, TTL_SECS_MIN};
