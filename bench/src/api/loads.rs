//! Requests in a closed loop, one under way on each connection.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::server::ApiServer;
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
    let text: String = (0..OBJECT_BYTES).map(|at| char::from(b'a' + ((seed + at as u64 * 7) % 26) as u8)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}})
        .to_string()
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

/// Runs a load for a while.
pub(crate) async fn run(
    server: &ApiServer,
    load: Load,
    connections: usize,
    time: Duration,
) -> anyhow::Result<Measured> {
    // Names must not meet those of an earlier turn.
    let turn = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let number = Arc::new(AtomicU64::new(0));
    closed_loop(server, connections, time, move |mut connection| {
        let number = Arc::clone(&number);
        async move {
            let number = number.fetch_add(1, Ordering::Relaxed);
            match load {
                Load::Create => {
                    let body = config_map(&format!("m{turn}-{number}"), number);
                    connection.good(Method::POST, "/api/v1/namespaces/made/configmaps", body).await?;
                }
                Load::Get => {
                    let path = format!("{FILLED}/c{:05}", number * 7919 % OBJECTS);
                    connection.good(Method::GET, &path, Bytes::new()).await?;
                }
                Load::List => drop(connection.good(Method::GET, FILLED, Bytes::new()).await?),
                Load::Page => {
                    drop(connection.good(Method::GET, &format!("{FILLED}?limit=100"), Bytes::new()).await?);
                }
            }
            Ok(())
        }
    })
    .await
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
    let (before, start) = (server.spent()?, Instant::now());
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
    let mut measured = Measured::default();
    while let Some(done) = clients.join_next().await {
        measured.latencies_us.append(&mut done??);
    }
    measured.elapsed = start.elapsed();
    measured.server_cpu = Some(server.spent()?.saturating_sub(before));
    measured.server_bytes = Some(server.resident()?);
    measured.operations = measured.latencies_us.len() as u64;
    measured.latencies_us.sort_unstable();
    Ok(measured)
}
