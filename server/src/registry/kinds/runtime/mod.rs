//! The kinds of the API group `node.k8s.io`, a file each.

use super::strategy::Strategy;

mod runtime_class;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "RuntimeClass" => &runtime_class::RuntimeClassStrategy,
        _ => return None,
    })
}
