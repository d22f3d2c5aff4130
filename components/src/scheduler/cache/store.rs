//! The cache proper: applies what the watches say and what the scheduler assumes.
//!
//! Invariants: a pod is counted on one node at most; an assumed pod stays until the watch confirms or contradicts it or
//! the binding fails; refreshing a snapshot costs what has changed since the last time, not the number of nodes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use listwatch_proto::resource::ObjectKey;

use super::Snapshot;
use crate::scheduler::{Node, NodeInfo, Pod};

/// Nodes and placed pods.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: HashMap<Arc<str>, Arc<NodeInfo>>,
    pods: HashMap<ObjectKey, Held>,
    /// Nodes that differ from the last snapshot.
    changed: HashSet<Arc<str>>,
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

    /// Takes in a node as the watch has it; the node as it was comes back.
    pub fn set_node(&mut self, node: Arc<Node>) -> Option<Arc<Node>> {
        let name = node.name.clone();
        self.edit(&name, |info| info.node.replace(node))
    }

    /// Forgets a node object; pods that still name it stay counted, in case it comes back.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let name: Arc<str> = Arc::from(name);
        self.edit(&name, |info| info.node.take())
    }

    /// Brings a snapshot up to date.
    pub fn refresh(&mut self, snapshot: &mut Snapshot) {
        for name in self.changed.drain() {
            match self.nodes.get(&name) {
                Some(info) if info.node.is_some() => snapshot.set(&name, info.clone()),
                _ => snapshot.remove(&name),
            }
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
    use crate::scheduler::Amounts;

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
