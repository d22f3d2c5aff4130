//! A profile: the plugins of each extension point, in order.

use super::{CycleState, Filter, Plugin, PostFilter, PreFilter, Rejection, Score};
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

    /// The plugin of a name, if it is one that refuses nodes or pods.
    pub fn refuser(&self, name: &str) -> Option<&dyn Plugin> {
        let filters = self.filters.iter().map(|p| &**p as &dyn Plugin);
        let pre_filters = self.pre_filters.iter().map(|p| &**p as &dyn Plugin);
        filters.chain(pre_filters).find(|p| p.name() == name)
    }
}
