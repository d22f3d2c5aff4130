//! The processes of a cluster, each a command of its own.
//!
//! * [`program`]: what all of them share: logging, the ready line, the stop signals, the pipe of the supervisor
//! * [`server`]: the store and its APIs
//! * [`controller_manager`], [`scheduler`]: with [`election`], the flags of a program of which one instance works
//! * [`kubelet`]: runs the pods of one node
//! * [`shim`]: what a kubelet starts for each container, and for each command beside one

mod controller_manager;
mod election;
pub(crate) mod kubelet;
pub(crate) mod program;
mod scheduler;
mod server;
mod shim;

pub(crate) use program::{CLUSTER_PIPE_FD, DURATION_MAX};

use std::process::ExitCode;

use clap::Subcommand;

/// One process of a cluster.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process reads its arguments once")]
pub(crate) enum Command {
    Server(server::ServerArgs),
    ControllerManager(controller_manager::ControllerManagerArgs),
    Scheduler(scheduler::SchedulerArgs),
    Kubelet(Box<kubelet::KubeletArgs>),
    /// Run one container of one pod
    #[command(hide = true)]
    Shim(shim::ShimArgs),
    /// Run one command beside a container
    #[command(hide = true)]
    Escort(shim::EscortArgs),
    /// Run a program that is built in
    #[command(hide = true)]
    Builtin(shim::BuiltinArgs),
}

/// Runs the process to its end.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Server(args) => server::run(args),
        Command::ControllerManager(args) => controller_manager::run(args),
        Command::Scheduler(args) => scheduler::run(args),
        Command::Kubelet(args) => kubelet::run(*args),
        Command::Shim(args) => Ok(shim::run(&args)),
        Command::Escort(args) => Ok(shim::run_escort(&args)),
        Command::Builtin(args) => shim::run_builtin(&args),
    }
}
