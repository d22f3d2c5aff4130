//! What happens in the cluster that could make a refused pod fit.

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use crate::scheduler::{Node, NodeInfo, Pod};

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
    /// A pod with a place has changed its labels or what it takes.
    PodUpdated {
        /// As it was.
        old: Arc<Pod>,
        /// As it is.
        new: Arc<Pod>,
        /// Its node after the change; `None`: the node does not exist.
        node: Option<Arc<NodeInfo>>,
    },
    /// A pod left its node, or will not use the place it was given.
    PodLeft {
        /// The pod.
        pod: Arc<Pod>,
        /// The node without it; `None`: the node does not exist.
        node: Option<Arc<NodeInfo>>,
    },
    /// The waiting pod itself changed.
    PodChanged {
        /// As it was.
        old: Arc<Pod>,
        /// As it is.
        new: Arc<Pod>,
    },
    /// Time alone, or more events than can be remembered: everybody is tried again, whatever was missed.
    Retry,
}

/// A set of kinds of events. Updates are split by what has changed, so that only those are asked whom it concerns.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct EventKinds(u16);

impl EventKinds {
    /// None.
    pub const NONE: EventKinds = EventKinds(0);
    /// A node appeared.
    pub const NODE_ADDED: EventKinds = EventKinds(1);
    /// A node's labels changed.
    pub const NODE_LABELS: EventKinds = EventKinds(1 << 1);
    /// A node's taints changed, or it was cordoned or uncordoned.
    pub const NODE_TAINTS: EventKinds = EventKinds(1 << 2);
    /// A node's allocatable amounts changed.
    pub const NODE_ALLOCATABLE: EventKinds = EventKinds(1 << 3);
    /// [`ClusterEvent::PodPlaced`]
    pub const POD_PLACED: EventKinds = EventKinds(1 << 4);
    /// A placed pod's labels changed.
    pub const POD_LABELS: EventKinds = EventKinds(1 << 5);
    /// A placed pod takes less of something.
    pub const POD_SCALED_DOWN: EventKinds = EventKinds(1 << 6);
    /// [`ClusterEvent::PodLeft`]
    pub const POD_LEFT: EventKinds = EventKinds(1 << 7);
    /// The waiting pod's tolerations changed.
    pub const OWN_TOLERATIONS: EventKinds = EventKinds(1 << 8);
    /// The waiting pod's last gate was taken away.
    pub const OWN_GATES: EventKinds = EventKinds(1 << 9);
    /// The waiting pod's labels changed.
    pub const OWN_LABELS: EventKinds = EventKinds(1 << 10);
    /// The waiting pod asks for less of something.
    pub const OWN_SCALED_DOWN: EventKinds = EventKinds(1 << 11);
    /// The waiting pod's node selector or node affinity changed.
    pub const OWN_NODE_RULES: EventKinds = EventKinds(1 << 12);
    /// Every kind.
    pub const ALL: EventKinds = EventKinds(u16::MAX);

    /// Whether the sets have a kind in common.
    pub fn intersects(self, other: EventKinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it holds no kind.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn when(self, holds: bool) -> EventKinds {
        if holds { self } else { EventKinds::NONE }
    }
}

impl BitOr for EventKinds {
    type Output = EventKinds;
    fn bitor(self, other: Self) -> Self {
        EventKinds(self.0 | other.0)
    }
}

impl fmt::Debug for EventKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventKinds({:#b})", self.0)
    }
}

impl ClusterEvent {
    /// Its kinds; none if nothing that matters has changed. [`ClusterEvent::Retry`] is of every kind.
    pub fn kinds(&self) -> EventKinds {
        match self {
            ClusterEvent::NodeAdded(_) => EventKinds::NODE_ADDED,
            ClusterEvent::NodeUpdated { old, new } => {
                EventKinds::NODE_LABELS.when(old.labels != new.labels)
                    | EventKinds::NODE_TAINTS.when(old.taints != new.taints || old.unschedulable != new.unschedulable)
                    | EventKinds::NODE_ALLOCATABLE.when(old.allocatable != new.allocatable)
            }
            ClusterEvent::PodPlaced(_) => EventKinds::POD_PLACED,
            ClusterEvent::PodUpdated { old, new, .. } => {
                EventKinds::POD_LABELS.when(old.labels != new.labels)
                    | EventKinds::POD_SCALED_DOWN.when(new.requests.is_less_somewhere(&old.requests))
            }
            ClusterEvent::PodLeft { .. } => EventKinds::POD_LEFT,
            ClusterEvent::PodChanged { old, new } => {
                let (was, is) = (old.asks(), new.asks());
                EventKinds::OWN_TOLERATIONS.when(was.tolerations != is.tolerations)
                    | EventKinds::OWN_GATES.when(was.gated && !is.gated)
                    | EventKinds::OWN_LABELS.when(old.labels != new.labels)
                    | EventKinds::OWN_SCALED_DOWN.when(new.requests.is_less_somewhere(&old.requests))
                    | EventKinds::OWN_NODE_RULES
                        .when(was.node_selector != is.node_selector || was.node_affinity != is.node_affinity)
            }
            ClusterEvent::Retry => EventKinds::ALL,
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
