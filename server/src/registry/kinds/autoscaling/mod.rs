//! The kinds of the API group `autoscaling`, a file each.

use super::strategy::Strategy;

mod horizontal_pod_autoscaler;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "HorizontalPodAutoscaler" => &horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy,
        _ => return None,
    })
}
