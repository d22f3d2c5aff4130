//! A profile: the plugins of each extension point, in order.

use std::sync::Arc;

use super::{CycleState, EventKinds, Filter, Plugin, PostFilter, PreEnqueue, PreFilter, Rejection, Score};
use crate::scheduler::{NodeInfo, Pod};

/// A scoring plugin and how much it counts.
pub struct Weighted {
    /// The plugin.
    pub plugin: Box<dyn Score>,
    /// What its score from 0 to 100 is multiplied by.
    pub weight: i64,
}

/// The plugins that a scheduler runs, in order of each list.
#[derive(Default)]
pub struct Profile {
    /// Before a pod may be tried.
    pub pre_enqueue: Vec<Box<dyn PreEnqueue>>,
    /// Before the nodes are looked at.
    pub pre_filters: Vec<Box<dyn PreFilter>>,
    /// For each node, until one refuses.
    pub filters: Vec<Box<dyn Filter>>,
    /// When every node was refused.
    pub post_filters: Vec<Box<dyn PostFilter>>,
    /// For each node that fits.
    pub scores: Vec<Weighted>,
}

impl Profile {
    /// Runs the filters on a node until one refuses.
    pub fn filter(&self, state: &CycleState, pod: &Pod, node: &NodeInfo) -> Result<(), Rejection> {
        self.filters.iter().try_for_each(|plugin| plugin.filter(state, pod, node))
    }

    /// Whether the pod fits, also when the pods that were promised the node and are no less important have come.
    pub fn fits(&self, state: &CycleState, pod: &Pod, node: &NodeInfo, promised: &[Arc<Pod>]) -> Result<(), Rejection> {
        let rivals = || promised.iter().filter(|other| other.priority >= pod.priority && other.key != pod.key);
        if rivals().next().is_some() {
            let mut crowded = node.clone();
            rivals().for_each(|rival| crowded.add_pod(rival.clone()));
            self.filter(state, pod, &crowded)?;
        }
        // And without them: they may never come.
        self.filter(state, pod, node)
    }

    /// Whether the pod may be tried.
    pub fn may_be_tried(&self, pod: &Pod) -> bool {
        self.pre_enqueue.iter().all(|plugin| plugin.may_be_tried(pod))
    }

    /// The plugin of a name, if it is one that refuses nodes or pods.
    pub fn refuser(&self, name: &str) -> Option<&dyn Plugin> {
        let filters = self.filters.iter().map(|p| &**p as &dyn Plugin);
        let pre_filters = self.pre_filters.iter().map(|p| &**p as &dyn Plugin);
        filters.chain(pre_filters).find(|p| p.name() == name)
    }

    /// The kinds of events that could cure a refusal by this name.
    pub fn cures(&self, name: &str) -> EventKinds {
        match self.refuser(name) {
            Some(plugin) => plugin.events(),
            None if name == NO_NODES_AT_ALL => EventKinds::NODE_ADDED,
            // Who is not known could be helped by anything.
            None => EventKinds::ALL,
        }
    }
}

/// Who is said to have refused a pod when there was no node: only a new one helps.
pub const NO_NODES_AT_ALL: &str = "(no nodes)";
