//! A pod in the queue, with its history.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use listwatch_proto::resource::ObjectKey;

use crate::scheduler::Pod;
use crate::scheduler::framework::{ClusterEvent, Hint, Profile};

/// A pod taken from the queue for a try, with its history.
#[derive(Debug, Clone)]
pub struct Queued {
    /// The pod as it is.
    pub pod: Arc<Pod>,
    /// Tries so far, this one included.
    pub attempts: u32,
    /// Refusals so far: they alone lengthen the back-off of a refused pod.
    pub(super) refusals: u32,
    /// Failures in a row that were no refusals: they alone lengthen the back-off after an error.
    pub(super) errors: u32,
    /// When it first came.
    pub(super) since: Instant,
    /// Who refused it last.
    pub(super) refused_by: BTreeSet<&'static str>,
    /// When it last failed.
    pub(super) failed_at: Instant,
}

/// Order among pods to be tried: higher priority, then who came first.
pub(super) type TryOrder = (Reverse<i32>, Instant, ObjectKey);

impl Queued {
    /// A pod that has just come.
    pub(super) fn new(pod: Arc<Pod>, now: Instant) -> Self {
        Queued { pod, attempts: 0, refusals: 0, errors: 0, since: now, refused_by: BTreeSet::new(), failed_at: now }
    }

    pub(super) fn try_order(&self) -> TryOrder {
        (Reverse(self.pod.priority), self.since, self.pod.key.clone())
    }

    /// Whether an event could cure its refusal.
    pub(super) fn is_cured_by(&self, event: &ClusterEvent, profile: &Profile) -> bool {
        matches!(event, ClusterEvent::Retry)
            || self.refused_by.iter().any(|name| {
                profile.cures(name).intersects(event.kinds())
                    && profile.refuser(name).is_none_or(|p| p.hint(&self.pod, event) == Hint::Queue)
            })
    }
}
