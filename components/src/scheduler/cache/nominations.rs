//! Pods that pods of lower priority make room for: each waits for the node that it was promised.
//!
//! Invariant: a pod is promised one node at most. Pods of no higher priority find the node as if the promised pods were
//! there already.

use std::collections::HashMap;
use std::sync::Arc;

use listwatch_proto::resource::ObjectKey;

use crate::scheduler::Pod;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Nominations {
    by_pod: HashMap<ObjectKey, Arc<str>>,
    by_node: HashMap<Arc<str>, Vec<Arc<Pod>>>,
}

impl Nominations {
    /// The node that the pod was promised.
    pub fn of(&self, key: &ObjectKey) -> Option<&str> {
        self.by_pod.get(key).map(|node| &**node)
    }

    /// The pods that were promised this node.
    pub fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Promises a node; an earlier promise is void.
    pub(super) fn set(&mut self, pod: Arc<Pod>, node: &str) {
        self.remove(&pod.key);
        let node: Arc<str> = Arc::from(node);
        self.by_pod.insert(pod.key.clone(), node.clone());
        self.by_node.entry(node).or_default().push(pod);
    }

    /// Takes a promise back.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(node) = self.by_pod.remove(key) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| pod.key != *key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}
