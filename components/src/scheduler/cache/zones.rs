//! The order in which nodes are looked at: one of each zone in turn, so that a search that ends early has seen all zones.
//!
//! Invariant: within a zone nodes stand in the order in which they came; zones stand in the order in which their first node
//! came (Kubernetes 1.36, `nodeTree`).

use std::sync::Arc;

use crate::scheduler::Node;

/// Names of nodes by zone.
#[derive(Debug, Default)]
pub(super) struct Zones {
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    region: String,
    zone: String,
    nodes: Vec<Arc<str>>,
}

impl Zones {
    /// Adds a node that is not there.
    pub(super) fn add(&mut self, node: &Node) {
        let (region, zone) = node.zone();
        match self.zones.iter_mut().find(|z| z.region == region && z.zone == zone) {
            Some(held) => held.nodes.push(node.name.clone()),
            None => self.zones.push(Zone {
                region: region.to_owned(),
                zone: zone.to_owned(),
                nodes: vec![node.name.clone()],
            }),
        }
    }

    /// Takes a node out of the zone that it names.
    pub(super) fn remove(&mut self, node: &Node) {
        let (region, zone) = node.zone();
        if let Some(held) = self.zones.iter_mut().find(|z| z.region == region && z.zone == zone) {
            held.nodes.retain(|name| *name != node.name);
        }
        self.zones.retain(|zone| !zone.nodes.is_empty());
    }

    /// All nodes, one of each zone in turn.
    pub(super) fn mixed(&self) -> impl Iterator<Item = &Arc<str>> {
        let longest = self.zones.iter().map(|z| z.nodes.len()).max().unwrap_or(0);
        (0..longest).flat_map(|round| self.zones.iter().filter_map(move |z| z.nodes.get(round)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, zone: &str) -> Node {
        let labels = [("topology.kubernetes.io/zone".to_owned(), zone.to_owned())].into();
        Node { name: Arc::from(name), labels, ..Node::default() }
    }

    fn order(zones: &Zones) -> Vec<&str> {
        zones.mixed().map(|name| &**name).collect()
    }

    #[test]
    fn zones_take_turns() {
        let mut zones = Zones::default();
        for (name, zone) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")] {
            zones.add(&node(name, zone));
        }
        assert_eq!(order(&zones), ["a1", "b1", "c1", "a2", "c2", "a3"]);
        zones.remove(&node("b1", "b"));
        zones.remove(&node("a1", "a"));
        zones.add(&node("a1", "a"));
        assert_eq!(order(&zones), ["a2", "c1", "a3", "c2", "a1"]);
    }
}
