//! Refused pods, found by who refused them.
//!
//! Invariant: an event is shown only to pods whose refusal it could cure by its kind, so that ten thousand pods waiting for
//! one thing cost nothing when another happens.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use listwatch_proto::resource::ObjectKey;

use super::Queued;
use crate::scheduler::framework::{EventKinds, Profile};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Parked {
    by_time: BTreeSet<(Instant, ObjectKey)>,
    by_refuser: HashMap<&'static str, BTreeSet<ObjectKey>>,
}

impl Parked {
    pub(super) fn insert(&mut self, queued: &Queued, until: Instant) {
        self.by_time.insert((until, queued.pod.key.clone()));
        for name in &queued.refused_by {
            self.by_refuser.entry(name).or_default().insert(queued.pod.key.clone());
        }
    }

    pub(super) fn remove(&mut self, queued: &Queued, until: Instant) {
        self.by_time.remove(&(until, queued.pod.key.clone()));
        for name in &queued.refused_by {
            if let Some(keys) = self.by_refuser.get_mut(name) {
                keys.remove(&queued.pod.key);
                if keys.is_empty() {
                    self.by_refuser.remove(name);
                }
            }
        }
    }

    /// Who has been parked the longest, and until when.
    pub(super) fn first(&self) -> Option<&(Instant, ObjectKey)> {
        self.by_time.first()
    }

    /// The pods whose refusal an event of these kinds could cure.
    pub(super) fn concerned(&self, kinds: EventKinds, profile: &Profile) -> BTreeSet<&ObjectKey> {
        let refusers = self.by_refuser.iter().filter(|(name, _)| profile.cures(name).intersects(kinds));
        refusers.flat_map(|(_, keys)| keys).collect()
    }
}
