//! What is to be done about a node.

use std::time::Duration;

use listwatch_proto::resource::Taint;
use listwatch_proto::resource::toleration::{
    NO_EXECUTE, NO_SCHEDULE, TAINT_NOT_READY, TAINT_UNREACHABLE, TAINT_UNSCHEDULABLE,
};
use tokio::time::Instant;

use super::Rates;
use crate::client::Cached;
use crate::controller_manager::node::{Condition, Lease, Node, Truth};

/// How patiently nodes are waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// A node that was not heard of for so long is unreachable (`--node-monitor-grace-period`).
    pub grace: Duration,
    /// So long for a node that was never heard of (`--node-startup-grace-period`).
    pub startup_grace: Duration,
    /// A node that is not ready is looked at again so often, whatever the watches say (`--node-monitor-period`).
    pub period: Duration,
    /// How fast nodes get the taint that evicts their pods.
    pub rates: Rates,
}

impl Default for Timing {
    /// 50 s, 60 s and 5 s (Kubernetes 1.36).
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Timing { grace: seconds(50), startup_grace: seconds(60), period: seconds(5), rates: Rates::default() }
    }
}

/// What was heard of a node, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// When something was last heard, by our clock.
    pub heard: Instant,
    /// Whether the kubelet has ever said whether the node is ready.
    pub spoke: bool,
    renewed: (i64, Box<str>),
    heartbeat: (i64, Box<str>),
}

/// Where what is taken in comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From the caches, which may lag behind what the server has said already.
    Caches,
    /// From the server itself, just now.
    Server,
}

/// Takes in what is shown of a node: any renewal of its Lease or heartbeat of its condition counts as of now.
///
/// The times themselves are only ever compared with themselves. What a cache shows counts only if it is newer than what is
/// known, for the server may have been asked in between; what the server says always counts.
pub fn observe(
    before: Option<&Health>,
    node: &Cached<Node>,
    lease: Option<&Cached<Lease>>,
    source: Source,
    now: Instant,
) -> Health {
    let ready = node.condition("Ready");
    let shown = (node.revision, ready.map(|c| c.heartbeat.clone()).unwrap_or_default());
    let renewed = lease.map(|lease| (lease.revision, lease.renewed.clone()));
    let Some(before) = before else {
        return Health { heard: now, spoke: ready.is_some(), renewed: renewed.unwrap_or_default(), heartbeat: shown };
    };
    let mut after = before.clone();
    let mut take = |known: &mut (i64, Box<str>), shown: (i64, Box<str>)| {
        if source == Source::Server || shown.0 > known.0 {
            if shown.1 != known.1 {
                after.heard = now;
            }
            *known = shown;
        }
    };
    take(&mut after.heartbeat, shown);
    if let Some(renewed) = renewed {
        take(&mut after.renewed, renewed);
    }
    after.spoke |= ready.is_some();
    after
}

/// How long until a node counts as lost if nothing is heard; `None`: it does.
pub(super) fn lost_in(health: &Health, timing: Timing, now: Instant) -> Option<Duration> {
    let grace = if health.spoke { timing.grace } else { timing.startup_grace };
    let silent = now.saturating_duration_since(health.heard);
    // A little later, so that the grace is certainly over.
    (silent <= grace).then(|| grace - silent + Duration::from_millis(10))
}

/// The conditions that become Unknown when a node is lost.
pub(super) const LOST_CONDITIONS: &[&str] = &["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Whether a lost node is marked as such.
pub(super) fn is_marked_lost(node: &Node) -> bool {
    node.condition("Ready").is_some_and(|ready| ready.status == Truth::Unknown)
}

/// The node as it is once it is marked.
pub(super) fn mark_lost(node: &mut Node) {
    for kind in LOST_CONDITIONS {
        match node.conditions.iter_mut().find(|c| *c.kind == **kind) {
            Some(condition) => condition.status = Truth::Unknown,
            None => node.conditions.push(Condition { kind: (*kind).into(), ..Default::default() }),
        }
    }
}

/// How a node stands with the taint that evicts its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    /// It is to have none.
    None,
    /// It has this one, or its twin, which is to be swapped for it: that changes nothing for the pods and need not wait.
    Standing(&'static str),
    /// It is to get this one, when it may.
    Wanted(&'static str),
}

/// How a node stands with the taint that evicts its pods.
pub(super) fn eviction(node: &Node) -> Eviction {
    let key = match node.condition("Ready").map(|c| c.status) {
        None | Some(Truth::True) => return Eviction::None,
        Some(Truth::False) => TAINT_NOT_READY,
        Some(Truth::Unknown) => TAINT_UNREACHABLE,
    };
    let standing = node.evicting().any(|taint| taint.key == TAINT_NOT_READY || taint.key == TAINT_UNREACHABLE);
    if standing { Eviction::Standing(key) } else { Eviction::Wanted(key) }
}

/// A condition and the taint that stands for it while it has that status.
const TAINTS: &[(&str, Truth, &str)] = &[
    ("Ready", Truth::False, TAINT_NOT_READY),
    ("Ready", Truth::Unknown, TAINT_UNREACHABLE),
    ("MemoryPressure", Truth::True, "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", Truth::True, "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", Truth::True, "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", Truth::True, "node.kubernetes.io/network-unavailable"),
];

/// The taints that a node is to have: those of its conditions and its cordon, the evicting one if it may have it, and all
/// that are none of ours. `None`: it has them.
pub(super) fn taints(node: &Node, evicting: Option<&str>) -> Option<Vec<Taint>> {
    let holds = |(kind, status, _): &&(&str, Truth, &str)| {
        node.condition(kind).is_some_and(|condition| condition.status == *status)
    };
    let mut wanted: Vec<Taint> = TAINTS.iter().filter(holds).map(|(_, _, key)| Taint::new(key, NO_SCHEDULE)).collect();
    if node.unschedulable {
        wanted.push(Taint::new(TAINT_UNSCHEDULABLE, NO_SCHEDULE));
    }
    // A swap of the twins is no new beginning for those who wait for the end of their time.
    let since = node.evicting().find(|taint| is_ours(taint)).and_then(|taint| taint.time_added.clone());
    wanted.extend(evicting.map(|key| Taint { time_added: since, ..Taint::new(key, NO_EXECUTE) }));
    let mut result: Vec<Taint> =
        node.taints.iter().filter(|t| !is_ours(t) || wanted.iter().any(|w| w.is_same(t))).cloned().collect();
    for taint in wanted {
        if !result.iter().any(|held| held.is_same(&taint)) {
            result.push(taint);
        }
    }
    (result != node.taints).then_some(result)
}

/// Whether this controller alone puts a taint on and takes it off.
fn is_ours(taint: &Taint) -> bool {
    let by_condition = TAINTS.iter().any(|(_, _, key)| *key == taint.key);
    match taint.effect.as_str() {
        NO_SCHEDULE => by_condition || taint.key == TAINT_UNSCHEDULABLE,
        NO_EXECUTE => taint.key == TAINT_NOT_READY || taint.key == TAINT_UNREACHABLE,
        _ => false,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use listwatch_proto::resource::ObjectKey;

    pub(in super::super) fn node(ready: Option<Truth>, taints: &[(&str, &str)]) -> Node {
        let condition = |status| Condition { kind: "Ready".into(), status, heartbeat: "h1".into() };
        Node {
            conditions: ready.map(condition).into_iter().collect(),
            taints: taints.iter().map(|(key, effect)| Taint::new(key, effect)).collect(),
            ..Node::default()
        }
    }

    pub(in super::super) fn shown<T>(revision: i64, object: T) -> Cached<T> {
        Cached { key: ObjectKey::new("", "n"), uid: "u".into(), revision, object }
    }

    pub(in super::super) fn lease(revision: i64, renewed: &str) -> Cached<Lease> {
        shown(revision, Lease { renewed: renewed.into(), ..Lease::default() })
    }

    fn print(taints: &[Taint]) -> Vec<String> {
        taints.iter().map(|t| t.to_string().replace("node.kubernetes.io/", "")).collect()
    }

    /// Taints after a plan; `evict`: whether the node may have the evicting one.
    fn check(node: &Node, evict: bool, expected: &[&str]) {
        let key = match eviction(node) {
            Eviction::Standing(key) => Some(key),
            Eviction::Wanted(key) => evict.then_some(key),
            Eviction::None => None,
        };
        let mut after = node.clone();
        after.taints = taints(node, key).unwrap_or(after.taints);
        assert_eq!(print(&after.taints), expected);
        assert_eq!(taints(&after, key), None, "the same state asks for nothing more");
    }

    #[test]
    fn taints_follow_conditions() {
        let not_ready = (TAINT_NOT_READY, NO_SCHEDULE);
        check(&node(Some(Truth::True), &[not_ready]), true, &[]);
        // Nothing has been said: upstream takes off what the node was made with; it fits no pod before it says what it has.
        check(&node(None, &[not_ready]), true, &[]);
        check(&node(Some(Truth::False), &[]), true, &["not-ready:NoSchedule", "not-ready:NoExecute"]);
        check(&node(Some(Truth::False), &[]), false, &["not-ready:NoSchedule"]);
        // Ours are exclusive, and the swap does not wait for a turn.
        let swap = [not_ready, (TAINT_NOT_READY, NO_EXECUTE)];
        check(&node(Some(Truth::Unknown), &swap), false, &["unreachable:NoSchedule", "unreachable:NoExecute"]);
        check(&node(Some(Truth::True), &swap), false, &[]);
        check(
            &node(Some(Truth::True), &[("k", NO_SCHEDULE), ("k", NO_EXECUTE)]),
            true,
            &["k:NoSchedule", "k:NoExecute"],
        );
        let mut cordoned = node(Some(Truth::True), &[]);
        cordoned.unschedulable = true;
        check(&cordoned, true, &["unschedulable:NoSchedule"]);
        check(&node(Some(Truth::True), &[(TAINT_UNSCHEDULABLE, NO_SCHEDULE)]), true, &[]);
        for (kind, taint) in [
            ("MemoryPressure", "memory-pressure:NoSchedule"),
            ("DiskPressure", "disk-pressure:NoSchedule"),
            ("PIDPressure", "pid-pressure:NoSchedule"),
            ("NetworkUnavailable", "network-unavailable:NoSchedule"),
        ] {
            let mut pressed = node(Some(Truth::True), &[]);
            pressed.conditions.push(Condition { kind: kind.into(), status: Truth::True, ..Default::default() });
            check(&pressed, true, &[taint]);
        }
    }

    #[test]
    fn a_swap_keeps_the_time() {
        let mut node = node(Some(Truth::Unknown), &[("k", NO_EXECUTE), (TAINT_NOT_READY, NO_EXECUTE)]);
        node.taints[1].time_added = Some("then".into());
        let swapped = taints(&node, Some(TAINT_UNREACHABLE)).expect("a change");
        let unreachable = swapped.iter().find(|t| t.key == TAINT_UNREACHABLE && t.effect == NO_EXECUTE);
        assert_eq!(unreachable.and_then(|t| t.time_added.as_deref()), Some("then"));
    }

    #[test]
    fn while_everything_is_down_the_evicting_taint_goes() {
        let tainted = node(Some(Truth::Unknown), &[(TAINT_UNREACHABLE, NO_SCHEDULE), (TAINT_UNREACHABLE, NO_EXECUTE)]);
        assert_eq!(print(&taints(&tainted, None).expect("a change")), ["unreachable:NoSchedule"]);
    }

    #[test]
    fn silence_is_measured_from_what_was_seen() {
        let (timing, start) = (Timing::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let ready = shown(1, node(Some(Truth::True), &[]));
        let (caches, server) = (Source::Caches, Source::Server);
        let health = observe(None, &ready, Some(&lease(2, "t1")), caches, start);
        let health = observe(Some(&health), &ready, Some(&lease(2, "t1")), caches, at(40));
        assert_eq!(health.heard, start);
        assert_eq!(lost_in(&health, timing, at(20)), Some(Duration::from_millis(30_010)));
        assert!(lost_in(&health, timing, at(50)).is_some());
        assert_eq!(lost_in(&health, timing, at(51)), None);
        // Any sign of life counts: a renewal, or a heartbeat.
        assert_eq!(observe(Some(&health), &ready, Some(&lease(3, "t2")), caches, at(51)).heard, at(51));
        let mut beat = shown(4, ready.object.clone());
        beat.object.conditions[0].heartbeat = "h2".into();
        assert_eq!(observe(Some(&health), &beat, Some(&lease(2, "t1")), caches, at(52)).heard, at(52));
        // The server knows more than a cache that has stopped: that the cache shows the old is no sign of life.
        let told = observe(Some(&health), &ready, Some(&lease(9, "t9")), server, at(53));
        assert_eq!(told.heard, at(53));
        assert_eq!(observe(Some(&told), &ready, Some(&lease(2, "t1")), caches, at(54)).heard, at(53));
        assert_eq!(observe(Some(&told), &ready, Some(&lease(9, "t9")), server, at(55)).heard, at(53));
        // Another history has lower revisions; the server is believed.
        assert_eq!(observe(Some(&told), &ready, Some(&lease(5, "t10")), server, at(56)).heard, at(56));
    }

    #[test]
    fn a_node_that_never_spoke_gets_longer() {
        let (timing, start) = (Timing::default(), Instant::now());
        let silent = shown(1, node(None, &[]));
        let health = observe(None, &silent, None, Source::Caches, start);
        assert!(lost_in(&health, timing, start + Duration::from_secs(55)).is_some());
        assert!(lost_in(&health, timing, start + Duration::from_secs(61)).is_none());
        let mut lost = silent.object.clone();
        assert!(!is_marked_lost(&lost));
        mark_lost(&mut lost);
        assert!(is_marked_lost(&lost));
    }
}
