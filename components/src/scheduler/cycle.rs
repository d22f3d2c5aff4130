//! The thinking half of a scheduler: takes one pod after another from the core and decides about it.
//!
//! Invariant: the core is locked to take a pod and to put the result in, never while nodes are looked at.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::core::{Core, Decision, Try};
use super::framework::Profile;
use super::{Algorithm, Snapshot};

/// See the module. There is one for a core.
pub struct Cycle {
    profile: Arc<Profile>,
    algorithm: Algorithm,
    snapshot: Snapshot,
}

impl Cycle {
    /// A cycle that has not looked at anything yet.
    pub fn new(profile: Arc<Profile>, algorithm: Algorithm) -> Self {
        Cycle { profile, algorithm, snapshot: Snapshot::default() }
    }

    /// The next decision; `None` if no pod is worth a try now.
    pub fn next(&mut self, core: &Mutex<Core>, now: impl Fn() -> Instant) -> Option<Decision> {
        loop {
            let begun = core.lock().begin(&mut self.snapshot, now());
            let queued = match begun? {
                Try::Schedule(queued) => queued,
                Try::Skip(pod) => return Some(Decision::Skip(pod)),
            };
            let found = self.algorithm.schedule(&self.profile, &self.snapshot, &queued.pod);
            let decision = core.lock().end(queued, found, now());
            if decision.is_some() {
                return decision;
            }
        }
    }
}
