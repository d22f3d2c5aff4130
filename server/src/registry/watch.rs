//! Watches of a collection through selectors.
//!
//! Invariants: events come in order of revision, each once, none missing; the events of a revision come in one batch;
//! no bookmark names a revision with an event still to come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use listwatch_proto::resource::{Reason, Status};
use tokio::time::{Interval, MissedTickBehavior};

use super::cache::{Delivery, Seat};
use super::custom::{Kinds, served};
use super::error::other_history;
use super::selection::{Selection, facts_of};
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

/// A watch as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryWatcher {
    /// Unique among the watches of this registry.
    pub id: u64,
    /// Who watches what.
    pub watcher: StoreWatcher,
    /// Everything at or below it has been handed over.
    pub revision: i64,
    /// Revisions handed over so far.
    pub delivered: u64,
    /// Whether it still gets what happens; else its reader stands still, and will go on from the store.
    pub in_step: bool,
}

/// Completes when the store has reached a revision.
type Reached = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// One watch. Dropping it ends it.
pub struct RegistryWatch {
    registry: Registry,
    selection: Selection,
    who: StoreWatcher,
    initial: VecDeque<WatchBatch>,
    source: Source,
    /// Everything at or below has been delivered.
    delivered: i64,
    until: Option<Until>,
    /// Hears of changes of the kinds; `None` for a kind that is always served.
    kinds: Option<tokio::sync::watch::Receiver<Arc<Kinds>>>,
    /// Of the definition behind the kind: another one ends the watch.
    identity: String,
    bookmarks: bool,
    /// Ticks when nothing was told for the progress interval.
    quiet: Interval,
    done: bool,
}

/// Where the events come from.
#[derive(Debug)]
enum Source {
    /// In step: from the cache of the kind. When the reader is too slow for it, on to [`Source::Store`].
    Cache(Seat),
    /// Catching up: from the store's history. Once in step, on to [`Source::Cache`].
    Store(Box<dyn StoreWatch>),
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
        let kinds = self.shared.definitions.now();
        let begins = kinds.begins(selection.kind);
        if options.start_revision > 0 && options.start_revision < begins {
            return Err(Status::expired(options.start_revision, begins, current));
        }
        if options.start_revision < 0 || options.until_revision < 0 {
            return Err(Status::bad_request("a revision cannot be negative"));
        }
        let who = StoreWatcher {
            user: context.user.name.clone(),
            client: context.client.clone(),
            target: describe(target, options),
        };
        let (initial, delivered, source) = if options.send_initial_events {
            self.reach(options.start_revision).await?;
            self.state_and_source(target, options, &selection, &who).await?
        } else {
            let start = if options.start_revision > 0 { options.start_revision } else { current };
            (VecDeque::new(), start, self.source(&selection, start, &who).await?)
        };
        Ok(RegistryWatch {
            registry: self.clone(),
            selection,
            who,
            initial,
            source,
            delivered,
            until: self.until(options.until_revision),
            kinds: target.kind.extension.map(|_| self.shared.definitions.follow()),
            identity: kinds.identity(target.kind).to_owned(),
            bookmarks: options.allow_bookmarks,
            quiet: quiet_interval(options.progress_interval.unwrap_or(self.shared.options.progress_interval)),
            done: false,
        })
    }

    /// The state now, and a source of what comes after it.
    async fn state_and_source(
        &self,
        target: &Target,
        options: &WatchOptions,
        selection: &Selection,
        who: &StoreWatcher,
    ) -> Result<(VecDeque<WatchBatch>, i64, Source), Status> {
        let cache = self.shared.caches.of(selection.kind, &self.shared.store);
        if let Some((listed, seat)) = cache.list_and_watch(selection, self.revision(), who.clone()) {
            return Ok((initial_events(listed.items, listed.revision), listed.revision, Source::Cache(seat)));
        }
        let list = ListOptions {
            label_selector: options.label_selector.clone(),
            field_selector: options.field_selector.clone(),
            ..ListOptions::default()
        };
        let state = self.list_objects(target, &list).await?;
        let source = self.source(selection, state.revision, who).await?;
        Ok((initial_events(state.items, state.revision), state.revision, source))
    }

    /// A source of everything above a revision.
    async fn source(&self, selection: &Selection, above: i64, who: &StoreWatcher) -> Result<Source, Status> {
        let cache = self.shared.caches.of(selection.kind, &self.shared.store);
        if let Some(seat) = cache.watch(selection, above, who) {
            return Ok(Source::Cache(seat));
        }
        let store = self.shared.store.watch(&selection.range(), above.saturating_add(1), who).await;
        store.map(Source::Store).map_err(|error| match error {
            StoreError::Compacted { oldest, current, .. } => Status::expired(above, oldest, current),
            other => other.into(),
        })
    }

    fn until(&self, revision: i64) -> Option<Until> {
        let registry = self.clone();
        (revision > 0)
            .then(|| Until { revision, reached: Some(Box::pin(async move { registry.reached(revision).await })) })
    }
}

/// The shortest interval between bookmarks that can be asked for, so that no client can make the server spin.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

fn quiet_interval(asked: Duration) -> Interval {
    let mut interval = tokio::time::interval(asked.max(INTERVAL_MIN));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes after an interval, not at once.
    interval.reset();
    interval
}

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
            self.get_in_step();
            if self.done || self.is_past_end() {
                return Ok(self.end());
            }
            if self.is_unserved() {
                // What happened to the objects until now is still told.
                let revision = self.registry.revision();
                (self.until, self.kinds, self.bookmarks) = (Some(Until { revision, reached: None }), None, false);
                continue;
            }
            match self.wait().await? {
                Woken::Batch(Some(batch)) => {
                    self.quiet.reset();
                    return Ok(Some(batch));
                }
                // Events of others, however many and however fast, do not count as a word to this watcher.
                Woken::Batch(None) if self.bookmarks && self.quiet.tick().now_or_never().is_some() => {
                    return Ok(Some(self.told()));
                }
                Woken::Batch(None) | Woken::Reached | Woken::Look => {}
                Woken::Lost => self.fall_back().await?,
                Woken::Closed => self.done = true,
                Woken::Quiet => return Ok(Some(self.told())),
            }
        }
    }

    /// How far the stream has come.
    fn told(&mut self) -> WatchBatch {
        self.advance();
        let revision = self.delivered;
        WatchBatch { revision, events: vec![bookmark(revision, false)] }
    }

    /// Takes note of how far the source has come without an event.
    fn advance(&mut self) {
        let progress = match &self.source {
            Source::Cache(seat) => seat.progress(),
            Source::Store(watch) => Some(watch.progress()),
        };
        self.delivered = self.delivered.max(progress.unwrap_or(0));
    }

    /// Takes a seat at the cache, once there is nothing to catch up with.
    fn get_in_step(&mut self) {
        if self.until.is_some() {
            self.advance();
        }
        if let Source::Store(watch) = &self.source {
            self.delivered = self.delivered.max(watch.progress());
            let cache = self.registry.shared.caches.of(self.selection.kind, &self.registry.shared.store);
            if let Some(seat) = cache.watch(&self.selection, self.delivered, &self.who) {
                self.source = Source::Cache(seat);
            }
        }
    }

    /// Goes on from the store, since the cache has let the reader go.
    async fn fall_back(&mut self) -> Result<(), Status> {
        match self.registry.source(&self.selection, self.delivered, &self.who).await {
            Ok(source) => self.source = source,
            // The server is closing.
            Err(status) if status.reason == Reason::ServiceUnavailable => self.done = true,
            Err(status) => return Err(status),
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<Woken, Status> {
        let ending = self.until.as_ref().is_some_and(|until| until.reached.is_none());
        let reached = self.until.as_mut().and_then(|until| until.reached.as_mut());
        let next = async {
            match &mut self.source {
                Source::Cache(seat) => Ok(Next::Cache(seat.next().await)),
                Source::Store(watch) => watch.next().await.map(Next::Store),
            }
        };
        let kinds = self.kinds.as_mut();
        tokio::select! {
            biased;
            // Events first: a bookmark must not overtake one.
            next = next => match next {
                Ok(Next::Cache(Some(delivery))) => Ok(Woken::Batch(self.delivery(delivery))),
                Ok(Next::Cache(None)) => Ok(Woken::Lost),
                Ok(Next::Store(Some(events))) => Ok(Woken::Batch(self.history(&events))),
                Ok(Next::Store(None)) => Ok(Woken::Closed),
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
            // Other kinds are served: is this one still among them?
            _ = async { match kinds { Some(kinds) => kinds.changed().await, None => std::future::pending().await } } => {
                Ok(Woken::Look)
            }
            // Nothing for an interval.
            _ = self.quiet.tick(), if self.bookmarks => Ok(Woken::Quiet),
            // The end of a bounded replay is behind the store: has its source passed it?
            () = tokio::time::sleep(INTERVAL_MIN), if ending => Ok(Woken::Look),
        }
    }

    /// Whether the kind is no longer served, or another definition stands behind it.
    fn is_unserved(&mut self) -> bool {
        let Some(kinds) = &mut self.kinds else { return false };
        let now = kinds.borrow_and_update();
        !now.serves(self.selection.kind) || now.identity(self.selection.kind) != self.identity
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

    /// A delivery of the cache, already seen through the selectors.
    fn delivery(&mut self, delivery: Delivery) -> Option<WatchBatch> {
        let revision = delivery.revision;
        if self.until.as_ref().is_some_and(|until| revision > until.revision) || revision <= self.delivered {
            return None;
        }
        self.delivered = revision;
        Some(WatchBatch { revision, events: delivery.events })
    }

    /// Events of the store, to be seen through the selectors.
    fn history(&mut self, message: &StoreEvents) -> Option<WatchBatch> {
        let end = self.until.as_ref().map_or(i64::MAX, |until| until.revision);
        let within = message.events.iter().filter(|event| event.revision() <= end);
        let events: Vec<_> = within.filter_map(|event| seen(&self.selection, event)).collect();
        self.delivered = self.delivered.max(message.revision.min(end));
        (!events.is_empty()).then_some(WatchBatch { revision: self.delivered, events })
    }
}

enum Next {
    Cache(Option<Delivery>),
    Store(Option<StoreEvents>),
}

enum Woken {
    /// Events, if the selectors see any.
    Batch(Option<WatchBatch>),
    Quiet,
    Look,
    Reached,
    Lost,
    Closed,
}

/// The event as the selectors see it; `None` = they do not.
fn seen(selection: &Selection, event: &Arc<Event>) -> Option<RegistryEvent> {
    let revision = event.revision();
    let selected = |kv: &KeyValue| {
        let value = served(selection.kind, kv.value.clone());
        let facts = facts_of(selection.kind, &kv.key, &value, kv.mod_revision)?;
        selection.matches(&facts).then(|| StoredObject::new(selection.kind, value, revision))
    };
    let new = (event.kind == EventKind::Put).then(|| selected(&event.kv)).flatten();
    let old = event.prev.as_ref().and_then(|prev| selected(prev));
    let (event_type, object) = match (old, new) {
        (None, Some(new)) => (EventType::Added, new),
        (Some(_), Some(new)) => (EventType::Modified, new),
        // The content of before, at the revision of the change.
        (Some(old), None) => (EventType::Deleted, old),
        (None, None) => return None,
    };
    Some(RegistryEvent { event_type, revision, object: Some(object), initial_events_end: false })
}
