//! The cache of a collection: one writer, many readers, indices, and how far it has seen.
//!
//! Invariants: the one [`Writer`] cannot be cloned; a reader never sees a half-filled cache (a resync is swapped in
//! under one lock); every index agrees with the objects at all times; the progress moves only after the objects it
//! speaks of are in.
//!
//! Lock order: there is one lock, around the objects and their indices. It is held for map operations and for the
//! pure index functions, never over an await.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use listwatch_proto::resource::ObjectKey;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::client::{Cached, Decode, Resource};

/// The index by uid of every owner; see [`IndexerBuilder::index`] and [`owner_uids`].
pub const BY_OWNER: &str = "owner";

/// The values under which an object is found in an index.
type IndexFn<T> = Box<dyn Fn(&Cached<T>) -> Vec<String> + Send + Sync>;

/// What happened to the cache.
#[derive(Debug)]
pub enum Change<T> {
    /// The object is new.
    Added(Arc<Cached<T>>),
    /// The object has changed. An object made anew under the same name comes as `Deleted`, then `Added`.
    Updated {
        /// As it was.
        old: Arc<Cached<T>>,
        /// As it is.
        new: Arc<Cached<T>>,
    },
    /// The object is gone; this is the last that was seen of it.
    Deleted(Arc<Cached<T>>),
}

impl<T> Change<T> {
    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.object().key
    }

    /// The object, as it now is or last was.
    pub fn object(&self) -> &Arc<Cached<T>> {
        match self {
            Change::Added(object) | Change::Deleted(object) | Change::Updated { new: object, .. } => object,
        }
    }
}

/// How far a cache has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// The first full state is in.
    pub synced: bool,
    /// Every event of the collection at or below this revision is in.
    pub revision: i64,
    /// The history that the revision belongs to.
    pub incarnation: String,
    /// How often the whole state was taken: once, and once more after each time that history was gone.
    pub states: u64,
}

/// The cache's feeder has ended: what was waited for will not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cache is no longer fed")]
pub struct Stopped;

/// Makes a cache: which indices it keeps.
pub struct IndexerBuilder<T> {
    indices: Vec<Index<T>>,
}

struct Index<T> {
    name: &'static str,
    values: IndexFn<T>,
    members: HashMap<String, HashSet<ByKey<T>>>,
}

/// The writing half. There is one.
pub struct Writer<T> {
    shared: Arc<Shared<T>>,
    states: u64,
    progress: watch::Sender<Progress>,
}

/// The reading half. Clones read the same cache.
pub struct Store<T> {
    shared: Arc<Shared<T>>,
    progress: watch::Receiver<Progress>,
}

struct Shared<T> {
    /// Guards the objects and their indices together.
    state: RwLock<State<T>>,
}

struct State<T> {
    objects: HashSet<ByKey<T>>,
    namespaces: HashMap<String, HashSet<ByKey<T>>>,
    indices: Vec<Index<T>>,
}

/// An object in a set of objects that differ by key, so that no index needs a copy of the key.
struct ByKey<T>(Arc<Cached<T>>);

impl<T> Default for IndexerBuilder<T> {
    fn default() -> Self {
        IndexerBuilder { indices: Vec::new() }
    }
}

impl<T: Send + Sync + 'static> IndexerBuilder<T> {
    /// A cache that is indexed by namespace alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an index: the function names the values under which an object is found.
    #[must_use]
    pub fn index<I, F>(mut self, name: &'static str, values: F) -> Self
    where
        F: Fn(&Cached<T>) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = String>,
    {
        assert!(self.indices.iter().all(|i| i.name != name), "index {name:?} is there already");
        let values: IndexFn<T> = Box::new(move |object| values(object).into_iter().collect());
        self.indices.push(Index { name, values, members: HashMap::new() });
        self
    }

    /// The two halves of the empty cache.
    pub fn build(self) -> (Writer<T>, Store<T>) {
        let state = State { objects: HashSet::new(), namespaces: HashMap::new(), indices: self.indices };
        let shared = Arc::new(Shared { state: RwLock::new(state) });
        let (sender, receiver) = watch::channel(Progress::default());
        (Writer { shared: shared.clone(), states: 0, progress: sender }, Store { shared, progress: receiver })
    }
}

/// The values for [`BY_OWNER`].
pub fn owner_uids<T: Resource>(object: &Cached<T>) -> Vec<String> {
    object.metadata().owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
}

impl<T: Decode> Writer<T> {
    /// Puts an object in. The caller sees to the order of revisions.
    pub fn apply(&mut self, object: Cached<T>) -> Vec<Change<T>> {
        let new = Arc::new(object);
        let mut state = self.shared.state.write();
        let old = state.objects.get(&new.key).map(|o| o.0.clone());
        match old {
            None => {
                state.insert(new.clone());
                vec![Change::Added(new)]
            }
            Some(old) if old.uid == new.uid => {
                state.remove(&old);
                state.insert(new.clone());
                vec![Change::Updated { old, new }]
            }
            Some(old) => {
                state.remove(&old);
                state.insert(new.clone());
                vec![Change::Deleted(old), Change::Added(new)]
            }
        }
    }

    /// Takes an object out; what was known of it comes back, as it was when it went.
    pub fn delete(&mut self, last: Cached<T>) -> Option<Change<T>> {
        let mut state = self.shared.state.write();
        let old = state.objects.get(&last.key).map(|o| o.0.clone())?;
        state.remove(&old);
        Some(Change::Deleted(Arc::new(last)))
    }

    /// Makes the cache equal to this state: what is not in it is deleted, what is the same stays as it is, and so does
    /// what is in `unreadable` (it exists, but its present content could not be read).
    pub fn replace(
        &mut self,
        objects: impl IntoIterator<Item = Cached<T>>,
        unreadable: &HashSet<ObjectKey>,
    ) -> Vec<Change<T>> {
        self.states += 1;
        let mut changes = Vec::new();
        let mut state = self.shared.state.write();
        let mut gone: HashSet<_> =
            state.objects.iter().map(|o| o.0.key.clone()).filter(|key| !unreadable.contains(key)).collect();
        for object in objects {
            gone.remove(&object.key);
            let old = state.objects.get(&object.key).map(|o| o.0.clone());
            match old {
                Some(old) if old.uid == object.uid && old.revision == object.revision => {}
                Some(old) => {
                    let new = Arc::new(object);
                    state.remove(&old);
                    state.insert(new.clone());
                    if old.uid == new.uid {
                        changes.push(Change::Updated { old, new });
                    } else {
                        changes.push(Change::Deleted(old));
                        changes.push(Change::Added(new));
                    }
                }
                None => {
                    let new = Arc::new(object);
                    state.insert(new.clone());
                    changes.push(Change::Added(new));
                }
            }
        }
        for key in gone {
            let old = state.objects.get(&key).map(|o| o.0.clone());
            if let Some(old) = old {
                state.remove(&old);
                changes.push(Change::Deleted(old));
            }
        }
        changes
    }

    /// Tells readers how far the cache has come. A lower revision of the same history is not taken.
    pub fn advance(&mut self, revision: i64, incarnation: &str) {
        self.progress.send_if_modified(|progress| {
            let same = progress.synced && progress.incarnation == incarnation && progress.states == self.states;
            if same && revision <= progress.revision {
                return false;
            }
            progress.synced = true;
            progress.revision = revision;
            progress.states = self.states;
            if progress.incarnation != incarnation {
                progress.incarnation = incarnation.to_owned();
            }
            true
        });
    }
}

impl<T> State<T> {
    fn insert(&mut self, object: Arc<Cached<T>>) {
        let namespace = &object.key.namespace;
        if !namespace.is_empty() {
            match self.namespaces.get_mut(namespace) {
                Some(members) => drop(members.insert(ByKey(object.clone()))),
                None => drop(self.namespaces.insert(namespace.clone(), HashSet::from([ByKey(object.clone())]))),
            }
        }
        for index in &mut self.indices {
            for value in (index.values)(&object) {
                index.members.entry(value).or_default().insert(ByKey(object.clone()));
            }
        }
        self.objects.insert(ByKey(object));
    }

    fn remove(&mut self, object: &Arc<Cached<T>>) {
        fn forget<T>(members: &mut HashMap<String, HashSet<ByKey<T>>>, value: &str, key: &ObjectKey) {
            if let Some(set) = members.get_mut(value) {
                set.remove(key);
                if set.is_empty() {
                    members.remove(value);
                }
            }
        }
        forget(&mut self.namespaces, &object.key.namespace, &object.key);
        for index in &mut self.indices {
            for value in (index.values)(object) {
                forget(&mut index.members, &value, &object.key);
            }
        }
        self.objects.remove(&object.key);
    }
}

impl<T> Store<T> {
    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Cached<T>>> {
        self.shared.state.read().objects.get(key).map(|o| o.0.clone())
    }

    /// Every object, in no order.
    pub fn list(&self) -> Vec<Arc<Cached<T>>> {
        self.shared.state.read().objects.iter().map(|o| o.0.clone()).collect()
    }

    /// The objects of one namespace, in no order.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Cached<T>>> {
        let state = self.shared.state.read();
        state.namespaces.get(namespace).into_iter().flatten().map(|o| o.0.clone()).collect()
    }

    /// The objects under a value of an index, in no order. Panics if the cache was built without that index.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<Cached<T>>> {
        let state = self.shared.state.read();
        let index = state.indices.iter().find(|i| i.name == name);
        let index = index.unwrap_or_else(|| panic!("the cache was built without index {name:?}"));
        index.members.get(value).into_iter().flatten().map(|o| o.0.clone()).collect()
    }

    /// The objects that name this uid as an owner. Panics if the cache was built without [`BY_OWNER`].
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Cached<T>>> {
        self.by_index(BY_OWNER, uid)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.state.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far the cache has come.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Every event of the collection at or below this revision is in; 0 before the first sync.
    pub fn seen_up_to(&self) -> i64 {
        self.progress.borrow().revision
    }

    /// Waits until the first full state is in. Cancel safe.
    pub async fn wait_synced(&self) -> Result<(), Stopped> {
        self.progress.clone().wait_for(|p| p.synced).await.map(drop).map_err(|_| Stopped)
    }

    /// Waits until every event of the collection at or below this revision is in. Cancel safe.
    ///
    /// After a change of the server's history revisions of the old one mean nothing: the wait then ends with the first
    /// state of the new one, whatever its revision.
    pub async fn wait_for(&self, revision: i64) -> Result<(), Stopped> {
        let mut progress = self.progress.clone();
        let at_start = progress.borrow().incarnation.clone();
        let reached =
            |p: &Progress| p.synced && (p.revision >= revision || (!at_start.is_empty() && p.incarnation != at_start));
        progress.wait_for(reached).await.map(drop).map_err(|_| Stopped)
    }
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Store { shared: self.shared.clone(), progress: self.progress.clone() }
    }
}

impl<T> Clone for ByKey<T> {
    fn clone(&self) -> Self {
        ByKey(self.0.clone())
    }
}

impl<T> Borrow<ObjectKey> for ByKey<T> {
    fn borrow(&self) -> &ObjectKey {
        &self.0.key
    }
}

impl<T> PartialEq for ByKey<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl<T> Eq for ByKey<T> {}

impl<T> Hash for ByKey<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Debug, Clone)]
    struct Slim(String);

    impl Decode for Slim {
        fn decode(_wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
            Ok(Slim(String::new()))
        }
    }

    fn object(name: u8, uid: u8, revision: i64, group: u8) -> Cached<Slim> {
        let key = ObjectKey::new(format!("ns{}", name % 2), format!("n{name}"));
        Cached { key, uid: format!("u{name}-{uid}"), revision, object: Slim(format!("g{group}")) }
    }

    fn cache() -> (Writer<Slim>, Store<Slim>) {
        IndexerBuilder::new().index("group", |o: &Cached<Slim>| [o.0.clone(), "every".to_owned()]).build()
    }

    #[derive(Debug, Clone)]
    enum Op {
        Apply(u8, u8, u8),
        Delete(u8),
        Replace(Vec<(u8, u8, u8)>),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let one = || (0..8_u8, 0..2_u8, 0..3_u8);
        let op = prop_oneof![
            5 => one().prop_map(|(n, u, g)| Op::Apply(n, u, g)),
            2 => (0..8_u8).prop_map(Op::Delete),
            1 => prop::collection::vec(one(), 0..8).prop_map(Op::Replace),
        ];
        prop::collection::vec(op, 0..60)
    }

    type Model = BTreeMap<ObjectKey, (String, i64, String)>;

    fn check(store: &Store<Slim>, model: &Model) {
        let flat = |list: Vec<Arc<Cached<Slim>>>| -> Model {
            list.iter().map(|o| (o.key.clone(), (o.uid.clone(), o.revision, o.0.clone()))).collect()
        };
        assert_eq!(&flat(store.list()), model);
        assert_eq!(&flat(store.by_index("group", "every")), model);
        for group in ["g0", "g1", "g2"] {
            let expected: Model =
                model.iter().filter(|(_, v)| v.2 == group).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(flat(store.by_index("group", group)), expected);
        }
        for namespace in ["ns0", "ns1"] {
            let expected: BTreeSet<_> = model.keys().filter(|k| k.namespace == namespace).cloned().collect();
            let found: BTreeSet<_> = store.in_namespace(namespace).iter().map(|o| o.key.clone()).collect();
            assert_eq!(found, expected);
        }
    }

    /// What a listener that starts empty would hold after these changes.
    fn follow(model: &mut Model, changes: Vec<Change<Slim>>) {
        for change in changes {
            let object = change.object().clone();
            let value = (object.uid.clone(), object.revision, object.0.clone());
            match change {
                Change::Added(_) => assert_eq!(model.insert(object.key.clone(), value), None),
                Change::Updated { old, .. } => {
                    let before = model.insert(object.key.clone(), value).expect("known");
                    assert_eq!((before.0, before.1), (old.uid.clone(), old.revision));
                }
                Change::Deleted(_) => assert!(model.remove(&object.key).is_some()),
            }
        }
    }

    proptest! {
        /// Objects, namespaces, indices and what listeners are told agree with a plain map at all times.
        #[test]
        fn the_cache_and_its_indices_agree_with_a_map(ops in ops()) {
            let (mut writer, store) = cache();
            let (mut model, mut told) = (Model::new(), Model::new());
            let put = |model: &mut Model, o: &Cached<Slim>| {
                model.insert(o.key.clone(), (o.uid.clone(), o.revision, o.0.clone()));
            };
            for (op, revision) in ops.into_iter().zip(1_i64..) {
                let changes = match op {
                    Op::Apply(name, uid, group) => {
                        let new = object(name, uid, revision, group);
                        put(&mut model, &new);
                        writer.apply(new)
                    }
                    Op::Delete(name) => {
                        let gone = object(name, 0, revision, 0);
                        model.remove(&gone.key);
                        writer.delete(gone).into_iter().collect()
                    }
                    Op::Replace(list) => {
                        let unique: BTreeMap<u8, _> = list.into_iter().map(|(n, u, g)| (n, (u, g))).collect();
                        let list: Vec<_> =
                            unique.into_iter().map(|(n, (u, g))| object(n, u, revision, g)).collect();
                        model.clear();
                        list.iter().for_each(|o| put(&mut model, o));
                        writer.replace(list, &HashSet::new())
                    }
                };
                follow(&mut told, changes);
                check(&store, &model);
                prop_assert_eq!(&told, &model);
            }
        }
    }

    #[tokio::test]
    async fn progress_never_goes_back_within_a_history() {
        let (mut writer, store) = cache();
        assert!(!store.progress().synced);
        writer.advance(10, "one");
        writer.advance(7, "one");
        assert_eq!(store.seen_up_to(), 10);
        store.wait_for(10).await.expect("there already");
        writer.advance(3, "two");
        assert_eq!(store.progress(), Progress { synced: true, revision: 3, incarnation: "two".into(), states: 0 });
    }

    #[tokio::test]
    async fn a_wait_for_a_revision_of_a_lost_history_ends_with_the_new_one() {
        let (mut writer, store) = cache();
        writer.advance(10, "one");
        let mut waiting = Box::pin(store.wait_for(50));
        assert!(futures::poll!(&mut waiting).is_pending());
        writer.advance(4, "two");
        waiting.await.expect("the new history is in");
    }
}
