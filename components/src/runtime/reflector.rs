//! Keeps a cache equal to a collection of the server, through cuts, restarts and expired history.
//!
//! One call gives state, mark and live events (`send_initial_events`), so there is no gap between a list and a watch.
//! The machine is [`State`]; [`Reflector::step`] consumes a state and returns the next one. Invariants:
//!
//! * After any cut it resumes from the last revision it has seen, never from "now", and takes no event twice.
//! * When history is gone (expired, or the server has another incarnation) it takes the whole state anew, and what is
//!   no longer there is deleted by comparison. The old cache stays readable until the new state is complete.
//! * Silence is never trusted: without a sign of life for twice the progress interval the stream is opened anew.
//! * A failing server is asked again after a pause that grows and is never in step with other clients.

use std::collections::HashSet;
use std::time::Duration;

use listwatch_proto::resource::{Kind, ObjectKey};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Backoff, BackoffPolicy, Change, Writer};
use crate::client::{Api, Cached, Client, Decode, Error, Watch, WatchBatch, WatchEvent, WatchParams};
use crate::clock::timer_now;

/// Pauses after a failure. Upstream begins at 800 ms and ends at 30 s, for thousands of machines and one distant
/// server; ours is near, restarts within a fraction of a second and shall be found again within two.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 1.0 };
/// A stream that lived so long was healthy: its end is a restart or a drain, and it is opened again at once.
const HEALTHY: Duration = Duration::from_secs(2);
/// The longest silence that the server is asked for.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Which objects are reflected, and how.
#[derive(Debug, Clone)]
pub struct ReflectorConfig {
    /// Empty: all namespaces.
    pub namespace: String,
    /// Kubernetes' text form; empty: all.
    pub label_selector: String,
    /// Kubernetes' text form; empty: all.
    pub field_selector: String,
    /// The longest silence that the server is asked for; twice of it without a sign of life cuts the stream.
    pub progress_interval: Duration,
    /// Pauses after a failure.
    pub retry: BackoffPolicy,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        ReflectorConfig {
            namespace: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            progress_interval: PROGRESS_INTERVAL,
            retry: RETRY,
        }
    }
}

type Handler<T> = Box<dyn FnMut(&Change<T>) + Send>;

/// Feeds one cache from one collection.
pub struct Reflector<T> {
    api: Api<T>,
    config: ReflectorConfig,
    writer: Writer<T>,
    backoff: Backoff,
    /// Told of each change, after it is in the cache.
    on_change: Handler<T>,
}

/// A place in a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Mark {
    revision: i64,
    incarnation: String,
}

/// Where the reflector stands. Each variant says what its step does.
enum State<T> {
    /// Nothing can be resumed. Opens a stream that begins with the whole state; then `Filling`. The mark, if there is
    /// one, is of the state that the cache still shows.
    Unsynced { last: Mark },
    /// The whole state is coming in. Reads one batch; at the end of the state swaps it into the cache, then `Live`.
    Filling { last: Mark, stream: Watch<T>, incoming: Incoming<T>, opened: Instant },
    /// The cache is in step. Reads one batch and applies it; at the end of the stream or a cut, `Cut`.
    Live { mark: Mark, stream: Watch<T>, opened: Instant },
    /// The stream is gone, the mark is good. Opens a stream from the mark; then `Live`. If the server says that the
    /// mark is no longer in its history, `Unsynced`.
    Cut { mark: Mark },
}

/// A state that is coming in.
struct Incoming<T> {
    objects: Vec<Cached<T>>,
    /// What exists but does not read as `T`.
    unreadable: HashSet<ObjectKey>,
}

/// What a step came to.
enum Step<T> {
    /// Go on at once.
    Next(State<T>),
    /// Go on after a pause.
    Pause(State<T>, Failure),
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Call(#[from] Error),
    #[error("no sign of life for {0:?}")]
    Silent(Duration),
    #[error("the server ended the stream")]
    Ended,
    #[error("the server shows revision {shown}, older than {seen} which was seen already")]
    BackInTime { shown: i64, seen: i64 },
}

impl<T: Decode> Reflector<T> {
    /// A reflector of objects of this kind into this cache.
    pub fn new(client: &Client, kind: &'static Kind, config: ReflectorConfig, writer: Writer<T>) -> Self {
        let backoff = Backoff::new(config.retry);
        Reflector { api: Api::of_kind(client, kind), config, writer, backoff, on_change: Box::new(|_| {}) }
    }

    /// Calls this with each change, after the cache has it. It must not block.
    #[must_use]
    pub fn on_change(mut self, handler: impl FnMut(&Change<T>) + Send + 'static) -> Self {
        self.on_change = Box::new(handler);
        self
    }

    /// Runs until told to stop. Dropping the future stops it too; the cache then keeps what it has.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut state = State::Unsynced { last: Mark::default() };
        loop {
            let step = tokio::select! {
                () = shutdown.cancelled() => return,
                step = self.step(state) => step,
            };
            state = match step {
                Step::Next(state) => state,
                Step::Pause(state, failure) => {
                    let pause = self.backoff.next_delay();
                    self.tell(&failure, pause);
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    state
                }
            };
        }
    }

    /// One step of the machine. Each branch awaits at most once before it decides.
    async fn step(&mut self, state: State<T>) -> Step<T> {
        match state {
            State::Unsynced { last } => match self.open(None).await {
                Ok(stream) => {
                    let incoming = Incoming { objects: Vec::new(), unreadable: HashSet::new() };
                    Step::Next(State::Filling { last, stream, incoming, opened: timer_now() })
                }
                Err(error) => Step::Pause(State::Unsynced { last }, error.into()),
            },
            State::Filling { last, mut stream, incoming, opened } => match self.read(&mut stream).await {
                Ok(batch) => self.fill(last, stream, incoming, opened, batch),
                // The server cannot resume in the middle of a state: begin again.
                Err(failure) => Step::Pause(State::Unsynced { last }, failure),
            },
            State::Live { mark, mut stream, opened } => match self.read(&mut stream).await {
                Ok(batch) => self.follow(mark, stream, opened, batch),
                Err(failure) => self.cut(mark, opened, failure),
            },
            State::Cut { mark } => match self.open(Some(&mark)).await {
                Ok(stream) => Step::Next(State::Live { mark, stream, opened: timer_now() }),
                Err(error) if error.is_expired() => {
                    tracing::info!(kind = %self.api.kind().name(), revision = mark.revision, %error, "history is gone: taking the whole state anew");
                    Step::Next(State::Unsynced { last: mark })
                }
                Err(error) => Step::Pause(State::Cut { mark }, error.into()),
            },
        }
    }

    async fn open(&mut self, from: Option<&Mark>) -> Result<Watch<T>, Error> {
        let params = WatchParams {
            namespace: self.config.namespace.clone(),
            name: String::new(),
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            start_revision: from.map_or(0, |mark| mark.revision),
            incarnation: from.map_or_else(String::new, |mark| mark.incarnation.clone()),
            send_initial_events: from.is_none(),
            until_revision: 0,
            progress_interval: self.config.progress_interval,
        };
        self.api.watch(&params).await
    }

    /// The next batch, or why there is none.
    async fn read(&mut self, stream: &mut Watch<T>) -> Result<WatchBatch<T>, Failure> {
        let patience = self.config.progress_interval * 2;
        match timeout(patience, stream.next()).await {
            Err(_) => Err(Failure::Silent(patience)),
            Ok(Err(error)) => Err(error.into()),
            Ok(Ok(None)) => Err(Failure::Ended),
            Ok(Ok(Some(batch))) => Ok(batch),
        }
    }

    /// Collects the whole state; at its end the cache is made equal to it.
    fn fill(
        &mut self,
        last: Mark,
        stream: Watch<T>,
        mut incoming: Incoming<T>,
        opened: Instant,
        batch: WatchBatch<T>,
    ) -> Step<T> {
        let mut end = None;
        let mut later = Vec::new();
        for event in batch.events {
            match event {
                WatchEvent::Bookmark { revision, initial_events_end: true } => end = Some(revision),
                event if end.is_some() => later.push(event),
                WatchEvent::Added(mut object) | WatchEvent::Modified(mut object) => {
                    object.object.forget_managers();
                    incoming.objects.push(object);
                }
                WatchEvent::Deleted(object) => incoming.objects.retain(|o| o.key != object.key),
                WatchEvent::Unreadable { key, error, .. } => {
                    self.tell_unreadable(&error);
                    incoming.unreadable.insert(key);
                }
                WatchEvent::Bookmark { .. } => {}
            }
        }
        let Some(revision) = end else {
            return Step::Next(State::Filling { last, stream, incoming, opened });
        };
        if revision < last.revision && batch.incarnation == last.incarnation {
            let failure = Failure::BackInTime { shown: revision, seen: last.revision };
            return Step::Pause(State::Unsynced { last }, failure);
        }
        for change in self.writer.replace(incoming.objects, &incoming.unreadable) {
            (self.on_change)(&change);
        }
        let mut mark = Mark { revision, incarnation: batch.incarnation };
        self.apply(mark.revision, later);
        mark.revision = mark.revision.max(batch.revision);
        self.writer.advance(mark.revision, &mark.incarnation);
        self.backoff.reset();
        Step::Next(State::Live { mark, stream, opened })
    }

    /// Applies a batch of live events.
    fn follow(&mut self, mut mark: Mark, stream: Watch<T>, opened: Instant, batch: WatchBatch<T>) -> Step<T> {
        if batch.incarnation != mark.incarnation && !batch.incarnation.is_empty() {
            // Another history behind the same address, and a server that did not say so: nothing seen is worth anything.
            return Step::Next(State::Unsynced { last: Mark::default() });
        }
        self.apply(mark.revision, batch.events);
        mark.revision = mark.revision.max(batch.revision);
        self.writer.advance(mark.revision, &mark.incarnation);
        // The server works: if this stream is cut, the first try comes soon.
        self.backoff.reset();
        Step::Next(State::Live { mark, stream, opened })
    }

    /// Takes what lies above a revision: what lies at or below it has been taken before.
    fn apply(&mut self, above: i64, events: Vec<WatchEvent<T>>) {
        for event in events {
            if event.revision() <= above {
                continue;
            }
            let changes = match event {
                WatchEvent::Added(mut object) | WatchEvent::Modified(mut object) => {
                    object.object.forget_managers();
                    self.writer.apply(object)
                }
                WatchEvent::Deleted(object) => self.writer.delete(object).into_iter().collect(),
                WatchEvent::Unreadable { error, .. } => {
                    self.tell_unreadable(&error);
                    continue;
                }
                WatchEvent::Bookmark { .. } => continue,
            };
            for change in changes {
                (self.on_change)(&change);
            }
        }
    }

    /// What follows when a live stream has ended.
    fn cut(&mut self, mark: Mark, opened: Instant, failure: Failure) -> Step<T> {
        if let Failure::Call(error) = &failure
            && error.is_expired()
        {
            tracing::info!(kind = %self.api.kind().name(), revision = mark.revision, %error, "history is gone: taking the whole state anew");
            return Step::Next(State::Unsynced { last: mark });
        }
        if opened.elapsed() > HEALTHY {
            tracing::debug!(kind = %self.api.kind().name(), revision = mark.revision, %failure, "watch ended, resuming");
            return Step::Next(State::Cut { mark });
        }
        Step::Pause(State::Cut { mark }, failure)
    }

    fn tell(&self, failure: &Failure, pause: Duration) {
        let kind = self.api.kind().name();
        match failure {
            Failure::Call(error) if !error.is_transient() => tracing::warn!(%kind, %error, ?pause, "watch refused"),
            failure => tracing::debug!(%kind, error = %failure, ?pause, "watch failed"),
        }
    }

    /// The cache keeps what it last could read of the object; a human must look.
    fn tell_unreadable(&self, error: &Error) {
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        tracing::error!(kind = %self.api.kind().name(), %error, cause, "an object is left out of the cache");
    }
}
