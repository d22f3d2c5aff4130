//! The processes of a cluster, each a command of its own.
//!
//! * [`program`]: what all of them share: logging, the ready line, the stop signals, the pipe of the supervisor

pub(crate) mod program;

pub(crate) use program::CLUSTER_PIPE_FD;

use std::process::ExitCode;

use clap::Subcommand;

/// One process of a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

/// Runs the process to its end.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {}
}
