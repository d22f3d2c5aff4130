//! What happens in the cluster that could make a refused pod fit.

use std::ops::BitOr;
use std::sync::Arc;

use crate::scheduler::{Node, Pod};

/// A change that plugins judge: could it cure my refusal of that pod?
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    /// A node appeared.
    NodeAdded(Arc<Node>),
    /// A node changed in something that matters to placement.
    NodeUpdated {
        /// As it was.
        old: Arc<Node>,
        /// As it is.
        new: Arc<Node>,
    },
    /// A pod took its place on a node.
    PodPlaced(Arc<Pod>),
    /// A pod left its node, or will not use the place it was given.
    PodLeft(Arc<Pod>),
    /// The waiting pod itself changed.
    PodChanged {
        /// As it was.
        old: Arc<Pod>,
        /// As it is.
        new: Arc<Pod>,
    },
    /// Time alone: a refused pod is tried again now and then, whatever was missed.
    Retry,
}

/// A set of kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventKinds(u8);

impl EventKinds {
    /// None.
    pub const NONE: EventKinds = EventKinds(0);
    /// [`ClusterEvent::NodeAdded`]
    pub const NODE_ADDED: EventKinds = EventKinds(1);
    /// [`ClusterEvent::NodeUpdated`]
    pub const NODE_UPDATED: EventKinds = EventKinds(2);
    /// [`ClusterEvent::PodPlaced`]
    pub const POD_PLACED: EventKinds = EventKinds(4);
    /// [`ClusterEvent::PodLeft`]
    pub const POD_LEFT: EventKinds = EventKinds(8);
    /// [`ClusterEvent::PodChanged`]
    pub const POD_CHANGED: EventKinds = EventKinds(16);
    /// Every kind.
    pub const ALL: EventKinds = EventKinds(255);

    /// Whether all of `other` are in this set.
    pub fn contains(self, other: EventKinds) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for EventKinds {
    type Output = EventKinds;
    fn bitor(self, other: Self) -> Self {
        EventKinds(self.0 | other.0)
    }
}

impl ClusterEvent {
    /// Its kind. [`ClusterEvent::Retry`] is of every kind.
    pub fn kind(&self) -> EventKinds {
        match self {
            ClusterEvent::NodeAdded(_) => EventKinds::NODE_ADDED,
            ClusterEvent::NodeUpdated { .. } => EventKinds::NODE_UPDATED,
            ClusterEvent::PodPlaced(_) => EventKinds::POD_PLACED,
            ClusterEvent::PodLeft(_) => EventKinds::POD_LEFT,
            ClusterEvent::PodChanged { .. } => EventKinds::POD_CHANGED,
            ClusterEvent::Retry => EventKinds::NONE,
        }
    }
}

/// What a plugin thinks of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// It could cure the refusal: try the pod again.
    Queue,
    /// It could not.
    Skip,
}

impl From<bool> for Hint {
    fn from(cures: bool) -> Self {
        if cures { Hint::Queue } else { Hint::Skip }
    }
}
