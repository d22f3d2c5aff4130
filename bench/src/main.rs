//! `listwatch-bench`: load on any etcd v3 server, and the comparison of ours with a real etcd.
//!
//! Store loads go over plain etcd v3 gRPC, so one client drives both servers alike. Client and server usually share a
//! machine, so besides rates and latencies the server's own CPU time per operation is told.
//!
//! * [`put`], [`range`], [`watch`]: one load each, on a server that runs
//! * [`compare`]: starts both servers and gives each load to them in turns
//! * [`api`]: the Kubernetes API beside a kube-apiserver
//! * [`cluster`]: whole clusters of ours: cold starts, many Deployments, recovery
//! * [`load`]: many clients in a closed loop; [`stats`]: what they measured; [`cpu`]: what the server spent
//! * [`servers`]: starting and stopping; [`report`]: tables

mod cpu;
mod load;
mod stats;

mod put;
mod range;
mod watch;

mod api;
mod cluster;
mod compare;
mod report;
mod servers;

use clap::{Parser, Subcommand};

/// Load on an etcd v3 server.
#[derive(Debug, Parser)]
#[command(name = "listwatch-bench", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes of one key each, durable when answered
    Put(put::PutArgs),
    /// Reads: points, pages or whole lists
    Range(range::RangeArgs),
    /// Watchers of one prefix while somebody writes
    Watch(watch::WatchArgs),
    /// Our server and a real etcd in turns, in one run
    Compare(compare::CompareArgs),
    /// Our Kubernetes API and a real kube-apiserver in turns, in one run
    Api(api::ApiArgs),
    /// Whole clusters of ours: a cold start, a Deployment, the memory of each process
    Cluster(cluster::ClusterArgs),
    /// Many Deployments at once on a cluster of ours
    Deployments(cluster::DeploymentsArgs),
    /// From a kill of each component to work done again
    Recovery(cluster::RecoveryArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Put(args) => println!("{}", args.run().await?),
        Command::Range(args) => println!("{}", args.run().await?),
        Command::Watch(args) => println!("{}", args.run().await?),
        Command::Compare(args) => args.run().await?,
        Command::Api(args) => args.run().await?,
        Command::Cluster(args) => args.run().await?,
        Command::Deployments(args) => args.run().await?,
        Command::Recovery(args) => args.run().await?,
    }
    Ok(())
}
