//! `lw scheduler`: gives each waiting pod a node.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_components::client::Client;
use listwatch_components::clock;
use listwatch_components::scheduler::{self, Backoff, DEFAULT_SCHEDULER, Options};

use super::election::ElectionArgs;
use super::program::{self, ProgramArgs, period};
use crate::connection::ConnectionArgs;
use crate::usage;

/// Gives each pod that waits for a node the best one
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  lw scheduler --kubeconfig ./data/kubeconfig")]
pub(crate) struct SchedulerArgs {
    /// Which pods are its own: those whose spec.schedulerName says so
    #[arg(long, env = "LW_SCHEDULER_NAME", default_value = DEFAULT_SCHEDULER, value_name = "NAME")]
    scheduler_name: String,
    /// How many nodes must fit before the search ends, in percent; 0 = fewer the more nodes there are
    #[arg(long, env = "LW_PERCENTAGE_OF_NODES_TO_SCORE", default_value_t = 0, value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=100))]
    percentage_of_nodes_to_score: u8,
    /// First wait of a pod that could not be scheduled
    #[arg(long, env = "LW_POD_INITIAL_BACKOFF", value_parser = period, default_value = "1s", value_name = "DURATION")]
    pod_initial_backoff: Duration,
    /// Longest wait of a pod that could not be scheduled
    #[arg(long, env = "LW_POD_MAX_BACKOFF", value_parser = period, default_value = "10s", value_name = "DURATION")]
    pod_max_backoff: Duration,
    /// Seed of the choice between equal nodes [default: another one for each start]
    #[arg(long, env = "LW_SEED", value_name = "NUMBER")]
    seed: Option<u64>,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the scheduler until it is told to stop.
pub(crate) fn run(args: SchedulerArgs) -> anyhow::Result<ExitCode> {
    let ready = args.program.start("scheduler")?;
    let config = args.connection.component("scheduler")?;
    if args.pod_max_backoff < args.pod_initial_backoff {
        // kube-scheduler's rule.
        return Err(usage::refuse("--pod-max-backoff: must not be shorter than --pod-initial-backoff"));
    }
    let options = Options {
        scheduler_name: args.scheduler_name,
        percentage_of_nodes_to_score: args.percentage_of_nodes_to_score,
        backoff: Backoff { initial: args.pod_initial_backoff, max: args.pod_max_backoff },
        seed: args.seed,
        election: args.election.config("kube-scheduler")?,
    };
    program::component(async |shutdown| {
        let client = Client::new(&config)?;
        Ok(scheduler::run(options, client, clock::system(), shutdown, || ready.ready(&[])).await?)
    })
}
