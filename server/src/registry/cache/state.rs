//! The state of a kind and its changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::num::NonZeroU16;
use std::ops::Bound;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Storage};
use parking_lot::Mutex;

use super::super::RegistryWatcher;
use super::super::custom::served;
use super::super::facts::Facts;
use super::super::selection::{Selection, facts_of};
use super::super::stored::metadata_place;
use super::super::{EventType, Page, RegistryEvent, StoreError, StoreEvents, StoreWatch, StoreWatcher, StoredObject};
use super::dispatch::Index;
use super::queue::{Delivery, Queue, Seat};
use crate::storage::{Event, EventKind, KeyRange, RangeEnd};

/// The cache of one kind.
#[derive(Debug)]
pub(in super::super) struct WatchCache {
    kind: &'static Kind,
    /// Guards everything: the place in the store's events, what they have added up to, and who hears of them. Held
    /// while events are decoded and queued, never over an await.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` until the first load, and while the cache is being loaded anew.
    whole: Option<Whole>,
    index: Index,
    /// Of the task that waits for the store.
    waker: Option<Waker>,
    /// How the source ended, if a reader found out: with an error, or because the store was closed.
    ended: Option<Option<StoreError>>,
}

/// A state that follows the store.
#[derive(Debug)]
struct Whole {
    source: Box<dyn StoreWatch>,
    items: BTreeMap<Bytes, Item>,
    revision: i64,
}

/// An object: the store's own bytes.
#[derive(Debug)]
struct Item {
    raw: Bytes,
    revision: i64,
    facts: Facts,
    /// Where a resourceVersion can be put into the bytes.
    place: Option<NonZeroU16>,
}

impl Item {
    /// `None` for a value that is no object, which is reported.
    fn read(kind: &'static Kind, key: &[u8], value: Bytes, revision: i64) -> Option<Self> {
        let raw = served(kind, value);
        let facts = facts_of(kind, key, &raw, revision)?;
        // Of a view the bytes are another object's.
        let place = if kind.storage == Storage::Own { metadata_place(&raw) } else { None };
        Some(Self { raw, revision, facts, place })
    }

    /// As it is served, told with a revision.
    fn object(&self, kind: &'static Kind, revision: i64) -> StoredObject {
        match self.place {
            Some(place) => StoredObject::proven(kind, self.raw.clone(), revision, place),
            None => StoredObject::new(kind, self.raw.clone(), revision),
        }
    }
}

/// A collection at a revision.
#[derive(Debug)]
pub(in super::super) struct Listed {
    pub(in super::super) items: Vec<StoredObject>,
    pub(in super::super) revision: i64,
    /// What is left behind the last item, if the list was cut.
    pub(in super::super) left: i64,
}

impl WatchCache {
    pub(super) fn new(kind: &'static Kind) -> Self {
        let state = State { whole: None, index: Index::new(kind), waker: None, ended: None };
        Self { kind, state: Mutex::new(state) }
    }

    pub(super) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Begins to follow the store: `page` is the whole kind, `source` everything behind it.
    pub(super) fn load(&self, page: Page, source: Box<dyn StoreWatch>) {
        let item = |kv: crate::storage::KeyValue| {
            let item = Item::read(self.kind, &kv.key, kv.value, kv.mod_revision)?;
            Some((kv.key, item))
        };
        let items = page.kvs.into_iter().filter_map(item).collect();
        self.state.lock().whole = Some(Whole { source, items, revision: page.revision });
    }

    /// Drains the store's events as its task, which is woken when there are more. Ready = the source has ended: with
    /// an error, or because the store was closed (`None`).
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<StoreError>> {
        let mut state = self.state.lock();
        state.waker = Some(context.waker().clone());
        state.catch_up();
        match state.ended.take() {
            None => Poll::Pending,
            Some(end) => Poll::Ready(end),
        }
    }

    /// Lets all watchers go; what they still want they read from the store.
    pub(super) fn close(&self) {
        self.state.lock().let_go();
    }

    /// Drains what the store has ready and tells the revision it came to; `None` while the cache is not whole.
    pub(super) fn catch_up(&self) -> Option<i64> {
        let mut state = self.state.lock();
        state.catch_up();
        state.whole.as_ref().map(|whole| whole.revision)
    }

    /// The selected objects, `limit` at most (0 = all), if the cache has come to `least`.
    pub(in super::super) fn list(&self, selection: &Selection, limit: usize, least: i64) -> Option<Listed> {
        let mut state = self.state.lock();
        state.catch_up();
        let whole = state.whole.as_ref().filter(|whole| whole.revision >= least)?;
        Some(whole.list(self.kind, selection, limit))
    }

    /// The selected objects, and a place for a watcher behind them, at one moment.
    pub(in super::super) fn list_and_watch(
        self: &Arc<Self>,
        selection: &Selection,
        least: i64,
        who: StoreWatcher,
    ) -> Option<(Listed, Seat)> {
        let mut state = self.state.lock();
        state.catch_up();
        let whole = state.whole.as_ref().filter(|whole| whole.revision >= least)?;
        let listed = whole.list(self.kind, selection, 0);
        let seat = self.seat(&mut state, selection, listed.revision, who);
        Some((listed, seat))
    }

    /// A place for a watcher that has everything up to `from`; `None` if the cache is ahead of it or not whole.
    pub(in super::super) fn watch(
        self: &Arc<Self>,
        selection: &Selection,
        from: i64,
        who: &StoreWatcher,
    ) -> Option<Seat> {
        let mut state = self.state.lock();
        // Not drained first: what the source still holds comes to the new watcher as it is drained.
        let whole = state.whole.as_ref().filter(|whole| whole.revision <= from)?;
        debug_assert!(whole.revision <= from);
        Some(self.seat(&mut state, selection, from, who.clone()))
    }

    fn seat(self: &Arc<Self>, state: &mut State, selection: &Selection, from: i64, who: StoreWatcher) -> Seat {
        let queue = Arc::new(Queue::default());
        let id = state.index.join(selection.clone(), queue.clone(), from, who);
        Seat::new(self.clone(), queue, id)
    }

    pub(super) fn leave(&self, id: u64) {
        self.state.lock().index.leave(id);
    }

    /// For the operator's list of watches.
    pub(super) fn watchers(&self) -> Vec<RegistryWatcher> {
        let state = self.state.lock();
        state.index.list(state.whole.as_ref().map_or(0, |whole| whole.revision))
    }
}

impl State {
    /// Drains what is ready. When the source has ended the watchers are let go, and the task is told.
    fn catch_up(&mut self) {
        if let Some(end) = self.drain() {
            self.let_go();
            self.ended = Some(end);
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    fn let_go(&mut self) {
        self.whole = None;
        self.index.lose_all();
    }

    /// Takes in all events that are ready. `Some` = the source has ended.
    fn drain(&mut self) -> Option<Option<StoreError>> {
        let waker = self.waker.clone()?;
        let mut context = Context::from_waker(&waker);
        let whole = self.whole.as_mut()?;
        loop {
            match whole.source.poll_next(&mut context) {
                Poll::Pending => break,
                Poll::Ready(Ok(Some(events))) => whole.take_in(&events, &mut self.index),
                Poll::Ready(Ok(None)) => return Some(None),
                Poll::Ready(Err(error)) => return Some(Some(error)),
            }
        }
        whole.revision = whole.revision.max(whole.source.progress());
        None
    }
}

impl Whole {
    fn list(&self, kind: &'static Kind, selection: &Selection, limit: usize) -> Listed {
        let served = |item: &Item| item.object(kind, item.revision);
        if let Some(key) = selection.single_key() {
            let item = self.items.get(&key).filter(|item| selection.matches(&item.facts));
            return Listed { items: item.map(served).into_iter().collect(), revision: self.revision, left: 0 };
        }
        let range = KeyRange::prefix(kind.collection_key(&selection.namespace));
        let end = match &range.end {
            RangeEnd::Before(end) => Bound::Excluded(end),
            RangeEnd::Single | RangeEnd::Unbounded => Bound::Unbounded,
        };
        let mut all = self.items.range::<Bytes, _>((Bound::Included(&range.key), end)).map(|(_, item)| item);
        let mut items = Vec::new();
        for item in all.by_ref().filter(|item| selection.matches(&item.facts)) {
            items.push(served(item));
            if limit > 0 && items.len() == limit {
                break;
            }
        }
        let cut = limit > 0 && items.len() == limit;
        Listed { items, revision: self.revision, left: if cut { all.count() as i64 } else { 0 } }
    }

    /// Takes in the events of whole revisions and hands them to those interested.
    fn take_in(&mut self, message: &StoreEvents, index: &mut Index) {
        let mut rest = message.events.as_slice();
        while let Some(first) = rest.first() {
            let revision = first.revision();
            let (now, later) = rest.split_at(rest.partition_point(|event| event.revision() == revision));
            rest = later;
            let mut deliveries: BTreeMap<u64, Vec<RegistryEvent>> = BTreeMap::new();
            for event in now {
                self.change(event, index, &mut deliveries);
            }
            for (id, events) in deliveries {
                let kept = index.get(id).is_none_or(|w| w.queue.push(Delivery { revision, events }));
                if !kept {
                    index.lose(id);
                }
            }
            self.revision = self.revision.max(revision);
        }
        self.revision = self.revision.max(message.revision);
    }

    fn change(&mut self, event: &Arc<Event>, index: &Index, deliveries: &mut BTreeMap<u64, Vec<RegistryEvent>>) {
        let kv = &event.kv;
        let kind = index.kind();
        let new = (event.kind == EventKind::Put)
            .then(|| Item::read(kind, &kv.key, kv.value.clone(), kv.mod_revision))
            .flatten();
        let mut ids = Vec::new();
        let before = self.items.get(&kv.key);
        index.interested(&kv.key, before.map(|i| &i.facts), new.as_ref().map(|i| &i.facts), &mut ids);
        if !ids.is_empty() {
            let revision = event.revision();
            let served = |item: &Item, revision: i64| item.object(kind, revision).shared();
            // Made once, shared by all who receive it.
            let (mut old_served, mut new_served) = (None, None);
            for id in ids {
                let Some(watcher) = index.get(id).filter(|watcher| watcher.from < revision) else { continue };
                let old = before.filter(|item| watcher.selection.matches(&item.facts));
                let new = new.as_ref().filter(|item| watcher.selection.matches(&item.facts));
                let (event_type, object) = match (old, new) {
                    (None, Some(new)) => (EventType::Added, new_served.get_or_insert_with(|| served(new, revision))),
                    (Some(_), Some(new)) => {
                        (EventType::Modified, new_served.get_or_insert_with(|| served(new, revision)))
                    }
                    (Some(old), None) => (EventType::Deleted, old_served.get_or_insert_with(|| served(old, revision))),
                    (None, None) => continue,
                };
                let object = Some(object.clone());
                let event = RegistryEvent { event_type, revision, object, initial_events_end: false };
                deliveries.entry(id).or_default().push(event);
            }
        }
        match (self.items.entry(kv.key.clone()), new) {
            (Slot::Occupied(mut slot), Some(new)) => drop(slot.insert(new)),
            (Slot::Vacant(slot), Some(new)) => drop(slot.insert(new)),
            (Slot::Occupied(slot), None) => drop(slot.remove()),
            (Slot::Vacant(_), None) => {}
        }
    }
}
