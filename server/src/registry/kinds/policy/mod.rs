//! The kinds of the API group `policy`, a file each.

use super::strategy::Strategy;

mod disruption;
mod pod_disruption_budget;

pub(in crate::registry) use disruption::{covers, goes_free, needs_no_budget, spend};

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "PodDisruptionBudget" => &pod_disruption_budget::PodDisruptionBudgetStrategy,
        _ => return None,
    })
}
