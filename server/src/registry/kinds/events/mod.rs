//! The kinds of the API group `events.k8s.io`, a file each.

use super::strategy::Strategy;

mod event;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "Event" => &event::EventStrategy,
        _ => return None,
    })
}
