//! What is to be done about a node.

use std::time::Duration;

use listwatch_proto::resource::Taint;
use listwatch_proto::resource::toleration::{
    NO_EXECUTE, NO_SCHEDULE, TAINT_NOT_READY, TAINT_UNREACHABLE, TAINT_UNSCHEDULABLE,
};
use tokio::time::Instant;

use crate::controller_manager::node::{Lease, Node, Truth};

/// How patiently nodes are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A node that was not heard of for so long is unreachable (`--node-monitor-grace-period`).
    pub grace: Duration,
    /// So long for a node that was never heard of (`--node-startup-grace-period`).
    pub startup_grace: Duration,
}

impl Default for Timing {
    /// 50 s and 60 s (Kubernetes 1.36).
    fn default() -> Self {
        Timing { grace: Duration::from_secs(50), startup_grace: Duration::from_secs(60) }
    }
}

/// What was heard of a node, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// When something was last heard, by our clock.
    pub heard: Instant,
    /// Whether the kubelet has ever said whether the node is ready.
    pub spoke: bool,
    renewed: Box<str>,
    heartbeat: Box<str>,
}

/// What is to be done about a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePlan {
    /// Its conditions are to become Unknown.
    pub lost: bool,
    /// Its taints are to become these.
    pub taints: Option<Vec<Taint>>,
    /// When to look again.
    pub again_after: Option<Duration>,
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

/// Takes in what the caches show of a node: any renewal of its Lease or heartbeat of its condition counts as of now.
pub fn observe(before: Option<&Health>, node: &Node, lease: Option<&Lease>, now: Instant) -> Health {
    let renewed = lease.map(|lease| lease.renewed.clone()).unwrap_or_default();
    let ready = node.condition("Ready");
    let heartbeat = ready.map(|c| c.heartbeat.clone()).unwrap_or_default();
    let heard = match before {
        Some(before) if before.renewed == renewed && before.heartbeat == heartbeat => before.heard,
        _ => now,
    };
    Health { heard, spoke: ready.is_some() || before.is_some_and(|b| b.spoke), renewed, heartbeat }
}

/// Plans for a node. `others_ready`: whether any other node is ready; if none is, it is more likely that this control
/// plane is cut off than that every node has failed, and nothing that runs may be evicted.
pub fn plan(node: &Node, health: &Health, timing: Timing, others_ready: bool, now: Instant) -> NodePlan {
    let grace = if health.spoke { timing.grace } else { timing.startup_grace };
    let silent = now.saturating_duration_since(health.heard);
    let lost_now = silent > grace;
    let known = node.condition("Ready").is_some();
    let lost = lost_now && (!known || node.ready() != Truth::Unknown);
    let mut node = node.clone();
    if lost {
        mark_lost(&mut node);
    }
    let wanted = taints(&node, others_ready);
    NodePlan {
        lost,
        taints: (wanted != node.taints).then_some(wanted),
        // A little later, so that the grace is certainly over.
        again_after: (!lost_now).then(|| grace - silent + Duration::from_millis(10)),
    }
}

/// The conditions that become Unknown when a node is lost.
pub(super) const LOST_CONDITIONS: &[&str] = &["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

fn mark_lost(node: &mut Node) {
    for kind in LOST_CONDITIONS {
        match node.conditions.iter_mut().find(|c| *c.kind == **kind) {
            Some(condition) => condition.status = Truth::Unknown,
            None => node
                .conditions
                .push(crate::controller_manager::node::Condition { kind: (*kind).into(), ..Default::default() }),
        }
    }
}

/// The taints that a node is to have: those of its conditions and its cordon, and all that are none of ours.
fn taints(node: &Node, others_ready: bool) -> Vec<Taint> {
    let holds = |(kind, status, _): &&(&str, Truth, &str)| {
        node.condition(kind).is_some_and(|condition| condition.status == *status)
    };
    let mut wanted: Vec<Taint> = TAINTS.iter().filter(holds).map(|(_, _, key)| Taint::new(key, NO_SCHEDULE)).collect();
    if node.unschedulable {
        wanted.push(Taint::new(TAINT_UNSCHEDULABLE, NO_SCHEDULE));
    }
    match node.condition("Ready").map(|c| c.status) {
        // Nothing has been said yet: the taint that the node was made with stays.
        None => wanted.push(Taint::new(TAINT_NOT_READY, NO_SCHEDULE)),
        Some(Truth::True) => {}
        Some(_) if !others_ready => {}
        Some(Truth::False) => wanted.push(Taint::new(TAINT_NOT_READY, NO_EXECUTE)),
        Some(Truth::Unknown) => wanted.push(Taint::new(TAINT_UNREACHABLE, NO_EXECUTE)),
    }
    let mut result: Vec<Taint> =
        node.taints.iter().filter(|t| !is_ours(t) || wanted.iter().any(|w| w.is_same(t))).cloned().collect();
    for taint in wanted {
        if !result.iter().any(|held| held.is_same(&taint)) {
            result.push(taint);
        }
    }
    result
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
mod tests {
    use super::*;
    use crate::controller_manager::node::Condition;

    fn node(ready: Option<Truth>, taints: &[(&str, &str)]) -> Node {
        let condition = |status| Condition { kind: "Ready".into(), status, heartbeat: "h1".into() };
        Node {
            conditions: ready.map(condition).into_iter().collect(),
            taints: taints.iter().map(|(key, effect)| Taint::new(key, effect)).collect(),
            ..Node::default()
        }
    }

    fn lease(renewed: &str) -> Lease {
        Lease { renewed: renewed.into(), ..Lease::default() }
    }

    fn print(taints: &[Taint]) -> Vec<String> {
        taints.iter().map(|t| t.to_string().replace("node.kubernetes.io/", "")).collect()
    }

    /// Taints after a plan for a node that was just heard of.
    fn check(node: &Node, others_ready: bool, expected: &[&str]) {
        let now = Instant::now();
        let plan = plan(node, &observe(None, node, None, now), Timing::default(), others_ready, now);
        assert_eq!(print(plan.taints.as_ref().unwrap_or(&node.taints)), expected);
        let mut after = node.clone();
        after.taints = plan.taints.unwrap_or(after.taints);
        let again = super::plan(&after, &observe(None, &after, None, now), Timing::default(), others_ready, now);
        assert_eq!(again.taints, None, "the same state asks for nothing more");
    }

    #[test]
    fn taints_follow_conditions() {
        let not_ready = (TAINT_NOT_READY, NO_SCHEDULE);
        check(&node(Some(Truth::True), &[not_ready]), true, &[]);
        check(&node(None, &[not_ready]), true, &["not-ready:NoSchedule"]);
        check(&node(Some(Truth::False), &[]), true, &["not-ready:NoSchedule", "not-ready:NoExecute"]);
        check(&node(Some(Truth::False), &[]), false, &["not-ready:NoSchedule"]);
        let swap = [not_ready, (TAINT_NOT_READY, NO_EXECUTE)];
        check(&node(Some(Truth::Unknown), &swap), true, &["unreachable:NoSchedule", "unreachable:NoExecute"]);
        check(&node(Some(Truth::True), &[("k", NO_SCHEDULE), not_ready]), true, &["k:NoSchedule"]);
        let mut cordoned = node(Some(Truth::True), &[]);
        cordoned.unschedulable = true;
        check(&cordoned, true, &["unschedulable:NoSchedule"]);
        check(&node(Some(Truth::True), &[(TAINT_UNSCHEDULABLE, NO_SCHEDULE)]), true, &[]);
        let mut pressed = node(Some(Truth::True), &[]);
        pressed.conditions.push(Condition { kind: "DiskPressure".into(), status: Truth::True, ..Default::default() });
        check(&pressed, true, &["disk-pressure:NoSchedule"]);
    }

    #[test]
    fn silence_is_measured_from_what_was_seen() {
        let (timing, start) = (Timing::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let ready = node(Some(Truth::True), &[]);
        let health = observe(None, &ready, Some(&lease("t1")), start);
        let health = observe(Some(&health), &ready, Some(&lease("t1")), at(40));
        assert_eq!(health.heard, start);
        assert!(!plan(&ready, &health, timing, true, at(50)).lost);
        assert_eq!(plan(&ready, &health, timing, true, at(20)).again_after, Some(Duration::from_millis(30_010)));
        let lost = plan(&ready, &health, timing, true, at(51));
        assert!(lost.lost && lost.again_after.is_none());
        assert_eq!(print(&lost.taints.expect("taints")), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
        // Marked once, not again and again.
        let unknown = node(Some(Truth::Unknown), &[]);
        assert!(!plan(&unknown, &health, timing, true, at(60)).lost);
        // Any sign of life counts: a renewal, or a heartbeat.
        assert_eq!(observe(Some(&health), &ready, Some(&lease("t2")), at(51)).heard, at(51));
        let mut beat = ready.clone();
        beat.conditions[0].heartbeat = "h2".into();
        assert_eq!(observe(Some(&health), &beat, Some(&lease("t1")), at(52)).heard, at(52));
    }

    #[test]
    fn a_node_that_never_spoke_gets_longer() {
        let (timing, start) = (Timing::default(), Instant::now());
        let silent = node(None, &[]);
        let health = observe(None, &silent, None, start);
        assert!(!plan(&silent, &health, timing, true, start + Duration::from_secs(55)).lost);
        assert!(plan(&silent, &health, timing, true, start + Duration::from_secs(61)).lost);
    }
}
