//! Many clients in a closed loop: each sends its next request when the last was answered.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::cpu;
use crate::stats::Measured;

/// Where a load goes and how long it lasts.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// The server, as `http://HOST:PORT`; several take turns
    #[arg(long, env = "BENCH_ENDPOINTS", value_delimiter = ',', default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoints: Vec<String>,
    /// Requests under way at the same time
    #[arg(long, default_value_t = 16)]
    pub(crate) clients: usize,
    /// Connections that the clients share; as many as clients, at most 100, unless given
    #[arg(long)]
    pub(crate) connections: Option<usize>,
    /// Seconds the load lasts
    #[arg(long, default_value_t = 5.0, conflicts_with = "total")]
    pub(crate) duration: f64,
    /// Operations to do, instead of a duration
    #[arg(long)]
    pub(crate) total: Option<u64>,
    /// The server's process, for its CPU time and memory
    #[arg(long)]
    pub(crate) server_pid: Option<u32>,
}

/// Connections at most, unless asked for.
const CONNECTIONS_MAX: usize = 100;

impl LoadArgs {
    /// Opens the connections.
    pub(crate) async fn connect(&self) -> anyhow::Result<Vec<Channel>> {
        let wanted = self.connections.unwrap_or(self.clients.min(CONNECTIONS_MAX)).max(1);
        let mut channels = Vec::with_capacity(wanted);
        for at in 0..wanted {
            let endpoint = &self.endpoints[at % self.endpoints.len()];
            channels.push(connect(endpoint).await?);
        }
        Ok(channels)
    }

    fn limit(&self) -> Limit {
        match self.total {
            Some(total) => Limit::Total(total),
            None => Limit::Duration(Duration::from_secs_f64(self.duration)),
        }
    }
}

/// One connection.
pub(crate) async fn connect(endpoint: &str) -> anyhow::Result<Channel> {
    let channel = Endpoint::from_shared(endpoint.to_owned())?.tcp_nodelay(true).connect().await;
    channel.with_context(|| format!("connect to {endpoint}"))
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Total(u64),
    Duration(Duration),
}

/// What all clients of a load look at.
#[derive(Debug)]
struct Gate {
    limit: Limit,
    taken: AtomicU64,
    over: AtomicBool,
}

impl Gate {
    /// The number of the next operation, or `None` at the end.
    fn next(&self) -> Option<u64> {
        if self.over.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        match self.limit {
            Limit::Total(total) if number >= total => None,
            _ => Some(number),
        }
    }
}

/// Runs a load. `make` is called once per client with its number and connection; what it returns is called with each
/// operation's number, which is unique over all clients.
///
/// # Errors
/// The first operation that fails ends the load.
pub(crate) async fn run<C, F>(
    args: &LoadArgs,
    channels: &[Channel],
    mut make: impl FnMut(usize, Channel) -> C,
) -> anyhow::Result<Measured>
where
    C: FnMut(u64) -> F + Send + 'static,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let gate = Arc::new(Gate { limit: args.limit(), taken: AtomicU64::new(0), over: AtomicBool::new(false) });
    let before = args.server_pid.map(cpu::spent).transpose()?;
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        let mut operation = make(number, channels[number % channels.len()].clone());
        let gate = gate.clone();
        clients.spawn(async move {
            let mut latencies = Vec::new();
            while let Some(number) = gate.next() {
                let begin = Instant::now();
                operation(number).await?;
                latencies.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            anyhow::Ok(latencies)
        });
    }
    let timer = match gate.limit {
        Limit::Duration(duration) => Some(tokio::spawn({
            let gate = gate.clone();
            async move {
                tokio::time::sleep(duration).await;
                gate.over.store(true, Ordering::Relaxed);
            }
        })),
        Limit::Total(_) => None,
    };
    let mut measured = Measured::default();
    while let Some(done) = clients.join_next().await {
        measured.latencies_us.append(&mut done??);
    }
    measured.elapsed = start.elapsed();
    if let Some(timer) = timer {
        timer.abort();
    }
    finish(args.server_pid, before, &mut measured)?;
    Ok(measured)
}

/// Fills in what is known once all is done.
pub(crate) fn finish(pid: Option<u32>, before: Option<Duration>, measured: &mut Measured) -> anyhow::Result<()> {
    if let (Some(pid), Some(before)) = (pid, before) {
        measured.server_cpu = Some(cpu::spent(pid)?.saturating_sub(before));
        measured.server_bytes = Some(cpu::resident(pid)?);
    }
    measured.operations = measured.latencies_us.len() as u64;
    measured.latencies_us.sort_unstable();
    Ok(())
}
