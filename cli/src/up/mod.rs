//! A whole cluster on one machine: its supervisor and the commands that talk to it.

use std::process::ExitCode;

use clap::Subcommand;

/// A command on the cluster as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {}
}
