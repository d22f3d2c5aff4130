//! The nodes as one cycle sees them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::scheduler::NodeInfo;

/// Nodes that exist, each with the pods on it. Nothing changes while a cycle reads it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    nodes: Vec<Arc<NodeInfo>>,
    places: HashMap<Arc<str>, usize>,
}

impl Snapshot {
    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node in a place.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn node(&self, place: usize) -> &Arc<NodeInfo> {
        &self.nodes[place]
    }

    /// The nodes in order of place.
    pub fn nodes(&self) -> &[Arc<NodeInfo>] {
        &self.nodes
    }

    /// The place of a node.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Puts a node in its place, or in a new one at the end.
    pub(super) fn set(&mut self, name: &Arc<str>, info: Arc<NodeInfo>) {
        match self.places.get(name) {
            Some(place) => self.nodes[*place] = info,
            None => {
                self.places.insert(name.clone(), self.nodes.len());
                self.nodes.push(info);
            }
        }
    }

    /// Takes a node out; the last one moves into its place.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(place) = self.places.remove(name) else { return };
        self.nodes.swap_remove(place);
        if let Some(moved) = self.nodes.get(place) {
            self.places.insert(moved.object().name.clone(), place);
        }
    }
}
