//! Our server and a real etcd, side by side: both run the whole time, each load goes to them in turns.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::load::LoadArgs;
use crate::put::PutArgs;
use crate::range::RangeArgs;
use crate::report::{Row, Table};
use crate::servers::{Server, existing};
use crate::stats::Measured;
use crate::watch::WatchArgs;

/// The `compare` command.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// Our binary
    #[arg(long, default_value = "target/release/lw")]
    lw: PathBuf,
    /// etcd's binary
    #[arg(long, env = "REAL_ETCD")]
    etcd: PathBuf,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["put", "point", "page", "fanout", "latency"])]
    loads: Vec<Load>,
    /// Clients of the `put` load, one row each
    #[arg(long, value_delimiter = ',', default_values = ["1", "16", "100", "1000"])]
    clients: Vec<usize>,
    /// Turns of each server per row; the median counts
    #[arg(long, default_value_t = 5)]
    slices: usize,
    /// Seconds of one turn
    #[arg(long, default_value_t = 3.0)]
    slice: f64,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    value_size: usize,
    /// Where both keep their data; the same disk for both
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
    /// Write the tables to this file as well
    #[arg(long)]
    markdown: Option<PathBuf>,
}

/// A load of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Durable writes
    Put,
    /// Reads of one key, 100 clients
    Point,
    /// Pages of 100 keys of 10,000, 16 clients
    Page,
    /// 100 watchers, writes as fast as 16 clients can
    Fanout,
    /// 100 watchers, 200 writes per second: how late events are
    Latency,
}

impl CompareArgs {
    /// Runs everything and prints the tables.
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let ours = Server::ours(&existing(&self.lw)?, &self.dir).await?;
        let etcd = Server::etcd(&existing(&self.etcd)?, &self.dir).await?;
        let mut tables = Vec::new();
        for load in &self.loads {
            let table = self.load(*load, &ours, &etcd).await?;
            println!("{table}");
            tables.push(table.to_string());
        }
        if let Some(path) = &self.markdown {
            std::fs::write(path, tables.join("\n"))?;
        }
        Ok(())
    }

    async fn load(&self, load: Load, ours: &Server, etcd: &Server) -> anyhow::Result<Table> {
        let mut table = Table::new(load.title(), &ours.name, &etcd.name);
        match load {
            Load::Put => {
                for clients in &self.clients {
                    let label = format!("{clients} client{}", if *clients == 1 { "" } else { "s" });
                    let run = |server| self.put(server, *clients);
                    table.push(self.turns(label, ours, etcd, run).await?);
                }
            }
            Load::Point | Load::Page => {
                let (label, clients, limit) =
                    if load == Load::Point { ("100 clients", 100, 1) } else { ("16 clients", 16, 100) };
                for server in [ours, etcd] {
                    let args = self.range(server, clients, limit);
                    args.fill(crate::load::connect(&server.endpoint).await?).await?;
                }
                let run = |server| async move {
                    let args = self.range(server, clients, limit);
                    args.measure(&args.load.connect().await?).await
                };
                table.push(self.turns(label.to_owned(), ours, etcd, run).await?);
            }
            Load::Fanout | Load::Latency => {
                let (label, clients, rate) = if load == Load::Fanout {
                    ("100 watchers, 16 writers", 16, 0.0)
                } else {
                    ("100 watchers, 200 writes/s", 4, 200.0)
                };
                let run = |server| self.watch(server, clients, rate);
                table.push(self.turns(label.to_owned(), ours, etcd, run).await?);
            }
        }
        Ok(table)
    }

    /// Gives a load to both in turns; one turn each before that does not count.
    async fn turns<'a, F>(
        &self,
        label: String,
        ours: &'a Server,
        etcd: &'a Server,
        run: impl Fn(&'a Server) -> F,
    ) -> anyhow::Result<Row>
    where
        F: Future<Output = anyhow::Result<Measured>>,
    {
        let mut row = Row { label, ours: Vec::new(), etcd: Vec::new() };
        for turn in 0..=self.slices {
            let (first, second) = if turn % 2 == 0 { (ours, etcd) } else { (etcd, ours) };
            let (one, two) = (run(first).await?, run(second).await?);
            let (mine, theirs) = if turn % 2 == 0 { (one, two) } else { (two, one) };
            if turn > 0 {
                row.ours.push(mine);
                row.etcd.push(theirs);
            }
        }
        eprintln!("{row}");
        Ok(row)
    }

    fn args(&self, server: &Server, clients: usize) -> LoadArgs {
        LoadArgs {
            endpoints: vec![server.endpoint.clone()],
            clients,
            connections: None,
            duration: self.slice,
            total: None,
            server_pid: Some(server.pid()),
        }
    }

    async fn put(&self, server: &Server, clients: usize) -> anyhow::Result<Measured> {
        let args = PutArgs {
            load: self.args(server, clients),
            key_size: 24,
            value_size: self.value_size,
            key_space: 100_000,
            prefix: "/bench/put/".to_owned(),
        };
        args.run().await
    }

    fn range(&self, server: &Server, clients: usize, limit: i64) -> RangeArgs {
        RangeArgs {
            load: self.args(server, clients),
            keys: 10_000,
            key_size: 24,
            value_size: self.value_size,
            limit,
            count_only: false,
            no_fill: true,
            prefix: "/bench/range/".to_owned(),
        }
    }

    async fn watch(&self, server: &Server, clients: usize, rate: f64) -> anyhow::Result<Measured> {
        let args = WatchArgs {
            load: LoadArgs { connections: Some(100), ..self.args(server, clients) },
            watchers: 100,
            rate,
            value_size: self.value_size,
            prefix: "/bench/watch/".to_owned(),
        };
        args.run().await
    }
}

impl Load {
    fn title(self) -> &'static str {
        match self {
            Load::Put => "Durable puts",
            Load::Point => "Reads of one key",
            Load::Page => "Pages of 100 keys out of 10,000",
            Load::Fanout => "Events delivered, writers at full speed",
            Load::Latency => "Events delivered, writers at a fixed pace; latency counts from the answer to the write",
        }
    }
}
