//! The nodes as one cycle sees them.

use std::collections::HashMap;
use std::sync::Arc;

use super::Nominations;
use crate::scheduler::{Budget, NodeInfo};

/// Nodes that exist, each with the pods on it, zones mixed. Nothing changes while a cycle reads it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    nodes: Vec<Arc<NodeInfo>>,
    places: HashMap<Arc<str>, usize>,
    /// How many nodes hold an image, by name.
    images: Arc<HashMap<Arc<str>, usize>>,
    nominations: Arc<Nominations>,
    budgets: Arc<Vec<Budget>>,
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

    /// How many nodes hold an image of this name.
    pub fn nodes_with_image(&self, name: &str) -> usize {
        self.images.get(name).copied().unwrap_or(0)
    }

    /// Puts a node in its place, if it has one.
    pub(super) fn set(&mut self, name: &str, info: &Arc<NodeInfo>) {
        if let Some(place) = self.places.get(name) {
            self.nodes[*place] = info.clone();
        }
    }

    /// Gives every node its place anew.
    pub(super) fn arrange<'a>(&mut self, nodes: impl Iterator<Item = (&'a Arc<str>, &'a Arc<NodeInfo>)>) {
        self.nodes.clear();
        self.places.clear();
        for (name, info) in nodes {
            self.places.insert(name.clone(), self.nodes.len());
            self.nodes.push(info.clone());
        }
    }

    /// Which pods were promised which node.
    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// How many pods may be disrupted.
    pub fn budgets(&self) -> &[Budget] {
        &self.budgets
    }

    /// Takes over what is true of no single node.
    pub(super) fn set_shared(&mut self, nominations: &Arc<Nominations>, budgets: &Arc<Vec<Budget>>) {
        self.nominations = nominations.clone();
        self.budgets = budgets.clone();
    }

    /// Takes over who holds which image.
    pub(super) fn set_images(&mut self, images: &Arc<HashMap<Arc<str>, usize>>) {
        if !Arc::ptr_eq(&self.images, images) {
            self.images = images.clone();
        }
    }
}
