//! The kinds of the API group `coordination.k8s.io`, a file each.

use super::strategy::Strategy;

mod lease;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "Lease" => &lease::LeaseStrategy,
        _ => return None,
    })
}
