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

/// The list is whole when its bookmark has come. A server may end a stream at any time (kube-apiserver does when a
/// watcher lags by more than about a hundred events); it is then taken up as client-go does: a list that was not whole
/// begins anew, a watch goes on where it was.
async fn stream(server: &ApiServer) -> anyhow::Result<String> {
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write_steadily(Connection::open(server).await?, writer, Arc::clone(&over)));
    }
    let before = server.resident()?;
    let heard = Streamed::hear(server).await?;
    let held = server.resident()?;
    over.store(true, Ordering::Relaxed);
    let mut written = 0;
    while let Some(done) = writers.join_next().await {
        written += done??;
    }
    Ok(format!("{heard}; {written} written; memory {} → {} MiB", before >> 20, held >> 20))
}

/// What a client hears that streams a list and watches on.
#[derive(Debug, Default)]
struct Streamed {
    /// From the first request to the bookmark of a whole list; `None` = there was none within the limit.
    listed: Option<Duration>,
    /// Events before that bookmark, in the stream that had it.
    initial: u64,
    /// Streams that the server ended before their list was whole.
    cut_short: u64,
    /// Changes in the time after the list.
    later: u64,
    /// Watches that the server ended in that time.
    resumed: u64,
}

impl Streamed {
    /// Streams until the list is whole, and then for the time of a scene.
    async fn hear(server: &ApiServer) -> anyhow::Result<Streamed> {
        let begin = Instant::now();
        let mut heard = Streamed::default();
        // Of the last event after the list.
        let mut last = Vec::new();
        while heard.lasts(begin) {
            let from = match revision_of(&last) {
                Some(revision) => format!("resourceVersion={revision}"),
                None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            };
            let path = format!("{FILLED}?watch=true&{from}&allowWatchBookmarks=true&timeoutSeconds=60");
            let mut connection = Connection::open(server).await?;
            let answer = connection.begin(Method::GET, &path, "application/json", Bytes::new()).await?;
            let mut lines = Lines::of(answer).await?;
            let mut initial = 0;
            while heard.lasts(begin) {
                // A stream that is reset has ended like any other.
                let Ok(Some(line)) = tokio::time::timeout(LIMIT, lines.next()).await?.or(anyhow::Ok(None)) else {
                    match heard.listed {
                        None => heard.cut_short += 1,
                        Some(_) => heard.resumed += 1,
                    }
                    break;
                };
                match (heard.listed, line) {
                    (_, line) if line.starts_with(br#"{"type":"ERROR""#) => {
                        anyhow::bail!("{}", String::from_utf8_lossy(line))
                    }
                    (None, line) if line.starts_with(br#"{"type":"BOOKMARK""#) => {
                        anyhow::ensure!(initial >= OBJECTS, "{initial} of {OBJECTS} objects came");
                        (heard.listed, heard.initial) = (Some(begin.elapsed()), initial);
                        line.clone_into(&mut last);
                    }
                    (None, _) => initial += 1,
                    (Some(_), line) => {
                        heard.later += u64::from(!line.starts_with(br#"{"type":"BOOKMARK""#));
                        line.clone_into(&mut last);
                    }
                }
            }
        }
        Ok(heard)
    }

    fn lasts(&self, begin: Instant) -> bool {
        begin.elapsed() < self.listed.map_or(LIMIT, |listed| listed + SCENE_TIME)
    }
}

impl std::fmt::Display for Streamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Streamed { listed, initial, cut_short, later, resumed } = self;
        match listed {
            Some(at) => write!(f, "{initial} events and the bookmark after {:.0} ms", at.as_secs_f64() * 1000.0)?,
            None => write!(f, "no whole list after {} s", LIMIT.as_secs())?,
        }
        write!(f, " (streams that the server ended before that: {cut_short}); {later} changes in the ")?;
        write!(f, "{} s after (watches ended: {resumed})", SCENE_TIME.as_secs())
    }
}

/// The resourceVersion of the object in a line of a watch.
fn revision_of(line: &[u8]) -> Option<String> {
    let event: Value = serde_json::from_slice(line).ok()?;
    Some(event["object"]["metadata"]["resourceVersion"].as_str()?.to_owned())
}

/// Hears of the pods of one node for as long as it is let: when the last event came, in microseconds. A watch that the
/// server ends is taken up where it was.
async fn hear(
    mut connection: Connection,
    path: String,
    mut lines: Lines,
    heard: impl Fn() -> anyhow::Result<()>,
    ended: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut last = Vec::new();
    loop {
        while let Ok(Some(line)) = lines.next().await {
            heard()?;
            line.clone_into(&mut last);
        }
        ended.fetch_add(1, Ordering::Relaxed);
        let from = revision_of(&last).unwrap_or_else(|| "0".to_owned());
        let path = format!("{path}&resourceVersion={from}");
        lines = Lines::of(connection.begin(Method::GET, &path, "application/json", Bytes::new()).await?).await?;
    }
}

/// Pods are made already bound, each to one node; its watcher alone hears of it.
async fn watchers(server: &ApiServer) -> anyhow::Result<String> {
    let before = server.resident()?;
    let started = Instant::now();
    let mut watching = JoinSet::new();
    let heard: Arc<[AtomicU64]> = (0..WATCHERS).map(|_| AtomicU64::new(0)).collect();
    let ended = Arc::new(AtomicU64::new(0));
    let mut connection = Connection::open(server).await?;
    for watcher in 0..WATCHERS {
        if watcher % WATCHES_PER_CONNECTION == 0 {
            connection = Connection::open(server).await?;
        }
        let path = format!("{SCENE}/pods?watch=true&fieldSelector=spec.nodeName%3Dn{watcher}&timeoutSeconds=300");
        let first = format!("{path}&resourceVersion=0");
        let answer = connection.begin(Method::GET, &first, "application/json", Bytes::new()).await?;
        let (lines, heard) = (Lines::of(answer).await?, Arc::clone(&heard));
        let note = move || {
            let now = u64::try_from(started.elapsed().as_micros())?;
            heard[watcher].store(now.max(1), Ordering::Release);
            anyhow::Ok(())
        };
        watching.spawn(hear(connection.clone(), path, lines, note, Arc::clone(&ended)));
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
        "p50 {:.2} ms, p99 {:.2} ms from the answer to the watcher; server CPU {:.0} µs a pod; {} watchers take {} MiB; \
         watches ended by the server: {}",
        quantile(0.5),
        quantile(0.99),
        cpu.as_secs_f64() * 1e6 / WATCHERS as f64,
        WATCHERS,
        held.saturating_sub(before) >> 20,
        ended.load(Ordering::Relaxed)
    ))
}

fn unique(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{name}-{}", now.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_goes_on_behind_its_last_event() {
        let line = br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"17"}}}"#;
        assert_eq!(revision_of(line).as_deref(), Some("17"));
        assert_eq!(revision_of(b""), None);
        assert_eq!(revision_of(br#"{"type":"ADDED","object":{"metadata":{}}}"#), None);
    }

    #[test]
    fn streams_that_ended_are_told() {
        let heard = Streamed { cut_short: 3, ..Streamed::default() };
        assert!(heard.to_string().contains("no whole list after 60 s (streams that the server ended before that: 3)"));
        let heard =
            Streamed { listed: Some(Duration::from_millis(70)), initial: 19_000, later: 5, resumed: 1, ..heard };
        assert_eq!(
            heard.to_string(),
            "19000 events and the bookmark after 70 ms (streams that the server ended before that: 3); 5 changes in the \
             5 s after (watches ended: 1)"
        );
    }
}
