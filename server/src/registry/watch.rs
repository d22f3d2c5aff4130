//! Watches of a collection through selectors.
//!
//! Invariants: events come in order of revision, each once, none missing; the events of a revision come in one batch;
//! no bookmark names a revision with an event still to come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::{Kind, Status};
use tokio::time::Instant;

use super::current::is_object;
use super::error::other_history;
use super::selection::Selection;
use super::{
    ListOptions, Registry, RequestContext, StoreError, StoreEvents, StoreWatch, StoreWatcher, StoredObject, Target,
    WatchOptions,
};
use crate::storage::{Event, EventKind, KeyValue};

/// Objects in a batch of initial events, so that no message gets large by the number of objects.
const INITIAL_BATCH: usize = 500;

/// What happened to an object, as the watcher's selectors see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It was made, or it now matches.
    Added,
    /// It changed and still matches.
    Modified,
    /// It was removed, or it no longer matches; the object is as it was, at the revision of the change.
    Deleted,
    /// Only a revision: everything at or below it has been delivered.
    Bookmark,
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct RegistryEvent {
    /// What happened.
    pub event_type: EventType,
    /// When; of an initial event: the revision of the object.
    pub revision: i64,
    /// `None` in a bookmark.
    pub object: Option<StoredObject>,
    /// On a bookmark: the initial state is complete as of its revision.
    pub initial_events_end: bool,
}

/// Events of whole revisions, in order.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    /// Every event of this watch at or below it has been delivered with this batch; 0 while the initial state is being
    /// sent.
    pub revision: i64,
    /// In order.
    pub events: Vec<RegistryEvent>,
}

/// Completes when the store has reached a revision.
type Reached = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// One watch. Dropping it ends it.
pub struct RegistryWatch {
    selection: Selection,
    initial: VecDeque<WatchBatch>,
    source: Box<dyn StoreWatch>,
    /// Everything at or below has been delivered.
    delivered: i64,
    until: Option<Until>,
    bookmarks: bool,
    interval: Duration,
    quiet_since: Instant,
    done: bool,
}

/// Where a bounded replay ends.
struct Until {
    revision: i64,
    /// `None` once the store is there.
    reached: Option<Reached>,
}

impl std::fmt::Debug for RegistryWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryWatch")
            .field("selection", &self.selection)
            .field("delivered", &self.delivered)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl Registry {
    /// Opens a watch.
    pub(super) async fn open_watch(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &WatchOptions,
    ) -> Result<RegistryWatch, Status> {
        let selection = Selection::read(target, &options.label_selector, &options.field_selector)?;
        let (current, oldest) = (self.revision(), self.shared.store.oldest());
        if !options.incarnation.is_empty() && options.incarnation != self.incarnation() {
            return Err(other_history(oldest, current));
        }
        if options.start_revision < 0 || options.until_revision < 0 {
            return Err(Status::bad_request("a revision cannot be negative"));
        }
        let mut initial = VecDeque::new();
        let start = if options.send_initial_events {
            self.reach(options.start_revision).await?;
            let state = self.state(target, options).await?;
            let revision = state.revision;
            initial = initial_events(state.items, revision);
            revision
        } else if options.start_revision > 0 {
            options.start_revision
        } else {
            current
        };
        let watcher = StoreWatcher {
            user: context.user.name.clone(),
            client: context.client.clone(),
            target: describe(target, options),
        };
        let source =
            self.shared.store.watch(&selection.range(), start + 1, &watcher).await.map_err(|error| match error {
                StoreError::Compacted { oldest, current, .. } => Status::expired(start, oldest, current),
                other => other.into(),
            })?;
        Ok(RegistryWatch {
            selection,
            initial,
            source,
            delivered: start,
            until: self.until(options.until_revision),
            bookmarks: options.allow_bookmarks,
            interval: options.progress_interval.unwrap_or(self.shared.options.progress_interval).max(INTERVAL_MIN),
            quiet_since: Instant::now(),
            done: false,
        })
    }

    async fn state(&self, target: &Target, options: &WatchOptions) -> Result<super::ListPage, Status> {
        let list = ListOptions {
            label_selector: options.label_selector.clone(),
            field_selector: options.field_selector.clone(),
            ..ListOptions::default()
        };
        self.list_objects(target, &list).await
    }

    fn until(&self, revision: i64) -> Option<Until> {
        let registry = self.clone();
        (revision > 0)
            .then(|| Until { revision, reached: Some(Box::pin(async move { registry.reached(revision).await })) })
    }
}

/// The shortest interval between bookmarks that can be asked for, so that no client can make the server spin.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// For the operator's list of watches: `pods in default with app=web`.
fn describe(target: &Target, options: &WatchOptions) -> String {
    let mut text = target.kind.name().to_string();
    for (word, part) in [
        ("in", &target.namespace),
        ("named", &target.name),
        ("with", &options.label_selector),
        ("where", &options.field_selector),
    ] {
        if !part.is_empty() {
            text.push_str(&format!(" {word} {part}"));
        }
    }
    text
}

fn initial_events(items: Vec<StoredObject>, revision: i64) -> VecDeque<WatchBatch> {
    let added = |object: StoredObject| RegistryEvent {
        event_type: EventType::Added,
        revision: object.revision(),
        object: Some(object),
        initial_events_end: false,
    };
    let mut batches = VecDeque::new();
    let mut items = items.into_iter().map(added).peekable();
    while items.peek().is_some() {
        batches.push_back(WatchBatch { revision: 0, events: items.by_ref().take(INITIAL_BATCH).collect() });
    }
    batches.push_back(WatchBatch { revision, events: vec![bookmark(revision, true)] });
    batches
}

fn bookmark(revision: i64, initial_events_end: bool) -> RegistryEvent {
    RegistryEvent { event_type: EventType::Bookmark, revision, object: None, initial_events_end }
}

impl RegistryWatch {
    /// The next events. Safe to cancel. `None` = the stream has come to its end: `until_revision` was sent, or the
    /// server is closing.
    ///
    /// # Errors
    /// `Expired` when history has passed the watcher.
    pub async fn next(&mut self) -> Result<Option<WatchBatch>, Status> {
        if let Some(batch) = self.initial.pop_front() {
            return Ok(Some(batch));
        }
        loop {
            self.delivered = self.delivered.max(self.source.progress());
            if self.done || self.is_past_end() {
                return Ok(self.end());
            }
            match self.wait().await? {
                Woken::Events(events) => {
                    if let Some(batch) = self.batch(&events) {
                        self.quiet_since = Instant::now();
                        return Ok(Some(batch));
                    }
                }
                // A bounded replay whose end is behind the store looks whether its source has passed it.
                Woken::Quiet if !self.bookmarks || self.quiet_since.elapsed() < self.interval => {}
                Woken::Quiet => {
                    self.quiet_since = Instant::now();
                    let revision = self.delivered.max(self.source.progress());
                    self.delivered = revision;
                    return Ok(Some(WatchBatch { revision, events: vec![bookmark(revision, false)] }));
                }
                Woken::Reached => {}
                Woken::Closed => self.done = true,
            }
        }
    }

    async fn wait(&mut self) -> Result<Woken, Status> {
        let ending = self.until.as_ref().is_some_and(|until| until.reached.is_none());
        let quiet = if ending { Instant::now() + INTERVAL_MIN } else { self.quiet_since + self.interval };
        let reached = self.until.as_mut().and_then(|until| until.reached.as_mut());
        let told = self.bookmarks || ending;
        tokio::select! {
            biased;
            // Events first: a bookmark must not overtake one.
            events = self.source.next() => match events {
                Ok(Some(events)) => Ok(Woken::Events(events)),
                Ok(None) => Ok(Woken::Closed),
                Err(StoreError::Compacted { oldest, current, .. }) => {
                    Err(Status::expired(self.delivered, oldest, current))
                }
                Err(other) => Err(other.into()),
            },
            // The store has come to where a bounded replay ends; what is left of it comes as events above.
            result = async { match reached { Some(reached) => reached.await, None => std::future::pending().await } } => {
                result.map_err(Status::from)?;
                if let Some(until) = &mut self.until {
                    until.reached = None;
                }
                Ok(Woken::Reached)
            }
            // Nothing for an interval.
            () = tokio::time::sleep_until(quiet), if told => Ok(Woken::Quiet),
        }
    }

    /// Whether a bounded replay has delivered all it was asked for.
    fn is_past_end(&self) -> bool {
        self.until.as_ref().is_some_and(|until| self.delivered >= until.revision)
    }

    /// The end of a bounded replay says how far it came; every other end is silent.
    fn end(&mut self) -> Option<WatchBatch> {
        let until = self.until.take();
        let first_time = !std::mem::replace(&mut self.done, true);
        let revision = until.filter(|_| first_time && self.bookmarks)?.revision;
        Some(WatchBatch { revision, events: vec![bookmark(revision, false)] })
    }

    fn batch(&mut self, message: &StoreEvents) -> Option<WatchBatch> {
        let end = self.until.as_ref().map_or(i64::MAX, |until| until.revision);
        let within = message.events.iter().filter(|event| event.revision() <= end);
        let events: Vec<_> = within.filter_map(|event| seen(&self.selection, event)).collect();
        self.delivered = self.delivered.max(message.revision.min(end));
        (!events.is_empty()).then_some(WatchBatch { revision: self.delivered, events })
    }
}

enum Woken {
    Events(StoreEvents),
    Quiet,
    Reached,
    Closed,
}

/// The event as the selectors see it; `None` = they do not.
fn seen(selection: &Selection, event: &Arc<Event>) -> Option<RegistryEvent> {
    if !selection.owns(&event.kv.key) {
        return None;
    }
    let kind = selection.kind;
    let revision = event.revision();
    let new = (event.kind == EventKind::Put).then(|| object(kind, &event.kv)).flatten();
    let old = event.prev.as_ref().and_then(|prev| object(kind, prev));
    let new = new.filter(|object| selection.matches(object.object()));
    let old = old.filter(|object| selection.matches(object.object()));
    let (event_type, object) = match (old, new) {
        (None, Some(new)) => (EventType::Added, new),
        (Some(_), Some(new)) => (EventType::Modified, new),
        (Some(old), None) => (EventType::Deleted, old.at_revision(revision)),
        (None, None) => return None,
    };
    Some(RegistryEvent { event_type, revision, object: Some(object), initial_events_end: false })
}

fn object(kind: &'static Kind, kv: &KeyValue) -> Option<StoredObject> {
    is_object(kv).then(|| StoredObject::new(kind, kv.value.clone(), kv.mod_revision))
}
