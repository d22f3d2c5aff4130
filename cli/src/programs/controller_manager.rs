//! `lw controller-manager`: the controllers.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_components::client::Client;
use listwatch_components::clock;
use listwatch_components::controller_manager::{self, Options, node_lifecycle, pod_gc};

use super::election::ElectionArgs;
use super::program::{self, ProgramArgs, duration};
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
    /// A node must be gone for so long before its pods are removed
    #[arg(long, env = "LW_POD_GC_QUARANTINE", value_parser = duration, default_value = "40s", value_name = "DURATION")]
    pod_gc_quarantine: Duration,
    /// More pods than this that have ended are not kept; 0 = all are
    #[arg(long, env = "LW_TERMINATED_POD_GC_THRESHOLD", default_value_t = 12_500, value_name = "NUMBER")]
    terminated_pod_gc_threshold: usize,
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
        },
        pods: pod_gc::Timing { quarantine: args.pod_gc_quarantine, finished_max: args.terminated_pod_gc_threshold },
        election: args.election.config("kube-controller-manager"),
    };
    program::component(async |shutdown| {
        let client = Client::new(&config)?;
        Ok(controller_manager::run(options, client, clock::system(), shutdown, || ready.ready(&[])).await?)
    })
}
