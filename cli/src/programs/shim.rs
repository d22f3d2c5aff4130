//! `lw shim`, `lw escort` and `lw builtin`: what a kubelet starts. Hidden, because no person needs to type them.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use listwatch_components::kubelet::runtime::process::{
    builtin::{self, Builtin},
    shim,
};

/// Runs one container of one pod and outlives the kubelet.
#[derive(Debug, Args)]
pub(crate) struct ShimArgs {
    /// Directory of the attempt, with its spec.json
    attempt: PathBuf,
}

/// Runs one command beside a container, and all that it starts.
#[derive(Debug, Args)]
pub(crate) struct EscortArgs {
    /// Number of the inherited connection to the kubelet
    connection: i32,
}

/// Runs a program that is built in.
#[derive(Debug, Args)]
pub(crate) struct BuiltinArgs {
    /// pause, http VERSION, sleep SECONDS, crash [CODE [SECONDS]]
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs the shim to the end of its container. No thread may have been started before.
pub(crate) fn run(args: &ShimArgs) -> ExitCode {
    shim::main(&args.attempt)
}

/// Runs a command to its end. No thread may have been started before.
pub(crate) fn run_escort(args: &EscortArgs) -> ExitCode {
    shim::escort(args.connection)
}

/// Runs a built-in to its end.
pub(crate) fn run_builtin(args: &BuiltinArgs) -> anyhow::Result<ExitCode> {
    Ok(builtin::run(&Builtin::parse(&args.words)?))
}
