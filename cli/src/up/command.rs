//! The commands on a cluster as a whole, and their flags.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};

use super::{detach, orders, supervisor};
use crate::programs::kubelet::RuntimeName;

/// A command on the cluster as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster and stay in front of it until Ctrl-C
    ///
    /// Example: lw up --demo
    Up(UpArgs),
    /// Show the processes of a cluster
    ///
    /// Example: lw status
    Status(StatusArgs),
    /// Start a component that was stopped
    ///
    /// Example: lw start scheduler
    Start(ComponentArgs),
    /// Stop a component by SIGTERM and leave it stopped
    ///
    /// Example: lw stop kubelet-node01
    Stop(ComponentArgs),
    /// Kill a component by SIGKILL; the supervisor starts it again
    ///
    /// Example: lw kill server
    Kill(ComponentArgs),
    /// Stop a component and start it again
    ///
    /// Example: lw restart controller-manager
    Restart(ComponentArgs),
    /// Stop a cluster that runs; its data stays
    ///
    /// Example: lw down
    Down(NameArgs),
    /// Print the variables that point etcdctl and kubectl at a cluster
    ///
    /// Example: eval $(lw env)
    Env(NameArgs),
}

/// Flags of `lw up`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) cluster: NameArgs,
    /// How many nodes, each with a kubelet of its own: node01, node02, …
    #[arg(long, env = "LW_NODES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub(crate) nodes: u32,
    /// What runs the containers of the nodes
    #[arg(long, env = "LW_RUNTIME", value_enum, default_value_t = RuntimeName::Process)]
    pub(crate) runtime: RuntimeName,
    /// What each node offers, over cpu=4,memory=8Gi,pods=110
    #[arg(long, env = "LW_NODE_CAPACITY", value_name = "NAME=QUANTITY,…", value_delimiter = ',')]
    pub(crate) node_capacity: Vec<String>,
    /// How many schedulers; one leads, the others wait
    #[arg(long, env = "LW_SCHEDULERS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=9))]
    pub(crate) schedulers: u32,
    /// How many controller-managers; one leads, the others wait
    #[arg(long, env = "LW_CONTROLLER_MANAGERS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=9))]
    pub(crate) controller_managers: u32,
    /// Port of the etcd door; without this flag 2379 or the next free one. 0: any free port
    #[arg(long, env = "LW_CLIENT_PORT", value_name = "PORT")]
    pub(crate) client_port: Option<u16>,
    /// Port of the API; without this flag 6443 or the next free one. 0: any free port
    #[arg(long, env = "LW_SECURE_PORT", value_name = "PORT")]
    pub(crate) secure_port: Option<u16>,
    /// Apply the example Deployment and show each step of the chain as it happens
    #[arg(long, env = "LW_DEMO", conflicts_with = "detach")]
    pub(crate) demo: bool,
    /// Return when the cluster is ready, and leave it running
    #[arg(long, env = "LW_DETACH")]
    pub(crate) detach: bool,
    /// Print one JSON line with the addresses on standard output once ready
    #[arg(long, env = "LW_READY_JSON")]
    pub(crate) ready_json: bool,
    /// When a write of the store counts as done: on disk, soon on disk, or in memory
    #[arg(long, env = "LW_DURABILITY", default_value = "sync", value_parser = ["sync", "buffered", "memory"])]
    pub(crate) durability: String,
    /// What the processes log into DATA-DIR/logs
    #[arg(long = "log", env = "LW_LOG", value_parser = crate::programs::program::log_filter, default_value = "info",
        value_name = "FILTER")]
    pub(crate) log_filter: String,
}

/// Flags that name a cluster.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NameArgs {
    /// Name of the cluster; several live side by side
    #[arg(long, env = "LW_NAME", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Folder of the cluster's data, instead of $XDG_STATE_HOME/listwatch/NAME
    #[arg(long, env = "LW_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Flags of `lw status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) cluster: NameArgs,
    /// Form of the output
    #[arg(short, long, value_parser = ["json"])]
    pub(crate) output: Option<String>,
}

/// Flags of the orders to one component.
#[derive(Debug, Clone, Args)]
pub(crate) struct ComponentArgs {
    /// server, controller-manager, scheduler, kubelet-node01 (or node01), …
    pub(crate) component: String,
    #[command(flatten)]
    pub(crate) cluster: NameArgs,
}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    use crate::cluster::control::Request;
    match command {
        Command::Up(args) if args.detach => detach::up(&args),
        Command::Up(args) => supervisor::up(&args),
        Command::Status(args) => orders::status(&args),
        Command::Start(args) => orders::order(&args.cluster, Request::Start(args.component)),
        Command::Stop(args) => orders::order(&args.cluster, Request::Stop(args.component)),
        Command::Kill(args) => orders::order(&args.cluster, Request::Kill(args.component)),
        Command::Restart(args) => orders::order(&args.cluster, Request::Restart(args.component)),
        Command::Down(args) => orders::down(&args),
        Command::Env(args) => orders::env(&args),
    }
}
