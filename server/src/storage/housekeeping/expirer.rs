//! Ends leases whose time is over.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::bell::Bell;
use crate::storage::lease::TICK_MAX;

/// Leases ended by one request; each is a revision of its own if it has keys.
pub const LEASES_AT_ONCE: usize = 256;

/// What the thread asks its owner for.
pub trait Leases: Send + Sync {
    /// Ends due leases; answers how long until the next is due, `None` if there is none.
    fn end_due(&self) -> Option<std::time::Duration>;
}

/// A thread that wakes when the next lease is due, until the bell is stopped or its owner is gone.
pub fn spawn<L: Leases + 'static>(owner: Weak<L>, bell: Arc<Bell>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("lease-expirer".into()).spawn(move || {
        let mut next = None;
        while bell.wait(next) {
            let Some(owner) = owner.upgrade() else { return };
            // With leases there is a tick at least this often, or a stall could not be told from a quiet time.
            next = owner.end_due().map(|until| until.min(TICK_MAX));
        }
    })
}
