//! The kinds of the API group `batch`, a file each, and what a Job is beside its strategy: its selector, its spec, the
//! changes of it, its status, lists of indexes, cron schedules.

use super::strategy::Strategy;

mod cron_job;
mod indexes;
mod job;
mod job_selector;
mod job_spec;
mod job_status;
mod job_update;
mod schedule;
mod shown;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "CronJob" => &cron_job::CronJobStrategy,
        "Job" => &job::JobStrategy,
        _ => return None,
    })
}
