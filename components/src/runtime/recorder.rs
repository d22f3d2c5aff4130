//! Tells Events: what a component has done to an object, for people to read.
//!
//! Telling never waits and never fails: a bounded queue takes what is told, one task writes it. What does not fit is
//! dropped, as upstream does: an Event is a courtesy, never a means.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::event_correlator::{Correlator, Occurrence, Telling};
use super::{Backoff, BackoffPolicy};
use crate::client::{Api, Cached, Client, Error, Patch, Resource};
use crate::clock::SharedClock;

/// Events waiting to be written (upstream's number).
const QUEUE_MAX: usize = 1000;
/// How often a write is tried while the server is away (upstream's number).
const TRIES_MAX: u32 = 12;
/// Pauses between tries.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), factor: 2.0, cap: Duration::from_secs(10), jitter: 0.5 };
/// What is still queued at the end gets so long to be written.
const DRAIN: Duration = Duration::from_secs(1);

/// Whether an Event is news or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody may want to look.
    Warning,
}

/// Tells Events of one component. Clones tell into the same queue.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Occurrence>,
    dropped: Arc<std::sync::atomic::AtomicU64>,
}

/// Writes what is told. Somebody must run it.
pub struct RecorderTask {
    queue: mpsc::Receiver<Occurrence>,
    api: Api<Event>,
    correlator: Correlator,
    clock: SharedClock,
}

impl Recorder {
    /// A recorder for a component (`kubelet`) on a host (may be empty), and the task that must run beside it.
    pub fn new(client: &Client, component: &str, host: &str, clock: SharedClock) -> (Recorder, RecorderTask) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let task = RecorderTask {
            queue: receiver,
            api: Api::new(client),
            correlator: Correlator::new(component, host),
            clock,
        };
        (Recorder { queue: sender, dropped: Arc::default() }, task)
    }

    /// Tells an Event about an object.
    pub fn event<T: Resource>(&self, about: &Cached<T>, kind: EventType, reason: &str, message: impl Into<String>) {
        self.event_about(reference(about), kind, reason, message);
    }

    /// Tells an Event about whatever the reference names (a container has a field path).
    pub fn event_about(&self, regarding: ObjectReference, kind: EventType, reason: &str, message: impl Into<String>) {
        let kind = match kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let occurrence = Occurrence { regarding, kind, reason: reason.to_owned(), message: message.into() };
        if let Err(error) = self.queue.try_send(occurrence) {
            let count = self.dropped.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            tracing::debug!(%error, count, reason, "an Event is dropped");
        }
    }
}

/// A reference to an object, for Events.
pub fn reference<T: Resource>(object: &Cached<T>) -> ObjectReference {
    let kind = T::kind();
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind.to_owned()),
        namespace: Some(object.key.namespace.clone()).filter(|n| !n.is_empty()),
        name: Some(object.key.name.clone()),
        uid: Some(object.uid.clone()),
        resource_version: Some(object.revision.to_string()),
        field_path: None,
    }
}

impl RecorderTask {
    /// Writes until told to stop, then for a moment what is still queued; or until every recorder is gone.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let occurrence = tokio::select! {
                () = shutdown.cancelled() => break,
                occurrence = self.queue.recv() => occurrence,
            };
            let Some(occurrence) = occurrence else { return };
            let telling = self.correlator.correlate(occurrence, self.clock.now());
            let mut write = std::pin::pin!(write(&self.api, telling));
            tokio::select! {
                () = &mut write => {}
                // A write that waits for the server must not hold up the end for long.
                () = shutdown.cancelled() => {
                    if tokio::time::timeout(DRAIN, write).await.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
        self.queue.close();
        let drain = async {
            while let Some(occurrence) = self.queue.recv().await {
                write(&self.api, self.correlator.correlate(occurrence, self.clock.now())).await;
            }
        };
        if tokio::time::timeout(DRAIN, drain).await.is_err() {
            tracing::debug!("Events were still unwritten at the end");
        }
    }
}

async fn write(api: &Api<Event>, telling: Telling) {
    let mut backoff = Backoff::new(RETRY);
    for _ in 0..TRIES_MAX {
        match try_write(api, &telling).await {
            Ok(()) => return,
            Err(error) if error.is_transient() => tokio::time::sleep(backoff.next_delay()).await,
            // The namespace is going or gone, or a try before has been done after all: nothing to tell any more.
            Err(error) => return tracing::debug!(%error, "an Event is refused"),
        }
    }
    tracing::debug!("an Event is given up");
}

async fn try_write(api: &Api<Event>, telling: &Telling) -> Result<(), Error> {
    match telling {
        Telling::Dropped => Ok(()),
        Telling::Create(event) => api.create(event).await.map(drop),
        Telling::Again { key, whole } => {
            let patch = json!({
                "count": whole.count, "lastTimestamp": whole.last_timestamp, "message": whole.message,
            });
            match api.patch(key, &Patch::Merge(patch)).await {
                Ok(_) => Ok(()),
                Err(error) if error.is_not_found() => api.create(whole).await.map(drop),
                Err(error) => Err(error),
            }
        }
    }
}
