//! Tells Events: what a component has done to an object, for people to read.
//!
//! Telling never waits and never fails: a bounded queue takes what is told, one task writes it. What does not fit is
//! dropped, as upstream does: an Event is a courtesy, never a means.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::api::events::v1::Event as NewEvent;
use listwatch_proto::resource::{Kind, ObjectKey};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::event_correlator::{Correlator, Occurrence, Telling};
use super::event_series::{Deed, Record, SWEEP, Series};
use super::{Backoff, BackoffPolicy};
use crate::client::{Api, Cached, Client, Error, Patch, Resource};
use crate::clock::{SharedClock, timer_now};

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

/// What is told, in the older or the newer form of Events.
#[derive(Debug)]
enum Told {
    Occurrence(Occurrence),
    Deed(Deed),
}

/// What was done that an Event tells of, for [`Recorder::deed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doing {
    /// What was tried: `Binding`.
    pub action: &'static str,
    /// What came of it: `Scheduled`.
    pub reason: &'static str,
    /// Whether it is as it should be.
    pub kind: EventType,
}

/// Tells Events of one component. Clones tell into the same queue.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Told>,
    dropped: Arc<std::sync::atomic::AtomicU64>,
}

/// Writes what is told. Somebody must run it.
pub struct RecorderTask {
    queue: mpsc::Receiver<Told>,
    api: Api<Event>,
    correlator: Correlator,
    new_api: Api<NewEvent>,
    series: Series,
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
            new_api: Api::new(client),
            series: Series::new(component, &host_of(host)),
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
        let (kind, reason) = (kind.as_str(), reason.to_owned());
        self.tell(Told::Occurrence(Occurrence { regarding, kind, reason, message: message.into() }));
    }

    /// Tells an Event in the newer form (events.k8s.io), as the scheduler does: what was done to an object, because of
    /// which other one, and what came of it.
    pub fn deed(
        &self,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        Doing { action, reason, kind }: Doing,
        note: impl Into<String>,
    ) {
        let (kind, reason) = (kind.as_str(), reason.to_owned());
        self.tell(Told::Deed(Deed { regarding, related, kind, reason, action, note: note.into() }));
    }

    fn tell(&self, told: Told) {
        if let Err(error) = self.queue.try_send(told) {
            let count = self.dropped.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            tracing::debug!(%error, count, "an Event is dropped");
        }
    }
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// The host that a reporter runs on: the one it was told, or this machine.
fn host_of(told: &str) -> String {
    if told.is_empty() { rustix::system::uname().nodename().to_string_lossy().into_owned() } else { told.to_owned() }
}

/// A reference to an object, for Events.
pub fn reference<T: Resource>(object: &Cached<T>) -> ObjectReference {
    ObjectReference {
        resource_version: Some(object.revision.to_string()),
        ..reference_to(T::kind(), &object.key, &object.uid)
    }
}

/// A reference to an object of which only this much is known, or meant.
pub fn reference_to(kind: &Kind, key: &ObjectKey, uid: &str) -> ObjectReference {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind.to_owned()),
        namespace: given(&key.namespace),
        name: given(&key.name),
        uid: given(uid),
        ..ObjectReference::default()
    }
}

impl RecorderTask {
    /// Writes until told to stop, then for a moment what is still queued; or until every recorder is gone.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut sweep = tokio::time::interval_at(timer_now() + SWEEP, SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let writes = tokio::select! {
                () = shutdown.cancelled() => break,
                told = self.queue.recv() => {
                    let Some(told) = told else { return };
                    vec![self.what_to_write(told)]
                }
                _ = sweep.tick() => {
                    self.series.sweep(self.clock.now()).into_iter().map(|event| Write::Series(Box::new(event))).collect()
                }
            };
            let mut all = std::pin::pin!(self.write_all(writes));
            tokio::select! {
                () = &mut all => {}
                // A write that waits for the server must not hold up the end for long.
                () = shutdown.cancelled() => {
                    if tokio::time::timeout(DRAIN, all).await.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
        self.queue.close();
        let drain = async {
            while let Some(told) = self.queue.recv().await {
                let write = self.what_to_write(told);
                self.write_all(vec![write]).await;
            }
        };
        if tokio::time::timeout(DRAIN, drain).await.is_err() {
            tracing::debug!("Events were still unwritten at the end");
        }
    }

    fn what_to_write(&mut self, told: Told) -> Write {
        let now = self.clock.now();
        match told {
            Told::Occurrence(occurrence) => match self.correlator.correlate(occurrence, now) {
                Telling::Dropped => Write::Nothing,
                Telling::Create(event) => Write::Create(event),
                Telling::Again { key, whole } => Write::Again { key, whole },
            },
            Told::Deed(deed) => match self.series.record(deed, now) {
                Record::Counted => Write::Nothing,
                Record::Create(event) => Write::CreateNew(event),
                Record::Series(event) => Write::Series(event),
            },
        }
    }

    async fn write_all(&self, writes: Vec<Write>) {
        for write in writes {
            self.write(write).await;
        }
    }

    async fn write(&self, write: Write) {
        let mut backoff = Backoff::new(RETRY);
        for _ in 0..TRIES_MAX {
            match self.try_write(&write).await {
                Ok(()) => return,
                Err(error) if error.is_transient() => tokio::time::sleep(backoff.next_delay()).await,
                // The namespace is going or gone, or a try before has been done after all: nothing to tell any more.
                Err(error) => return tracing::debug!(%error, "an Event is refused"),
            }
        }
        tracing::debug!("an Event is given up");
    }

    async fn try_write(&self, write: &Write) -> Result<(), Error> {
        match write {
            Write::Nothing => Ok(()),
            Write::Create(event) => self.api.create(event).await.map(drop),
            Write::CreateNew(event) => self.new_api.create(event).await.map(drop),
            Write::Again { key, whole } => {
                let patch = json!({
                    "count": whole.count, "lastTimestamp": whole.last_timestamp, "message": whole.message,
                });
                match self.api.patch(key, &Patch::Merge(patch)).await {
                    Err(error) if error.is_not_found() => self.api.create(whole).await.map(drop),
                    outcome => outcome.map(drop),
                }
            }
            Write::Series(whole) => {
                let text = |field: &Option<String>| field.clone().unwrap_or_default();
                let key = ObjectKey::new(text(&whole.metadata.namespace), text(&whole.metadata.name));
                match self.new_api.patch(&key, &Patch::Merge(json!({"series": whole.series}))).await {
                    Err(error) if error.is_not_found() => self.new_api.create(whole).await.map(drop),
                    outcome => outcome.map(drop),
                }
            }
        }
    }
}

/// What is to be written.
enum Write {
    Nothing,
    Create(Box<Event>),
    /// One more of an Event written before.
    Again {
        key: ObjectKey,
        whole: Box<Event>,
    },
    CreateNew(Box<NewEvent>),
    /// The series of an Event written before.
    Series(Box<NewEvent>),
}
