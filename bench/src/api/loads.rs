//! Requests in a closed loop, one under way on each connection.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::server::ApiServer;
use super::wire::{Verb, Wire};
use crate::cpu;
use crate::stats::Measured;

/// Objects that gets, lists and pages are about: about as many as a cluster of a thousand nodes has pods.
pub(crate) const OBJECTS: u64 = 19_000;
/// Where they are.
pub(crate) const FILLED: &str = "/api/v1/namespaces/filled/configmaps";
/// Bytes of data of each object.
const OBJECT_BYTES: usize = 1000;
/// Connections that fill.
const FILLERS: u64 = 32;

/// A load of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Creates of a ConfigMap of 1 kB
    Create,
    /// Gets of one of them
    Get,
    /// Lists of all 19,000
    List,
    /// Pages of 100 of them
    Page,
}

impl Load {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Load::Create => "Create a ConfigMap of 1 kB",
            Load::Get => "Get a ConfigMap of 1 kB",
            Load::List => "List 19,000 ConfigMaps of 1 kB",
            Load::Page => "Pages of 100 out of 19,000 ConfigMaps of 1 kB",
        }
    }
}

/// A ConfigMap of about 1 kB.
pub(crate) fn config_map(name: &str, seed: u64) -> Bytes {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| (0..OBJECT_BYTES + 26).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect());
    let from = (seed % 26) as usize;
    let text = &text[from..from + OBJECT_BYTES];
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":"{text}"}}}}"#)
        .into()
}

/// Makes the namespaces and the objects that are read.
pub(crate) async fn fill(server: &ApiServer) -> anyhow::Result<()> {
    let mut connection = Connection::open(server).await?;
    for name in ["filled", "made", "scenes"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        connection.json(Method::POST, "/api/v1/namespaces", &namespace).await?;
    }
    let mut fillers = JoinSet::new();
    for filler in 0..FILLERS {
        let mut connection = Connection::open(server).await?;
        fillers.spawn(async move {
            for number in (filler..OBJECTS).step_by(FILLERS as usize) {
                let body = config_map(&format!("c{number:05}"), number);
                connection.good(Method::POST, FILLED, body).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = fillers.join_next().await {
        done??;
    }
    Ok(())
}

/// Runs a load for a while. One thread drives all connections: it is never what the server waits for, and what it
/// does not spend on waking others is left to the server.
pub(crate) fn run(server: &ApiServer, load: Load, connections: usize, time: Duration) -> anyhow::Result<Measured> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(drive(server, load, connections, time))
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(anyhow::anyhow!("the client's thread panicked")))
}

async fn drive(server: &ApiServer, load: Load, connections: usize, time: Duration) -> anyhow::Result<Measured> {
    // Names must not meet those of an earlier turn.
    let turn = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let number = Arc::new(AtomicU64::new(0));
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(Wire::open(server).await?);
    }
    let (before, start) = (Spent::of(server)?, Instant::now());
    let mut clients = JoinSet::new();
    for mut wire in open {
        let number = Arc::clone(&number);
        clients.spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < time {
                let begin = Instant::now();
                load.once(&mut wire, turn, number.fetch_add(1, Ordering::Relaxed)).await?;
                latencies.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            anyhow::Ok(latencies)
        });
    }
    measured(server, before, start, clients).await
}

impl Load {
    /// One operation of the load.
    async fn once(self, wire: &mut Wire, turn: u128, number: u64) -> anyhow::Result<()> {
        let (least, size) = match self {
            Load::Create => {
                let body = config_map(&format!("m{turn}-{number}"), number);
                let path = "/api/v1/namespaces/made/configmaps";
                (OBJECT_BYTES, wire.exchange(Verb::Post, path, &body, "ConfigMap").await?)
            }
            Load::Get => {
                let path = format!("{FILLED}/c{:05}", number * 7919 % OBJECTS);
                (OBJECT_BYTES, wire.exchange(Verb::Get, &path, &[], "ConfigMap").await?)
            }
            Load::List => {
                (OBJECT_BYTES * OBJECTS as usize, wire.exchange(Verb::Get, FILLED, &[], "ConfigMapList").await?)
            }
            Load::Page => {
                let path = format!("{FILLED}?limit=100");
                (OBJECT_BYTES * 100, wire.exchange(Verb::Get, &path, &[], "ConfigMapList").await?)
            }
        };
        anyhow::ensure!(size >= least as u64, "{self:?}: {size} bytes");
        Ok(())
    }
}

/// One operation after the other on each connection.
pub(crate) async fn closed_loop<F>(
    server: &ApiServer,
    connections: usize,
    time: Duration,
    operation: impl Fn(Connection) -> F + Clone + Send + 'static,
) -> anyhow::Result<Measured>
where
    F: Future<Output = anyhow::Result<()>> + Send,
{
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(Connection::open(server).await?);
    }
    let (before, start) = (Spent::of(server)?, Instant::now());
    let mut clients = JoinSet::new();
    for connection in open {
        let operation = operation.clone();
        clients.spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < time {
                let begin = Instant::now();
                operation(connection.clone()).await?;
                latencies.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            anyhow::Ok(latencies)
        });
    }
    measured(server, before, start, clients).await
}

/// CPU time of both sides.
struct Spent {
    server: Duration,
    client: Duration,
}

impl Spent {
    fn of(server: &ApiServer) -> anyhow::Result<Spent> {
        Ok(Spent { server: server.spent()?, client: cpu::spent(std::process::id())? })
    }
}

/// What the clients have seen, once all have ended.
async fn measured(
    server: &ApiServer,
    before: Spent,
    start: Instant,
    mut clients: JoinSet<anyhow::Result<Vec<u32>>>,
) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    while let Some(done) = clients.join_next().await {
        measured.latencies_us.append(&mut done??);
    }
    measured.elapsed = start.elapsed();
    let after = Spent::of(server)?;
    measured.server_cpu = Some(after.server.saturating_sub(before.server));
    measured.client_cpu = Some(after.client.saturating_sub(before.client));
    measured.server_bytes = Some(server.resident()?);
    measured.operations = measured.latencies_us.len() as u64;
    measured.latencies_us.sort_unstable();
    Ok(measured)
}
