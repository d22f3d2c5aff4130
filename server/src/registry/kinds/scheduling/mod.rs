//! The kinds of the API group `scheduling.k8s.io`, a file each.

use super::strategy::Strategy;

mod priority_class;

pub(in crate::registry) use priority_class::{SYSTEM_CLASSES, system_object};

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "PriorityClass" => &priority_class::PriorityClassStrategy,
        _ => return None,
    })
}
