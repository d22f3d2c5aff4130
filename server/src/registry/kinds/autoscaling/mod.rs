//! The kinds of the API group `autoscaling`, a file each, and what an autoscaler is beside its strategy: its spec, and how
//! its metrics are printed.

use super::strategy::Strategy;

mod horizontal_pod_autoscaler;
mod hpa_print;
mod hpa_spec;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "HorizontalPodAutoscaler" => &horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy,
        _ => return None,
    })
}
