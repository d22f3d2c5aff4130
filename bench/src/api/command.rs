//! The `api` command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::loads::{self, Load};
use super::scenes::Scene;
use super::server::{ApiServer, Peer};
use crate::report::{Row, Table};
use crate::servers::existing;
use crate::stats::Measured;

/// The Kubernetes API of `lw server`, beside a kube-apiserver that runs already.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApiArgs {
    /// Our binary
    #[arg(long, default_value = "target/release/lw")]
    lw: PathBuf,
    /// The other server, as NAME,HOST:PORT,CA-FILE,TOKEN,PID[+PID]; the processes are the API server's and its store's.
    /// Without one ours is measured alone
    #[arg(long)]
    peer: Option<Peer>,
    /// What to measure in a closed loop
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["create", "get", "page", "list"])]
    loads: Vec<Load>,
    /// What to play after that
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["hammer", "conflicts", "stream", "watchers"])]
    scenes: Vec<Scene>,
    /// Connections, one row each
    #[arg(long, value_delimiter = ',', default_values = ["1", "16", "64"])]
    connections: Vec<usize>,
    /// Turns of each server per row; the median counts
    #[arg(long, default_value_t = 3)]
    slices: usize,
    /// Seconds of one turn
    #[arg(long, default_value_t = 3.0)]
    slice: f64,
    /// Where our server keeps its data
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

impl ApiArgs {
    /// Runs everything and prints the tables; without a peer, a line for each turn.
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let mut servers = vec![ApiServer::ours(&existing(&self.lw)?, &self.dir).await?];
        if let Some(peer) = &self.peer {
            servers.push(ApiServer::peer(peer)?);
        }
        for server in &servers {
            println!("{}: {} MiB before anything is stored", server.name, server.resident()? >> 20);
            loads::fill(server).await?;
            println!("{}: {} MiB with {} objects of 1 kB", server.name, server.resident()? >> 20, loads::OBJECTS);
        }
        println!();
        for load in &self.loads {
            match servers.as_slice() {
                [ours, peer] => self.compare(*load, ours, peer)?,
                servers => self.tell(*load, &servers[0])?,
            }
        }
        let mut is_whole = true;
        for scene in &self.scenes {
            for server in &servers {
                let told = scene.play(server).await;
                is_whole &= told.is_ok();
                println!("{scene:?}, {}: {}", server.name, told.unwrap_or_else(|error| format!("failed: {error:#}")));
            }
        }
        // One that failed is no reason to keep back what the others have told.
        anyhow::ensure!(is_whole, "a scene failed");
        Ok(())
    }

    /// A line for each turn.
    fn tell(&self, load: Load, server: &ApiServer) -> anyhow::Result<()> {
        println!("{}", load.title());
        for connections in &self.connections {
            for _ in 0..self.slices {
                println!("  {connections}: {}", self.turn(server, load, *connections)?);
            }
        }
        Ok(())
    }

    fn compare(&self, load: Load, ours: &ApiServer, peer: &ApiServer) -> anyhow::Result<()> {
        let mut table = Table::new(load.title(), &ours.name, &peer.name);
        for connections in &self.connections {
            table.push(self.row(load, *connections, [ours, peer])?);
        }
        println!("{table}");
        Ok(())
    }

    /// Both in turns; one turn each before that does not count.
    fn row(&self, load: Load, connections: usize, servers: [&ApiServer; 2]) -> anyhow::Result<Row> {
        let label = format!("{connections} connection{}", if connections == 1 { "" } else { "s" });
        let mut row = Row { label, ours: Vec::new(), etcd: Vec::new() };
        for turn in 0..=self.slices {
            let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
            for at in order {
                let measured = self.turn(servers[at], load, connections)?;
                if turn > 0 {
                    if at == 0 { &mut row.ours } else { &mut row.etcd }.push(measured);
                }
            }
        }
        Ok(row)
    }

    fn turn(&self, server: &ApiServer, load: Load, connections: usize) -> anyhow::Result<Measured> {
        let time = Duration::from_secs_f64(self.slice);
        tokio::task::block_in_place(|| loads::run(server, load, connections, time))
    }
}
