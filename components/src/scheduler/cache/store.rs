//! The cache proper: applies what the watches say and what the scheduler assumes.
//!
//! Invariants: a pod is counted on one node at most; an assumed pod stays until the watch confirms or contradicts it or
//! the binding fails; refreshing a snapshot costs what has changed since the last time, not the number of nodes (only when
//! a node comes, goes or moves to another zone are all of them put in order anew). There is one snapshot to refresh.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use listwatch_proto::resource::ObjectKey;

use super::zones::Zones;
use super::{Nominations, Snapshot};
use crate::scheduler::{Budget, Node, NodeInfo, Pod};

/// Nodes and placed pods.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: HashMap<Arc<str>, Arc<NodeInfo>>,
    pods: HashMap<ObjectKey, Held>,
    /// Nodes that differ from the last snapshot.
    changed: HashSet<Arc<str>>,
    zones: Zones,
    /// Nodes have come, gone or moved since the last snapshot.
    rearranged: bool,
    /// How many nodes hold an image, by name.
    images: Arc<HashMap<Arc<str>, usize>>,
    nominations: Arc<Nominations>,
    budgets: Arc<Vec<Budget>>,
}

#[derive(Debug)]
struct Held {
    pod: Arc<Pod>,
    /// Placed by this scheduler and not yet confirmed by the watch.
    assumed: bool,
}

impl Cache {
    /// Whether this very pod is on its way to a node.
    pub fn is_assumed(&self, key: &ObjectKey, uid: &str) -> bool {
        self.pods.get(key).is_some_and(|held| held.assumed && held.pod.uid == uid)
    }

    /// The pod that is counted under a key.
    pub fn pod(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.pods.get(key).map(|held| &held.pod)
    }

    /// The node object of a name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(name).and_then(|info| info.node.as_ref())
    }

    /// Which pods were promised which node.
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// Promises a waiting pod a node.
    pub fn nominate(&mut self, pod: Arc<Pod>, node: &str) {
        Arc::make_mut(&mut self.nominations).set(pod, node);
    }

    /// Takes back what a pod was promised.
    pub fn withdraw_nomination(&mut self, key: &ObjectKey) {
        if self.nominations.of(key).is_some() {
            Arc::make_mut(&mut self.nominations).remove(key);
        }
    }

    /// Takes in how many pods may be disrupted.
    pub fn set_budgets(&mut self, budgets: Vec<Budget>) {
        self.budgets = Arc::new(budgets);
    }

    /// Counts a pod on the node it was just given, ahead of the watch.
    pub fn assume(&mut self, pod: Arc<Pod>) {
        self.hold(pod, true);
    }

    /// Takes back an assumption whose binding failed; `None` if the watch has settled the matter meanwhile.
    pub fn forget(&mut self, key: &ObjectKey, uid: &str) -> Option<Arc<Pod>> {
        if self.is_assumed(key, uid) { self.release(key) } else { None }
    }

    /// Counts a pod where the watch says it is.
    pub fn set_pod(&mut self, pod: Arc<Pod>) {
        self.hold(pod, false);
    }

    /// Stops counting a pod that is gone, has finished, or has no node.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.release(key)
    }

    /// A node with the pods on it, as it stands.
    pub fn node_info(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(name).filter(|info| info.node.is_some())
    }

    /// Takes in a node as the watch has it; the node as it was comes back.
    pub fn set_node(&mut self, node: Arc<Node>) -> Option<Arc<Node>> {
        let name = node.name.clone();
        let old = self.edit(&name, |info| info.node.replace(node.clone()));
        if old.as_ref().is_none_or(|old| old.zone() != node.zone()) {
            if let Some(old) = &old {
                self.zones.remove(old);
            }
            self.zones.add(&node);
            self.rearranged = true;
        }
        self.count_images(old.as_deref(), Some(&node));
        old
    }

    /// Forgets a node object; pods that still name it stay counted, in case it comes back.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let name: Arc<str> = Arc::from(name);
        let old = self.edit(&name, |info| info.node.take())?;
        self.zones.remove(&old);
        self.rearranged = true;
        self.count_images(Some(&old), None);
        Some(old)
    }

    /// Brings a snapshot up to date.
    pub fn refresh(&mut self, snapshot: &mut Snapshot) {
        snapshot.set_images(&self.images);
        snapshot.set_shared(&self.nominations, &self.budgets);
        if std::mem::take(&mut self.rearranged) {
            self.changed.clear();
            let nodes = &self.nodes;
            snapshot.arrange(self.zones.mixed().filter_map(|name| Some((name, nodes.get(name)?))));
            return;
        }
        for name in self.changed.drain() {
            if let Some(info) = self.nodes.get(&name).filter(|info| info.node.is_some()) {
                snapshot.set(&name, info);
            }
        }
    }

    /// Counts who holds which image.
    fn count_images(&mut self, old: Option<&Node>, new: Option<&Node>) {
        if old.map(|n| &n.images) == new.map(|n| &n.images) {
            return;
        }
        fn names(node: Option<&Node>) -> HashSet<&Arc<str>> {
            node.iter().flat_map(|n| &n.images).flat_map(|i| &i.names).collect()
        }
        let (old, new) = (names(old), names(new));
        if old == new {
            return;
        }
        let images = Arc::make_mut(&mut self.images);
        for name in old.difference(&new) {
            if let Some(count) = images.get_mut(*name) {
                *count -= 1;
                if *count == 0 {
                    images.remove(*name);
                }
            }
        }
        for name in new.difference(&old) {
            *images.entry((*name).clone()).or_default() += 1;
        }
    }

    fn hold(&mut self, pod: Arc<Pod>, assumed: bool) {
        self.release(&pod.key);
        let name: Arc<str> = Arc::from(pod.node_name.as_str());
        self.edit(&name, |info| info.add_pod(pod.clone()));
        self.pods.insert(pod.key.clone(), Held { pod, assumed });
    }

    fn release(&mut self, key: &ObjectKey) -> Option<Arc<Pod>> {
        let held = self.pods.remove(key)?;
        let name: Arc<str> = Arc::from(held.pod.node_name.as_str());
        self.edit(&name, |info| info.remove_pod(key));
        Some(held.pod)
    }

    /// Changes one node's entry, copying it only if a snapshot still holds it; an entry without node and pods goes.
    fn edit<R>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut NodeInfo) -> R) -> R {
        let info = Arc::make_mut(self.nodes.entry(name.clone()).or_default());
        let result = change(info);
        if info.node.is_none() && info.pods.is_empty() {
            self.nodes.remove(name);
        }
        self.changed.insert(name.clone());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::{Amounts, Image};

    fn node(name: &str) -> Arc<Node> {
        Arc::new(Node { name: Arc::from(name), ..Node::default() })
    }

    fn pod(name: &str, on: &str) -> Arc<Pod> {
        Arc::new(Pod {
            key: ObjectKey::new("default", name),
            uid: format!("uid-{name}"),
            node_name: on.to_owned(),
            requests: Amounts::sample(100, 0),
            ..Pod::default()
        })
    }

    fn taken(snapshot: &Snapshot, name: &str) -> Option<i64> {
        snapshot.place(name).map(|place| snapshot.node(place).requested.milli_cpu)
    }

    #[test]
    fn only_changed_nodes_are_copied() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        for name in ["a", "b", "c"] {
            cache.set_node(node(name));
        }
        cache.refresh(&mut snapshot);
        let before: Vec<_> = snapshot.nodes().to_vec();
        cache.assume(pod("p", "b"));
        cache.refresh(&mut snapshot);
        let place = snapshot.place("b").expect("b is there");
        for (at, held) in before.iter().enumerate() {
            assert_eq!(Arc::ptr_eq(held, snapshot.node(at)), at != place, "node {at}");
        }
        assert_eq!(before[place].pods.len(), 0, "an older snapshot does not change");
        assert_eq!(taken(&snapshot, "b"), Some(100));
    }

    #[test]
    fn a_change_costs_what_has_changed() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        for at in 0..500 {
            cache.set_node(node(&format!("n{at}")));
        }
        cache.refresh(&mut snapshot);
        assert!(cache.changed.is_empty() && !cache.rearranged);
        for at in 0..7 {
            cache.assume(pod(&format!("p{at}"), &format!("n{at}")));
        }
        // A new label is no new place.
        let mut labelled = Node::clone(&node("n400"));
        labelled.labels.insert("k".into(), "v".into());
        cache.set_node(Arc::new(labelled));
        assert_eq!((cache.changed.len(), cache.rearranged), (8, false));
        cache.refresh(&mut snapshot);
        assert!(cache.changed.is_empty());
        let place = snapshot.place("n400").expect("it is there");
        assert_eq!(snapshot.node(place).object().labels.len(), 1);
        // A pod on a node that does not exist is kept for later, and no node of the snapshot.
        cache.set_pod(pod("q", "nowhere"));
        cache.refresh(&mut snapshot);
        assert_eq!((snapshot.len(), snapshot.place("nowhere")), (500, None));
    }

    #[test]
    fn images_are_counted_by_node() {
        let holding = |name: &str, images: &[&str]| {
            let names = images.iter().map(|i| Arc::from(*i)).collect();
            Arc::new(Node { images: vec![Image { names, size: 1 }], ..Node::clone(&node(name)) })
        };
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        let mut counts = |cache: &mut Cache| {
            cache.refresh(&mut snapshot);
            ["x", "y", "z"].map(|name| snapshot.nodes_with_image(name))
        };
        cache.set_node(holding("a", &["x", "y"]));
        cache.set_node(holding("b", &["x", "x"]));
        assert_eq!(counts(&mut cache), [2, 1, 0]);
        cache.set_node(holding("a", &["y", "z"]));
        assert_eq!(counts(&mut cache), [1, 1, 1]);
        cache.remove_node("a");
        assert_eq!(counts(&mut cache), [1, 0, 0]);
    }

    #[test]
    fn an_assumption_is_confirmed_or_forgotten() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_node(node("a"));
        cache.set_node(node("b"));
        let key = ObjectKey::new("default", "p");
        cache.assume(pod("p", "a"));
        assert!(cache.is_assumed(&key, "uid-p") && !cache.is_assumed(&key, "other"));
        assert!(cache.forget(&key, "other").is_none());
        // The watch may say another node than was assumed: it is right.
        cache.set_pod(pod("p", "b"));
        assert!(cache.forget(&key, "uid-p").is_none());
        cache.refresh(&mut snapshot);
        assert_eq!((taken(&snapshot, "a"), taken(&snapshot, "b")), (Some(0), Some(100)));
        cache.assume(pod("q", "a"));
        assert!(cache.forget(&ObjectKey::new("default", "q"), "uid-q").is_some());
        cache.refresh(&mut snapshot);
        assert_eq!(taken(&snapshot, "a"), Some(0));
    }

    #[test]
    fn pods_outlive_a_node_that_goes_and_comes_back() {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_pod(pod("p", "a"));
        cache.refresh(&mut snapshot);
        assert!(snapshot.is_empty());
        cache.set_node(node("a"));
        cache.set_node(node("b"));
        cache.refresh(&mut snapshot);
        assert_eq!(taken(&snapshot, "a"), Some(100));
        cache.remove_node("a");
        cache.refresh(&mut snapshot);
        assert_eq!((snapshot.len(), taken(&snapshot, "a"), taken(&snapshot, "b")), (1, None, Some(0)));
        cache.set_node(node("a"));
        cache.refresh(&mut snapshot);
        assert_eq!(taken(&snapshot, "a"), Some(100));
        cache.remove_pod(&ObjectKey::new("default", "p"));
        cache.remove_node("a");
        assert!(cache.nodes.len() == 1, "an entry without node and pods goes");
    }
}
