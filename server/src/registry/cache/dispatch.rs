//! Who is interested in a change: found through indexes, so that an event costs as much as it has readers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use listwatch_proto::resource::{KINDS, Kind};

use super::super::facts::Facts;
use super::super::kinds::strategy;
use super::super::selection::Selection;
use super::super::{RegistryWatcher, StoreWatcher};
use super::queue::Queue;

/// Where a watcher is found. Each stands in exactly one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Key(Bytes),
    Field(&'static str, Box<str>),
    Namespace(Box<str>),
    All,
}

/// Where the number of the kind stands in the number of a watcher: no cache sees as many watchers as fit below.
const KIND_SHIFT: u32 = 48;

/// A watcher.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) selection: Selection,
    pub(super) queue: Arc<Queue>,
    /// Events at or below it are not for this watcher.
    pub(super) from: i64,
    place: Place,
    who: StoreWatcher,
}

/// All watchers of a kind.
#[derive(Debug)]
pub(super) struct Index {
    kind: &'static Kind,
    /// The fields by which watchers are found, the most selective first.
    fields: &'static [&'static str],
    watchers: BTreeMap<u64, Watcher>,
    /// Those let go that have not noticed yet: an operator wants to see a reader that stands still.
    lost: BTreeMap<u64, Watcher>,
    places: HashMap<Place, Vec<u64>>,
    next_id: u64,
}

impl Index {
    pub(super) fn new(kind: &'static Kind) -> Self {
        let fields = strategy(kind).indexed_fields();
        Self { kind, fields, watchers: BTreeMap::new(), lost: BTreeMap::new(), places: HashMap::new(), next_id: 1 }
    }

    /// Takes a watcher in.
    pub(super) fn join(&mut self, selection: Selection, queue: Arc<Queue>, from: i64, who: StoreWatcher) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let place = self.place(&selection);
        self.places.entry(place.clone()).or_default().push(id);
        self.watchers.insert(id, Watcher { selection, queue, from, place, who });
        id
    }

    /// Lets a watcher out.
    pub(super) fn leave(&mut self, id: u64) {
        self.lose(id);
        self.lost.remove(&id);
    }

    /// Lets a watcher go: nothing more comes to it from here.
    pub(super) fn lose(&mut self, id: u64) {
        let Some(watcher) = self.watchers.remove(&id) else { return };
        watcher.queue.lose();
        if let Some(ids) = self.places.get_mut(&watcher.place) {
            ids.retain(|own| *own != id);
            if ids.is_empty() {
                self.places.remove(&watcher.place);
            }
        }
        self.lost.insert(id, watcher);
    }

    /// Lets all watchers go.
    pub(super) fn lose_all(&mut self) {
        let ids: Vec<u64> = self.watchers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.lose(id));
    }

    /// The ids of all that may be interested in a change of the object under this key.
    pub(super) fn interested(&self, key: &Bytes, old: Option<&Facts>, new: Option<&Facts>, ids: &mut Vec<u64>) {
        let mut look = |place: Place| {
            if let Some(found) = self.places.get(&place) {
                ids.extend(found);
            }
        };
        look(Place::All);
        look(Place::Key(key.clone()));
        if let Some(facts) = old.or(new) {
            look(Place::Namespace(facts.namespace.clone()));
        }
        for path in self.fields {
            let (before, after) = (old.map(|f| f.field(self.kind, path)), new.map(|f| f.field(self.kind, path)));
            for value in before.into_iter().chain(after.filter(|after| before != Some(*after))) {
                look(Place::Field(path, value.into()));
            }
        }
    }

    /// The kind whose watchers these are.
    pub(super) fn kind(&self) -> &'static Kind {
        self.kind
    }

    pub(super) fn get(&self, id: u64) -> Option<&Watcher> {
        self.watchers.get(&id)
    }

    /// For the operator's list.
    pub(super) fn list(&self, revision: i64) -> Vec<RegistryWatcher> {
        let kind = KINDS.iter().position(|kind| kind == self.kind).unwrap_or_default() as u64;
        let shown = |(id, watcher): (&u64, &Watcher), in_step: bool| {
            let counts = watcher.queue.counts();
            let has_all = in_step && counts.waiting == 0;
            RegistryWatcher {
                id: (kind << KIND_SHIFT) | id,
                watcher: watcher.who.clone(),
                revision: if has_all { revision.max(watcher.from) } else { counts.handed.max(watcher.from) },
                delivered: counts.delivered,
                in_step,
            }
        };
        let in_step = self.watchers.iter().map(|entry| shown(entry, true));
        in_step.chain(self.lost.iter().map(|entry| shown(entry, false))).collect()
    }

    fn place(&self, selection: &Selection) -> Place {
        if let Some(key) = selection.single_key() {
            return Place::Key(key);
        }
        for path in self.fields {
            if let Some(value) = selection.pinned(path) {
                return Place::Field(path, value.into());
            }
        }
        if selection.namespace.is_empty() { Place::All } else { Place::Namespace(selection.namespace.as_str().into()) }
    }
}
