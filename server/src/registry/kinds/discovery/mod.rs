//! The kinds of the API group `discovery.k8s.io`, a file each.

use super::strategy::Strategy;

mod endpoint_slice;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "EndpointSlice" => &endpoint_slice::EndpointSliceStrategy,
        _ => return None,
    })
}
