//! How long a pod may stay on its node.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};
use listwatch_proto::resource::toleration::Toleration;
use listwatch_proto::resource::{Taint, parse_time};

use crate::controller_manager::pod::Pod;

/// Times in objects are cut to whole seconds: the moment itself lies at most so much later. A pod gets at least what it
/// asks for.
const CUT_OFF: SignedDuration = SignedDuration::from_secs(1);

/// A NoExecute taint, and from when it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The taint.
    pub taint: Taint,
    /// When this process first saw it: what counts if the taint does not say when it was added.
    pub seen: Timestamp,
}

/// How long a pod may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// As long as nothing changes.
    Forever,
    /// Until then.
    Until(Timestamp),
    /// No longer.
    Over,
}

/// Takes in the NoExecute taints that a node now has: those that were there already keep the moment they were first seen.
pub fn first_seen<'a>(before: &[Standing], taints: impl Iterator<Item = &'a Taint>, now: Timestamp) -> Vec<Standing> {
    let standing = |taint: &Taint| {
        let same = before.iter().find(|held| held.taint.is_same(taint));
        Standing { taint: taint.clone(), seen: same.map_or(now, |held| held.seen) }
    };
    taints.map(standing).collect()
}

/// How long a pod may stay under these taints, as far as eviction goes.
///
/// What has ended stays: there is nothing to end. What its node has not taken yet is the node's to refuse, so that the pod
/// tells why it failed and its owner slows down; it is given a moment to, for it may be a lost node.
pub fn stay_of(pod: &Pod, taints: &[Standing], now: Timestamp) -> Stay {
    if pod.is_finished() {
        return Stay::Forever;
    }
    match stay(taints, &pod.tolerations, pod.placed, now) {
        Stay::Over if !pod.taken && later(pod.placed, ADMISSION) > now => Stay::Until(later(pod.placed, ADMISSION)),
        stays => stays,
    }
}

/// How long a pod with these tolerations, on its node since `placed`, may stay under these taints.
///
/// Every taint must be tolerated, each by the first toleration that fits it (Kubernetes 1.36); the earliest end counts.
fn stay(taints: &[Standing], tolerations: &[Toleration], placed: Timestamp, now: Timestamp) -> Stay {
    let mut end: Option<Timestamp> = None;
    for standing in taints {
        let Some(used) = tolerations.iter().find(|toleration| toleration.tolerates(&standing.taint)) else {
            return Stay::Over;
        };
        let Some(seconds) = used.toleration_seconds else { continue };
        if seconds <= 0 {
            return Stay::Over;
        }
        let granted = SignedDuration::from_secs(seconds);
        let added = standing.taint.time_added.as_deref().and_then(parse_time);
        let added = added.map_or(standing.seen, |at| later(at, CUT_OFF));
        // A clock elsewhere that runs ahead of ours must not make the stay longer than it is granted from now.
        let until = later(added.max(later(placed, CUT_OFF)), granted).min(later(now, granted));
        end = Some(end.map_or(until, |end| end.min(until)));
    }
    match end.map(|end| (end, end.cmp(&now))) {
        None => Stay::Forever,
        Some((end, Ordering::Greater)) => Stay::Until(end),
        Some(_) => Stay::Over,
    }
}

/// How long a node has to judge a pod that is new there; the time of its coming is told in whole seconds.
const ADMISSION: SignedDuration = SignedDuration::from_secs(2);

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).expect("a time")
    }

    /// A taint `key` added at a second; `None`: it does not say, and was first seen at 0.
    fn taint(key: &str, added: Option<i64>) -> Standing {
        let time_added = added.map(|second| at(second).to_string());
        let taint = Taint { time_added, value: "1".into(), ..Taint::new(key, "NoExecute") };
        Standing { taint, seen: at(0) }
    }

    fn tolerations(json: Value) -> Vec<Toleration> {
        serde_json::from_value(json).expect("tolerations")
    }

    fn check(taints: &[Standing], tolerate: Value, placed: i64, now: i64, expected: Stay) {
        let tolerate_read = tolerations(tolerate.clone());
        assert_eq!(stay(taints, &tolerate_read, at(placed), at(now)), expected, "{taints:?} {tolerate} at {now}");
    }

    fn for_seconds(key: &str, seconds: i64) -> Value {
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
    }

    #[test]
    fn the_earliest_end_of_all_taints_counts() {
        let e = || vec![taint("e", Some(10))];
        check(&[], json!([]), -100, 20, Stay::Forever);
        check(&e(), json!([]), -100, 10, Stay::Over);
        check(&e(), json!([{"key": "e", "operator": "Exists"}]), -100, 9999, Stay::Forever);
        check(&e(), json!([{"key": "e", "value": "2"}]), -100, 10, Stay::Over);
        check(&e(), json!([for_seconds("e", 20)]), -100, 12, Stay::Until(at(31)));
        check(&e(), json!([for_seconds("e", 20)]), -100, 31, Stay::Over);
        check(&e(), json!([for_seconds("e", 0)]), -100, 10, Stay::Over);
        check(&e(), json!([for_seconds("e", -5)]), -100, 10, Stay::Over);
        // Each taint by its own time: the second one, added later, with less patience.
        let both = [taint("e", Some(10)), taint("f", Some(15))];
        check(&both, json!([for_seconds("e", 20), for_seconds("f", 3)]), -100, 16, Stay::Until(at(19)));
        check(&both, json!([for_seconds("e", 20)]), -100, 16, Stay::Over);
        check(&both, json!([{"operator": "Exists"}]), -100, 16, Stay::Forever);
        // The first toleration that fits is the one that counts.
        check(&e(), json!([{"key": "e", "operator": "Exists"}, for_seconds("e", 1)]), -100, 99, Stay::Forever);
        check(&e(), json!([for_seconds("e", 1), {"operator": "Exists"}]), -100, 99, Stay::Over);
    }

    #[test]
    fn the_time_runs_from_the_taint_or_from_the_pods_coming_to_the_node() {
        let e = || vec![taint("e", Some(10))];
        // Placed long after the taint was added: else it would go as it comes, for ever.
        check(&e(), json!([for_seconds("e", 20)]), 500, 501, Stay::Until(at(521)));
        // A taint that does not say when it was added counts from when it was seen.
        check(&[taint("e", None)], json!([for_seconds("e", 20)]), -100, 5, Stay::Until(at(20)));
        // A clock that runs ahead does not make it longer.
        check(&[taint("e", Some(5000))], json!([for_seconds("e", 20)]), -100, 5, Stay::Until(at(25)));
    }

    #[test]
    fn edits_move_the_end_both_ways() {
        let e = || vec![taint("e", Some(0))];
        check(&e(), json!([for_seconds("e", 20)]), -100, 10, Stay::Until(at(21)));
        check(&e(), json!([for_seconds("e", 120)]), -100, 10, Stay::Until(at(121)));
        check(&e(), json!([for_seconds("e", 5)]), -100, 10, Stay::Over);
    }

    #[test]
    fn a_taint_keeps_the_moment_it_was_first_seen() {
        let (e, f) = (Taint::new("e", "NoExecute"), Taint::new("f", "NoExecute"));
        let first = first_seen(&[], [&e].into_iter(), at(1));
        let second = first_seen(&first, [&f, &e].into_iter(), at(7));
        assert_eq!(second.iter().map(|s| s.seen).collect::<Vec<_>>(), [at(7), at(1)]);
        assert_eq!(first_seen(&second, [&e].into_iter(), at(9))[0].seen, at(1));
    }

    #[test]
    fn a_pod_that_its_node_has_not_taken_is_the_nodes_to_refuse_for_a_moment() {
        let placed = Timestamp::from_second(1_000).expect("a time");
        let at = |seconds: i64| placed + SignedDuration::from_secs(seconds);
        let taints = [Standing {
            taint: Taint { key: "k".into(), effect: "NoExecute".into(), ..Taint::default() },
            seen: at(-5),
        }];
        let mut pod = Pod { placed, ..Pod::default() };
        assert_eq!(stay_of(&pod, &taints, at(1)), Stay::Until(at(2)));
        assert_eq!(stay_of(&pod, &taints, at(2)), Stay::Over, "the node may be lost");
        pod.taken = true;
        assert_eq!(stay_of(&pod, &taints, at(1)), Stay::Over);
        pod.phase = crate::controller_manager::pod::Phase::Failed;
        assert_eq!(stay_of(&pod, &taints, at(1)), Stay::Forever, "there is nothing to end");
    }
}
