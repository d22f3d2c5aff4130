//! What happens when clients meet: on one object, on one manager's field, on a long list, on one change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use clap::ValueEnum;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::connection::{Connection, Lines};
use super::loads::{FILLED, OBJECTS, closed_loop};
use super::server::ApiServer;

/// Where the scenes play.
const SCENE: &str = "/api/v1/namespaces/scenes";
/// Writes a second while a list streams.
const WRITES_PER_SECOND: u64 = 500;
/// Who share them.
const WRITERS: u64 = 8;
/// Pods a second while many watch.
const PODS_PER_SECOND: u64 = 100;
/// Watchers of pods, each of one node.
const WATCHERS: usize = 1000;
/// Watches on one connection: what an HTTP/2 server lets pass at least.
const WATCHES_PER_CONNECTION: usize = 100;
/// How long a scene is watched.
const SCENE_TIME: Duration = Duration::from_secs(5);
/// No answer takes longer unless something is broken.
const LIMIT: Duration = Duration::from_secs(60);

/// A scene of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scene {
    /// Two clients read, change and write back one object
    Hammer,
    /// Two managers apply one field without force
    Conflicts,
    /// A streaming list of all objects while 500 are written a second
    Stream,
    /// 1,000 watchers of the pods of one node each
    Watchers,
}

impl Scene {
    /// Plays it; what was seen, in a line.
    pub(crate) async fn play(self, server: &ApiServer) -> anyhow::Result<String> {
        match self {
            Scene::Hammer => hammer(server).await,
            Scene::Conflicts => conflicts(server).await,
            Scene::Stream => stream(server).await,
            Scene::Watchers => watchers(server).await,
        }
    }
}

/// Reads, changes, writes back; a conflict is tried again at once. Nothing may be lost: the count at the end is exact.
async fn hammer(server: &ApiServer) -> anyhow::Result<String> {
    let (path, name) = (format!("{SCENE}/configmaps"), unique("hammered"));
    let mut connection = Connection::open(server).await?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"count": "0"}});
    connection.json(Method::POST, &path, &map).await?;
    let object = format!("{path}/{name}");
    let refused = Arc::new(AtomicU64::new(0));
    let measured = closed_loop(server, 2, SCENE_TIME, {
        let (object, refused) = (object.clone(), Arc::clone(&refused));
        move |mut connection| {
            let (object, refused) = (object.clone(), Arc::clone(&refused));
            async move {
                loop {
                    let mut value = connection.json(Method::GET, &object, &Value::Null).await?;
                    let count: u64 = value["data"]["count"].as_str().context("a count")?.parse()?;
                    value["data"]["count"] = (count + 1).to_string().into();
                    let body = Bytes::from(value.to_string());
                    match connection.send(Method::PUT, &object, "application/json", body).await? {
                        (StatusCode::OK, _) => return Ok(()),
                        (StatusCode::CONFLICT, _) => refused.fetch_add(1, Ordering::Relaxed),
                        (status, text) => anyhow::bail!("{status}: {}", String::from_utf8_lossy(&text)),
                    };
                }
            }
        }
    })
    .await?;
    let value = connection.json(Method::GET, &object, &Value::Null).await?;
    let counted: u64 = value["data"]["count"].as_str().context("a count")?.parse()?;
    anyhow::ensure!(counted == measured.operations, "{counted} counted, {} acknowledged", measured.operations);
    Ok(format!("{measured}; {} conflicts, none lost", refused.load(Ordering::Relaxed)))
}

async fn conflicts(server: &ApiServer) -> anyhow::Result<String> {
    let object = format!("{SCENE}/configmaps/{}", unique("contested"));
    let name = object.rsplit('/').next().unwrap_or_default().to_owned();
    let apply = move |manager: &str, value: u64| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value.to_string()}});
        (format!("{object}?fieldManager={manager}"), Bytes::from(map.to_string()))
    };
    let mut connection = Connection::open(server).await?;
    let (path, body) = apply("first", 0);
    let (status, text) = connection.send(Method::PATCH, &path, "application/apply-patch+yaml", body).await?;
    anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&text));
    let measured = closed_loop(server, 16, SCENE_TIME, move |mut connection| {
        let (path, body) = apply("second", 1);
        async move {
            let (status, text) = connection.send(Method::PATCH, &path, "application/apply-patch+yaml", body).await?;
            anyhow::ensure!(status == StatusCode::CONFLICT, "{status}: {}", String::from_utf8_lossy(&text));
            Ok(())
        }
    })
    .await?;
    Ok(measured.to_string())
}

/// Changes every eighth object in turn, at an eighth of the pace, until told to stop; how many changes.
async fn write_steadily(mut connection: Connection, first: u64, over: Arc<AtomicBool>) -> anyhow::Result<u64> {
    let mut number = 0;
    let mut ticks = tokio::time::interval(Duration::from_nanos(1_000_000_000 * WRITERS / WRITES_PER_SECOND));
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let at = (number * WRITERS + first) % OBJECTS;
        let patch = json!({"data": {"n": number.to_string()}}).to_string();
        let path = format!("{FILLED}/c{at:05}");
        let (status, text) =
            connection.send(Method::PATCH, &path, "application/merge-patch+json", patch.into()).await?;
        anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&text));
        number += 1;
    }
    Ok(number)
}

/// The list is whole when its bookmark has come, and the watch that follows must stay up.
async fn stream(server: &ApiServer) -> anyhow::Result<String> {
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write_steadily(Connection::open(server).await?, writer, Arc::clone(&over)));
    }
    let before = server.resident()?;
    let mut connection = Connection::open(server).await?;
    let path = format!(
        "{FILLED}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60"
    );
    let begin = Instant::now();
    let answer = connection.begin(Method::GET, &path, "application/json", Bytes::new()).await?;
    let mut lines = Lines::of(answer).await?;
    let (mut initial, mut listed) = (0_u64, None);
    let mut later = 0_u64;
    while listed.is_none_or(|at: Duration| begin.elapsed() < at + SCENE_TIME) {
        let line = tokio::time::timeout(LIMIT, lines.next()).await??.context("the stream has ended")?;
        if line.starts_with(br#"{"type":"BOOKMARK""#) {
            if listed.is_none() {
                listed = Some(begin.elapsed());
            }
        } else if listed.is_none() {
            initial += 1;
        } else {
            later += 1;
        }
    }
    let (listed, held) = (listed.context("a bookmark")?, server.resident()?);
    over.store(true, Ordering::Relaxed);
    let mut written = 0;
    while let Some(done) = writers.join_next().await {
        written += done??;
    }
    anyhow::ensure!(initial >= OBJECTS, "{initial} of {OBJECTS} objects came");
    Ok(format!(
        "{initial} events and the bookmark after {:.0} ms; {later} changes in the {} s after; {written} written; memory {} → {} MiB",
        listed.as_secs_f64() * 1000.0,
        SCENE_TIME.as_secs(),
        before >> 20,
        held >> 20
    ))
}

/// Pods are made already bound, each to one node; its watcher alone hears of it.
async fn watchers(server: &ApiServer) -> anyhow::Result<String> {
    let before = server.resident()?;
    let started = Instant::now();
    let mut watching = JoinSet::new();
    let heard: Arc<[AtomicU64]> = (0..WATCHERS).map(|_| AtomicU64::new(0)).collect();
    let mut connection = Connection::open(server).await?;
    for watcher in 0..WATCHERS {
        if watcher % WATCHES_PER_CONNECTION == 0 {
            connection = Connection::open(server).await?;
        }
        let path = format!(
            "{SCENE}/pods?watch=true&fieldSelector=spec.nodeName%3Dn{watcher}&resourceVersion=0&timeoutSeconds=300"
        );
        let answer = connection.begin(Method::GET, &path, "application/json", Bytes::new()).await?;
        let (mut lines, heard) = (Lines::of(answer).await?, Arc::clone(&heard));
        watching.spawn(async move {
            while lines.next().await?.is_some() {
                let now = u64::try_from(started.elapsed().as_micros())?;
                heard[watcher].store(now.max(1), Ordering::Release);
            }
            anyhow::Ok(())
        });
    }
    let held = server.resident()?;
    let mut writer = Connection::open(server).await?;
    let mut latencies = Vec::new();
    let spent = server.spent()?;
    let mut ticks = tokio::time::interval(Duration::from_nanos(1_000_000_000 / PODS_PER_SECOND));
    let prefix = unique("p");
    for number in 0..WATCHERS {
        ticks.tick().await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{prefix}-{number}")},
            "spec": {"nodeName": format!("n{number}"), "containers": [{"name": "c", "image": "i"}]}});
        heard[number].store(0, Ordering::Release);
        writer.json(Method::POST, &format!("{SCENE}/pods"), &pod).await?;
        let answered = u64::try_from(started.elapsed().as_micros())?;
        let at = tokio::time::timeout(LIMIT, async {
            loop {
                match heard[number].load(Ordering::Acquire) {
                    0 => tokio::time::sleep(Duration::from_micros(50)).await,
                    at => return at,
                }
            }
        });
        latencies.push(
            at.await.with_context(|| format!("the watcher of n{number} heard nothing"))?.saturating_sub(answered),
        );
    }
    let cpu = server.spent()?.saturating_sub(spent);
    latencies.sort_unstable();
    let quantile = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    watching.abort_all();
    Ok(format!(
        "p50 {:.2} ms, p99 {:.2} ms from the answer to the watcher; server CPU {:.0} µs a pod; {} watchers take {} MiB",
        quantile(0.5),
        quantile(0.99),
        cpu.as_secs_f64() * 1e6 / WATCHERS as f64,
        WATCHERS,
        held.saturating_sub(before) >> 20
    ))
}

fn unique(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{name}-{}", now.as_millis())
}
