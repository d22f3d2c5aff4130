//! The flags of a program of which one instance works at a time.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use listwatch_components::runtime::ElectionConfig;

use super::program::period;
use crate::usage;

/// Who works, when several could.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionArgs {
    /// Work only while holding the Lease; =false works without asking
    #[arg(long, env = "LW_LEADER_ELECT", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    leader_elect: bool,
    /// Name to hold the Lease by [default: one of its own for each start]
    #[arg(long, env = "LW_LEADER_ELECT_IDENTITY", value_name = "NAME")]
    leader_elect_identity: Option<String>,
    /// Lock file of this instance's slot: while it is held, a Lease in the own name is taken over at once
    #[arg(long, env = "LW_SLOT_LOCK", value_name = "FILE", requires = "leader_elect_identity")]
    slot_lock: Option<PathBuf>,
    /// A Lease that was not renewed for so long is free
    #[arg(long, env = "LW_LEADER_ELECT_LEASE_DURATION", value_parser = period, default_value = "15s",
        value_name = "DURATION")]
    leader_elect_lease_duration: Duration,
    /// A leader that could not renew for so long gives up
    #[arg(long, env = "LW_LEADER_ELECT_RENEW_DEADLINE", value_parser = period, default_value = "10s",
        value_name = "DURATION")]
    leader_elect_renew_deadline: Duration,
    /// Pause between two tries
    #[arg(long, env = "LW_LEADER_ELECT_RETRY_PERIOD", value_parser = period, default_value = "2s",
        value_name = "DURATION")]
    leader_elect_retry_period: Duration,
    /// Namespace of the Lease
    #[arg(long, env = "LW_LEADER_ELECT_RESOURCE_NAMESPACE", default_value = "kube-system", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
}

impl ElectionArgs {
    /// The election for this Lease; `None` if none is wanted.
    ///
    /// # Errors
    /// Wrong usage, if the times contradict each other.
    pub(crate) fn config(self, lease: &str) -> anyhow::Result<Option<ElectionConfig>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let identity = self.leader_elect_identity.unwrap_or_else(own_identity);
        let config = ElectionConfig {
            namespace: self.leader_elect_resource_namespace,
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            slot_lock: self.slot_lock,
            ..ElectionConfig::new(lease, identity)
        };
        config.check().map_err(|error| usage::refuse(error.to_string()))?;
        Ok(Some(config))
    }
}

/// Another one for each start: host, process and moment.
fn own_identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}_{}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
}
