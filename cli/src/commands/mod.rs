//! The everyday commands on objects, in kubectl's words.

use std::process::ExitCode;

use clap::Subcommand;

/// A command on objects.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {}
}
