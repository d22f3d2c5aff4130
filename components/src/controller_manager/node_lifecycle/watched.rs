//! What this process remembers of the nodes: when each was heard of, whether it was ready, and how its zone does.
//!
//! Invariants: a node is counted in its zone exactly once, as it was last looked at; what one node's change means for others
//! comes back as keys to wake. All of it may be lost: nodes are then heard of anew.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::plan::{Health, Source, Timing, observe};
use super::zones::{Due, Shift, Turn, Zones};
use crate::client::Cached;
use crate::controller_manager::node::{Lease, Node, Truth};

/// An answer of the server that takes longer came from a server that had stood still: kubelets could not be heard.
const SLOW_ANSWER: Duration = Duration::from_secs(2);
/// After the server was away kubelets get so long to be heard (their own retry takes 7 s at most).
const RECOVERY: Duration = Duration::from_secs(10);

/// All nodes that were looked at.
#[derive(Debug)]
pub(super) struct Watched {
    nodes: HashMap<String, Known>,
    zones: Zones,
    /// When the server was last found to be away.
    deaf: Option<Instant>,
}

#[derive(Debug)]
struct Known {
    uid: String,
    health: Health,
    ready: bool,
    zone: Box<str>,
    counted: bool,
}

/// What a look at a node has shown.
#[derive(Debug)]
pub(super) struct Look {
    /// When it was heard of.
    pub(super) health: Health,
    /// It was not known before.
    pub(super) new: bool,
    /// It was ready when last looked at, and no longer is.
    pub(super) fell: bool,
}

impl Watched {
    /// No nodes.
    pub(super) fn new(timing: Timing) -> Self {
        Watched { nodes: HashMap::new(), zones: Zones::new(timing.rates), deaf: None }
    }

    /// Whether no node has been looked at.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Looks at a node. The second part: who must be looked at in turn, and when.
    pub(super) fn look(
        &mut self,
        node: &Cached<Node>,
        lease: Option<&Cached<Lease>>,
        source: Source,
        now: Instant,
    ) -> (Look, Vec<Due>) {
        let name = &node.key.name;
        let before = self.nodes.remove(name);
        if let Some(known) = &before {
            self.count_out(known);
            if known.zone != node.zone || known.uid != node.uid {
                self.zones.withdraw(&known.zone, name, now);
            }
        }
        let before = before.filter(|known| known.uid == node.uid);
        let health = observe(before.as_ref().map(|known| &known.health), node, lease, source, now);
        let ready = node.ready() == Truth::True;
        let look = Look {
            health: health.clone(),
            new: before.is_none(),
            fell: before.is_some_and(|known| known.ready && !ready),
        };
        let known = Known { uid: node.uid.clone(), health, ready, zone: node.zone.clone(), counted: !node.uncounted };
        if known.counted {
            self.zones.add(&known.zone, ready, now);
        }
        if ready {
            self.zones.withdraw(&node.zone, name, now);
        }
        self.nodes.insert(name.clone(), known);
        (look, self.settle(now))
    }

    /// The node has been marked as lost: from now on it counts so, also before the caches show it.
    pub(super) fn marked(&mut self, name: &str, now: Instant) -> Vec<Due> {
        if let Some(mut known) = self.nodes.remove(name) {
            self.count_out(&known);
            known.ready = false;
            if known.counted {
                self.zones.add(&known.zone, false, now);
            }
            self.nodes.insert(name.to_owned(), known);
        }
        self.settle(now)
    }

    /// The node is no more; its uid, if it was known.
    pub(super) fn gone(&mut self, name: &str, now: Instant) -> Option<(String, Vec<Due>)> {
        let known = self.nodes.remove(name)?;
        self.count_out(&known);
        self.zones.withdraw(&known.zone, name, now);
        Some((known.uid, self.settle(now)))
    }

    /// Asks for a node to get the evicting taint.
    pub(super) fn request(&mut self, node: &Cached<Node>, now: Instant) -> (Turn, Vec<Due>) {
        let turn = self.zones.request(&node.zone, &node.key.name, now);
        (turn, self.zones.take_due())
    }

    /// Whether no node anywhere is ready: then this control plane is the likelier one to be cut off.
    pub(super) fn cut_off(&self) -> bool {
        self.zones.cut_off()
    }

    /// Notes how long the server took for an answer, or that it gave none (`None`).
    pub(super) fn answered(&mut self, after: Option<Duration>, now: Instant) {
        if after.is_none_or(|after| after > SLOW_ANSWER) {
            self.deaf = Some(now);
        }
    }

    /// How long silence means nothing yet, because the server itself was away.
    pub(super) fn deaf_for(&self, now: Instant) -> Option<Duration> {
        let left = RECOVERY.saturating_sub(now.saturating_duration_since(self.deaf?));
        (!left.is_zero()).then_some(left)
    }

    fn count_out(&mut self, known: &Known) {
        if known.counted {
            self.zones.remove(&known.zone, known.ready);
        }
    }

    fn settle(&mut self, now: Instant) -> Vec<Due> {
        let shift = self.zones.settle(now);
        let mut due = self.zones.take_due();
        match shift {
            Shift::None => return due,
            Shift::CutOff => tracing::warn!("no node is ready: nobody is evicted until one is"),
            Shift::Back => {
                tracing::info!("a node is ready again: the others' silence is counted anew");
                self.nodes.values_mut().for_each(|known| known.health.heard = now);
            }
        }
        due.extend(self.nodes.keys().map(|name| (name.clone(), Duration::ZERO)));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{lost_in, tests::node};
    use super::*;
    use listwatch_proto::resource::ObjectKey;
    use proptest::prelude::*;

    fn shown(name: &str, ready: Truth) -> Cached<Node> {
        Cached { key: ObjectKey::new("", name), uid: name.into(), revision: 1, object: node(Some(ready), &[]) }
    }

    fn names(due: &[Due]) -> Vec<&str> {
        let mut names: Vec<_> = due.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_fall_is_seen_once() {
        let now = Instant::now();
        let mut watched = Watched::new(Timing::default());
        let (look, _) = watched.look(&shown("a", Truth::True), None, Source::Caches, now);
        assert!(look.new && !look.fell);
        watched.look(&shown("b", Truth::True), None, Source::Caches, now);
        let (look, due) = watched.look(&shown("a", Truth::False), None, Source::Caches, now);
        assert!(look.fell && !look.new && due.is_empty());
        assert!(!watched.look(&shown("a", Truth::Unknown), None, Source::Caches, now).0.fell);
        watched.look(&shown("a", Truth::True), None, Source::Caches, now);
        watched.marked("a", now);
        assert!(
            !watched.look(&shown("a", Truth::Unknown), None, Source::Caches, now).0.fell,
            "told when it was marked"
        );
    }

    #[test]
    fn the_last_ready_node_decides_for_all() {
        let start = Instant::now();
        let timing = Timing::default();
        let mut watched = Watched::new(timing);
        for name in ["a", "b"] {
            watched.look(&shown(name, Truth::True), None, Source::Caches, start);
        }
        assert!(watched.marked("a", start).is_empty());
        assert_eq!(watched.request(&shown("a", Truth::Unknown), start).0, Turn::Now);
        assert_eq!(names(&watched.marked("b", start)), ["a", "b"], "all lose the taint");
        assert!(watched.cut_off());
        assert_eq!(watched.request(&shown("b", Truth::Unknown), start).0, Turn::Later);
        let later = start + Duration::from_secs(300);
        let (_, due) = watched.look(&shown("b", Truth::True), None, Source::Caches, later);
        assert_eq!(names(&due), ["a", "b"]);
        let (look, _) = watched.look(&shown("a", Truth::Unknown), None, Source::Caches, later);
        assert!(lost_in(&look.health, timing, later).is_some(), "silence counts anew");
        assert!(!watched.cut_off());
    }

    #[test]
    fn a_node_that_is_gone_or_made_anew_counts_once() {
        let now = Instant::now();
        let mut watched = Watched::new(Timing::default());
        watched.look(&shown("a", Truth::True), None, Source::Caches, now);
        watched.look(&shown("b", Truth::False), None, Source::Caches, now);
        assert!(!watched.cut_off());
        assert_eq!(watched.gone("a", now).map(|(uid, _)| uid).as_deref(), Some("a"));
        assert!(watched.cut_off() && watched.gone("a", now).is_none());
        let mut anew = shown("b", Truth::True);
        anew.uid = "b2".into();
        assert!(watched.look(&anew, None, Source::Caches, now).0.new);
        assert!(!watched.cut_off());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Look { name: u8, ready: bool, zone: u8, uncounted: bool, uid: u8 },
        Marked(u8),
        Gone(u8),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..5_u8, any::<bool>(), 0..2_u8, any::<bool>(), 0..2_u8)
                .prop_map(|(name, ready, zone, uncounted, uid)| Op::Look { name, ready, zone, uncounted, uid }),
            1 => (0..5_u8).prop_map(Op::Marked),
            1 => (0..5_u8).prop_map(Op::Gone),
        ]
    }

    proptest! {
        /// Whatever happens to nodes: each is counted once, in the zone and the state it was last seen in.
        #[test]
        fn counts_are_those_of_the_nodes(ops in prop::collection::vec(op(), 0..60)) {
            let now = Instant::now();
            let mut watched = Watched::new(Timing::default());
            let mut model: std::collections::BTreeMap<u8, (bool, u8, bool)> = std::collections::BTreeMap::new();
            for op in ops {
                match op {
                    Op::Look { name, ready, zone, uncounted, uid } => {
                        let mut node = shown(&name.to_string(), if ready { Truth::True } else { Truth::Unknown });
                        (node.object.zone, node.object.uncounted) = (zone.to_string().into(), uncounted);
                        node.uid = format!("{name}-{uid}");
                        watched.look(&node, None, Source::Caches, now);
                        model.insert(name, (ready, zone, uncounted));
                    }
                    Op::Marked(name) => {
                        watched.marked(&name.to_string(), now);
                        model.entry(name).and_modify(|node| node.0 = false);
                    }
                    Op::Gone(name) => {
                        let known = watched.gone(&name.to_string(), now).is_some();
                        prop_assert_eq!(known, model.remove(&name).is_some());
                    }
                }
                let of = |zone: u8, ready: bool| {
                    model.values().filter(|node| **node == (ready, zone, false)).count()
                };
                for zone in 0..2_u8 {
                    prop_assert_eq!(watched.zones.counts(&zone.to_string()), (of(zone, true), of(zone, false)));
                }
                let ready = of(0, true) + of(1, true);
                prop_assert_eq!(watched.cut_off(), ready == 0 && of(0, false) + of(1, false) > 0);
            }
        }
    }

    #[test]
    fn after_a_silent_server_kubelets_get_time_to_be_heard() {
        let now = Instant::now();
        let mut watched = Watched::new(Timing::default());
        watched.answered(Some(Duration::from_millis(3)), now);
        assert_eq!(watched.deaf_for(now), None);
        watched.answered(Some(Duration::from_secs(41)), now);
        assert_eq!(watched.deaf_for(now), Some(RECOVERY));
        assert_eq!(watched.deaf_for(now + RECOVERY), None);
        watched.answered(None, now + RECOVERY);
        assert_eq!(watched.deaf_for(now + RECOVERY), Some(RECOVERY));
    }
}
