//! The kinds of the API group `autoscaling`, a file each, and what an autoscaler is beside its strategy: its spec, how its
//! metrics are printed, and how the older version tells what it has no fields for.

use super::strategy::Strategy;

mod horizontal_pod_autoscaler;
mod horizontal_pod_autoscaler_v1;
mod hpa_annotations;
mod hpa_print;
mod hpa_spec;

/// The rules of a kind of this group, in a version.
pub(super) fn strategy(version: &str, kind: &str) -> Option<&'static dyn Strategy> {
    Some(match (version, kind) {
        ("v1", "HorizontalPodAutoscaler") => &horizontal_pod_autoscaler_v1::HorizontalPodAutoscalerV1Strategy,
        (_, "HorizontalPodAutoscaler") => &horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy,
        _ => return None,
    })
}
