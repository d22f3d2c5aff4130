//! `lw controller-manager`: the controllers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use listwatch_components::client::Client;
use listwatch_components::clock;
use listwatch_components::controller_manager::{self, Options, node_lifecycle, pod_gc};

use super::election::ElectionArgs;
use super::program::{self, ProgramArgs, duration, period};
use crate::connection::ConnectionArgs;

/// Makes what is equal to what is wanted: deployments, replica sets, nodes, garbage, namespaces
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  lw controller-manager --kubeconfig ./data/kubeconfig")]
pub(crate) struct ControllerManagerArgs {
    /// A node that was not heard of for so long is unreachable
    #[arg(long, env = "LW_NODE_MONITOR_GRACE_PERIOD", value_parser = duration, default_value = "50s",
        value_name = "DURATION")]
    node_monitor_grace_period: Duration,
    /// So long for a node that was never heard of
    #[arg(long, env = "LW_NODE_STARTUP_GRACE_PERIOD", value_parser = duration, default_value = "60s",
        value_name = "DURATION")]
    node_startup_grace_period: Duration,
    /// A node that is not ready is looked at again so often, whatever the watches say
    #[arg(long, env = "LW_NODE_MONITOR_PERIOD", value_parser = period, default_value = "5s",
        value_name = "DURATION")]
    node_monitor_period: Duration,
    /// So many nodes a second of a healthy zone are marked for the eviction of their pods
    #[arg(long, env = "LW_NODE_EVICTION_RATE", value_parser = rate, default_value = "0.1", value_name = "PER-SECOND")]
    node_eviction_rate: f64,
    /// The same for a large zone of which too many nodes are lost
    #[arg(long, env = "LW_SECONDARY_NODE_EVICTION_RATE", value_parser = rate, default_value = "0.01",
        value_name = "PER-SECOND")]
    secondary_node_eviction_rate: f64,
    /// From this share of lost nodes on (and more than two) they are too many
    #[arg(long, env = "LW_UNHEALTHY_ZONE_THRESHOLD", value_parser = share, default_value = "0.55",
        value_name = "SHARE")]
    unhealthy_zone_threshold: f64,
    /// A zone with more nodes than this is large; in a smaller one with too many lost nodes nobody is evicted
    #[arg(long, env = "LW_LARGE_CLUSTER_SIZE_THRESHOLD", default_value_t = 50, value_name = "NUMBER")]
    large_cluster_size_threshold: usize,
    /// A node must be gone for so long before its pods are removed
    #[arg(long, env = "LW_POD_GC_QUARANTINE", value_parser = duration, default_value = "40s", value_name = "DURATION")]
    pod_gc_quarantine: Duration,
    /// More pods than this that have ended are not kept; 0 = all are
    #[arg(long, env = "LW_TERMINATED_POD_GC_THRESHOLD", default_value_t = 12_500, value_name = "NUMBER")]
    terminated_pod_gc_threshold: usize,
    /// They are counted at most so often
    #[arg(long, env = "LW_POD_GC_PERIOD", value_parser = period, default_value = "20s", value_name = "DURATION")]
    pod_gc_period: Duration,
    /// Authority by which pods know the server, for the ConfigMap kube-root-ca.crt of every namespace [default: by which
    /// this program knows it]
    #[arg(long, env = "LW_ROOT_CA_FILE", value_name = "FILE")]
    root_ca_file: Option<PathBuf>,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the controllers until they are told to stop.
pub(crate) fn run(args: ControllerManagerArgs) -> anyhow::Result<ExitCode> {
    let ready = args.program.start("controller-manager")?;
    let config = args.connection.component("controller-manager")?;
    let options = Options {
        nodes: node_lifecycle::Timing {
            grace: args.node_monitor_grace_period,
            startup_grace: args.node_startup_grace_period,
            period: args.node_monitor_period,
            rates: node_lifecycle::Rates {
                healthy: args.node_eviction_rate,
                disrupted: args.secondary_node_eviction_rate,
                unhealthy_share: args.unhealthy_zone_threshold,
                large: args.large_cluster_size_threshold,
            },
        },
        pods: pod_gc::Timing {
            quarantine: args.pod_gc_quarantine,
            finished_max: args.terminated_pod_gc_threshold,
            period: args.pod_gc_period,
        },
        root_ca: match args.root_ca_file {
            Some(path) => {
                Some(std::fs::read_to_string(&path).with_context(|| format!("--root-ca-file {}", path.display()))?)
            }
            None => config.certificate_authority.as_ref().map(|pem| String::from_utf8_lossy(pem).into_owned()),
        },
        election: args.election.config("kube-controller-manager")?,
    };
    program::component(async |shutdown| {
        let client = Client::new(&config)?;
        Ok(controller_manager::run(options, client, clock::system(), shutdown, || ready.ready(&[])).await?)
    })
}

/// More than this a second is as good as no bound: no cluster has so many nodes.
const RATE_MAX: f64 = 1e6;
/// Less than this a second (once in thirty years) is none: 0 says so.
const RATE_MIN: f64 = 1e-9;

/// A rate a second: 0 for never, or what a clock can follow.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "must be a number, as 0.1".to_owned())?;
    if rate == 0.0 || (RATE_MIN..=RATE_MAX).contains(&rate) {
        return Ok(rate);
    }
    Err("must be 0 (never), or from 0.000000001 to 1000000 a second".to_owned())
}

/// A share: a number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "must be a number, as 0.55".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("must be from 0 to 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_checked() {
        assert_eq!(rate("0.1"), Ok(0.1));
        assert!(rate("-1").is_err() && rate("NaN").is_err() && rate("inf").is_err() && rate("x").is_err());
        assert!(rate("1e308").is_err() && rate("1e-300").is_err());
        assert_eq!(rate("0"), Ok(0.0));
        assert_eq!(share("1"), Ok(1.0));
        assert!(share("1.1").is_err() && share("-0.1").is_err() && share("NaN").is_err());
    }
}
