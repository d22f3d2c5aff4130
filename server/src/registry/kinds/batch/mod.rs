//! The kinds of the API group `batch`, a file each.

use super::strategy::Strategy;

mod cron_job;
mod job;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "CronJob" => &cron_job::CronJobStrategy,
        "Job" => &job::JobStrategy,
        _ => return None,
    })
}
