//! Watchers of one prefix while somebody writes: how many events arrive, and how soon.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use listwatch_proto::etcd::etcdserverpb::{
    PutRequest, WatchCreateRequest, WatchRequest, kv_client::KvClient, watch_client::WatchClient,
    watch_request::RequestUnion,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::cpu;
use crate::load::{self, LoadArgs};
use crate::put::{key, value};
use crate::stats::Measured;

/// How long stragglers may take once the last write was answered.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// The `watch` command.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Watchers, each on a stream of its own
    #[arg(long, default_value_t = 100)]
    pub(crate) watchers: usize,
    /// Writes per second; 0 = as fast as the clients can
    #[arg(long, default_value_t = 200.0)]
    pub(crate) rate: f64,
    /// Bytes of a value
    #[arg(long, default_value_t = 256)]
    pub(crate) value_size: usize,
    /// The keys' beginning
    #[arg(long, default_value = "/bench/watch/")]
    pub(crate) prefix: String,
}

/// When something happened to a revision.
type Moments = HashMap<i64, Instant>;

impl WatchArgs {
    /// Runs the load. The operations are the events that arrived; their latency counts from the answer to the write,
    /// and is zero for one that came before it.
    pub(crate) async fn run(&self) -> anyhow::Result<Measured> {
        let channels = self.load.connect().await?;
        let stop = Arc::new(Notify::new());
        let mut watchers = JoinSet::new();
        for number in 0..self.watchers {
            let stream = self.open(channels[number % channels.len()].clone()).await?;
            watchers.spawn(receive(stream, stop.clone()));
        }
        let before = self.load.server_pid.map(cpu::spent).transpose()?;
        let start = Instant::now();
        let answered = self.write(&channels).await?;
        let written = answered.len();
        stop.notify_waiters();
        let deadline = Instant::now() + DRAIN_MAX;
        let last = answered.keys().max().copied().unwrap_or(0);
        let mut measured = Measured::default();
        let mut end = start;
        for watcher in watchers.join_all().await {
            let mut watcher = watcher?;
            watcher.until(last, deadline).await?;
            anyhow::ensure!(watcher.seen.len() == written, "{} of {written} events arrived", watcher.seen.len());
            for (revision, moment) in watcher.seen {
                let answer = answered.get(&revision).context("an event nobody wrote")?;
                let late = moment.saturating_duration_since(*answer).as_micros();
                measured.latencies_us.push(u32::try_from(late).unwrap_or(u32::MAX));
                end = end.max(moment);
            }
        }
        measured.elapsed = end - start;
        load::finish(self.load.server_pid, before, &mut measured)?;
        Ok(measured)
    }

    /// Opens a watch and waits until the server has made it.
    async fn open(&self, channel: Channel) -> anyhow::Result<Watcher> {
        let mut end = self.prefix.clone().into_bytes();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let create = WatchCreateRequest {
            key: self.prefix.clone().into(),
            range_end: end.into(),
            ..WatchCreateRequest::default()
        };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // The request stream stays open as long as the watcher lives.
        let requests =
            futures::StreamExt::chain(tokio_stream::once(request), futures::stream::pending::<WatchRequest>());
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let mut stream = client.watch(requests).await?.into_inner();
        let created = stream.message().await?.context("the watch ended")?;
        anyhow::ensure!(created.created && !created.canceled, "the watch was refused: {}", created.cancel_reason);
        Ok(Watcher { stream, seen: Moments::new(), reached: 0 })
    }

    /// Writes as long as the load lasts; answers when each revision was answered.
    async fn write(&self, channels: &[Channel]) -> anyhow::Result<Moments> {
        let (answers, mut answered) = tokio::sync::mpsc::unbounded_channel();
        let clients = self.load.clients as f64;
        load::run(&self.load, channels, |number, channel| {
            let client = KvClient::new(channel);
            let value = value(number as u64, self.value_size);
            let prefix = self.prefix.clone();
            let pace = (self.rate > 0.0).then(|| Duration::from_secs_f64(clients / self.rate));
            let mut due = Instant::now();
            let answers = answers.clone();
            move |operation| {
                let request = PutRequest {
                    key: key(&prefix, operation % 1000, 24),
                    value: value.clone(),
                    ..PutRequest::default()
                };
                let mut client = client.clone();
                let answers = answers.clone();
                let wait = pace.map(|pace| {
                    due = (due + pace).max(Instant::now());
                    due
                });
                async move {
                    if let Some(due) = wait {
                        tokio::time::sleep_until(due.into()).await;
                    }
                    let answer = client.put(request).await?.into_inner();
                    let revision = answer.header.map_or(0, |header| header.revision);
                    // The receiver lives until all clients are done.
                    let _ = answers.send((revision, Instant::now()));
                    Ok(())
                }
            }
        })
        .await?;
        drop(answers);
        let mut moments = Moments::new();
        while let Some((revision, moment)) = answered.recv().await {
            moments.insert(revision, moment);
        }
        Ok(moments)
    }
}

/// One watcher and what it has seen.
#[derive(Debug)]
struct Watcher {
    stream: tonic::Streaming<listwatch_proto::etcd::etcdserverpb::WatchResponse>,
    seen: Moments,
    reached: i64,
}

impl Watcher {
    async fn step(&mut self) -> anyhow::Result<()> {
        let answer = self.stream.message().await?.context("the watch ended")?;
        anyhow::ensure!(!answer.canceled, "the watch was cancelled: {}", answer.cancel_reason);
        let now = Instant::now();
        for event in answer.events {
            let revision = event.kv.map_or(0, |kv| kv.mod_revision);
            self.seen.insert(revision, now);
            self.reached = self.reached.max(revision);
        }
        Ok(())
    }

    /// Reads on until a revision has been seen.
    async fn until(&mut self, revision: i64, deadline: Instant) -> anyhow::Result<()> {
        while self.reached < revision {
            let step = tokio::time::timeout_at(deadline.into(), self.step()).await;
            step.with_context(|| format!("event {revision} did not arrive, {} did", self.reached))??;
        }
        Ok(())
    }
}

/// Reads until told to stop.
async fn receive(mut watcher: Watcher, stop: Arc<Notify>) -> anyhow::Result<Watcher> {
    let stop = stop.notified();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            // A message that is half read stays in the stream's buffer.
            step = watcher.step() => step?,
            () = &mut stop => return Ok(watcher),
        }
    }
}
