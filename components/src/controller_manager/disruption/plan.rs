//! The status of a budget.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use listwatch_proto::resource::{LabelSelector, Object, parse_time, time};
use serde_json::{Map, Value, json};

use crate::client::Cached;
use crate::controller_manager::pod::{Pod, PodRef};

/// How long a pod that was promised to go is waited for (Kubernetes 1.36).
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);
/// The condition of a budget.
const ALLOWED: &str = "DisruptionAllowed";

/// What a budget asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// So many pods at least, of those that are there.
    AtLeast(i64),
    /// A share of the wanted replicas at least, in percent.
    ShareAtLeast(i64),
    /// So many of the wanted replicas may be missing.
    Missing(i64),
    /// A share of them may, in percent.
    ShareMissing(i64),
    /// Nothing.
    Nothing,
}

impl Wish {
    /// Reads a budget; an amount that is none counts as the strictest.
    pub(super) fn of(budget: &Object) -> Self {
        let percent = |text: &str| text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
        match (budget.at(&["spec", "maxUnavailable"]), budget.at(&["spec", "minAvailable"])) {
            (Some(Value::String(text)), _) => Wish::ShareMissing(percent(text).unwrap_or(0)),
            (Some(Value::Number(count)), _) => Wish::Missing(count.as_i64().unwrap_or(0)),
            (_, Some(Value::String(text))) => Wish::ShareAtLeast(percent(text).unwrap_or(100)),
            (_, Some(Value::Number(count))) => Wish::AtLeast(count.as_i64().unwrap_or(i64::MAX)),
            _ => Wish::Nothing,
        }
    }

    /// Whether the wanted replicas must be known.
    pub(super) fn needs_scale(self) -> bool {
        matches!(self, Wish::ShareAtLeast(_) | Wish::Missing(_) | Wish::ShareMissing(_))
    }

    /// How many pods there should be and how many of them healthy, of so many pods and wanted replicas.
    fn counts(self, pods: i64, wanted: i64) -> (i64, i64) {
        // Rounded up, as upstream does in both directions.
        let share = |percent: i64| (percent * wanted + 99).div_euclid(100);
        match self {
            Wish::AtLeast(count) => (pods, count),
            Wish::ShareAtLeast(percent) => (wanted, share(percent)),
            Wish::Missing(count) => (wanted, (wanted - count).max(0)),
            Wish::ShareMissing(percent) => (wanted, (wanted - share(percent)).max(0)),
            Wish::Nothing => (0, 0),
        }
    }
}

/// What is to be done about a budget.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The status to be written; `None`: it is so already.
    pub(super) status: Option<Value>,
    /// When a promise runs out.
    pub(super) recheck: Option<Duration>,
    /// Pods that were promised to go and did not.
    pub(super) not_deleted: Vec<PodRef>,
}

/// Whether a budget speaks of a pod: one without a selector speaks of none.
pub fn covers(budget: &Cached<Object>, pod: &Cached<Pod>) -> bool {
    budget.key.namespace == pod.key.namespace
        && selector_of(&budget.object).is_some_and(|selector| selector.matches(|key| pod.label(key)))
}

/// The selector of a budget; `None`: it has none, or one that cannot be understood.
pub(super) fn selector_of(budget: &Object) -> Option<LabelSelector> {
    let selector = budget.at(&["spec", "selector"]).filter(|selector| !selector.is_null())?;
    LabelSelector::from_json(selector).ok()
}

/// The plan for a budget with its pods, as of `now`. `wanted`: the replicas that the controllers of the pods want.
pub(super) fn plan(budget: &Object, pods: &[PodRef], wanted: i64, now: Timestamp) -> Plan {
    let promised = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object);
    let mut kept = Map::new();
    let (mut recheck, mut not_deleted, mut healthy) = (None, Vec::new(), 0);
    for pod in pods.iter().filter(|pod| !pod.terminating) {
        let since = promised.and_then(|promised| promised.get(&pod.key.name)).and_then(Value::as_str);
        let due = since.and_then(parse_time).and_then(|since| since.checked_add(DELETION_TIMEOUT).ok());
        match (since, due) {
            (Some(since), Some(due)) if due >= now => {
                kept.insert(pod.key.name.clone(), since.into());
                recheck = Some(recheck.map_or(due, |first: Timestamp| first.min(due)));
                if due > now {
                    continue;
                }
            }
            (Some(_), _) => not_deleted.push(pod.clone()),
            (None, _) => {}
        }
        healthy += i64::from(pod.ready_since.is_some());
    }
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let (expected, desired) = Wish::of(budget).counts(count, wanted);
    // A budget without pods allows nothing, so that its first pods are safe until they have been counted.
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut status = json!({
        "observedGeneration": budget.generation(), "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": desired, "expectedPods": expected,
    });
    if !kept.is_empty() {
        status["disruptedPods"] = kept.into();
    }
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    status["conditions"] = conditions(budget, allowed > 0, reason, "", budget.generation(), now).into();
    let same = budget.at(&["status"]).is_some_and(|old| is_same(old, &status));
    let recheck = recheck.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
    Plan { status: (!same).then_some(status), recheck, not_deleted }
}

/// The status of a budget whose pods could not be counted: nothing may go.
pub(super) fn failed(budget: &Object, why: &str, now: Timestamp) -> Value {
    let mut status = budget.at(&["status"]).cloned().unwrap_or_default();
    if !status.is_object() {
        status = json!({});
    }
    status["disruptionsAllowed"] = 0.into();
    let seen = budget.int(&["status", "observedGeneration"]).unwrap_or(0);
    status["conditions"] = conditions(budget, false, "SyncFailed", why, seen, now).into();
    status
}

/// Whether a status says the same, however it is written: what is absent is nothing.
fn is_same(old: &Value, new: &Value) -> bool {
    let keys = ["observedGeneration", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    let count = |status: &Value, key: &str| status[key].as_i64().unwrap_or(0);
    keys.iter().all(|key| count(old, key) == count(new, key))
        && old["disruptedPods"].as_object().filter(|map| !map.is_empty())
            == new["disruptedPods"].as_object().filter(|map| !map.is_empty())
        && old["conditions"] == new["conditions"]
}

/// The conditions with the one that says whether pods may go; it moves only when that changes.
fn conditions(budget: &Object, allowed: bool, reason: &str, message: &str, seen: i64, now: Timestamp) -> Vec<Value> {
    let mut list = budget.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let status = if allowed { "True" } else { "False" };
    let mut new = json!({
        "type": ALLOWED, "status": status, "reason": reason, "message": message, "lastTransitionTime": time(now),
    });
    if seen != 0 {
        new["observedGeneration"] = seen.into();
    }
    match list.iter_mut().find(|held| held["type"] == ALLOWED) {
        Some(held) => {
            if held["status"] == new["status"] {
                new["lastTransitionTime"] = held["lastTransitionTime"].take();
            }
            *held = new;
        }
        None => list.push(new),
    }
    list
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use listwatch_proto::resource::ObjectKey;

    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn now() -> Timestamp {
        NOW.parse().expect("a time")
    }

    fn budget(spec: Value, status: Value) -> Object {
        let value = json!({"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status});
        Object::from_value(value).expect("a map")
    }

    fn pods(ready: usize, unready: usize) -> Vec<PodRef> {
        let pod = |at: usize| {
            let ready_since = (at < ready).then_some(Timestamp::UNIX_EPOCH);
            let object = Pod { ready_since, ..Pod::default() };
            let name = format!("p{at}");
            Arc::new(Cached { key: ObjectKey::new("n", &*name), uid: name, revision: 1, object })
        };
        (0..ready + unready).map(pod).collect()
    }

    fn told(spec: Value, ready: usize, wanted: i64) -> [i64; 4] {
        let plan = plan(&budget(spec, json!({})), &pods(ready, 1), wanted, now());
        let status = plan.status.expect("new");
        assert_eq!(status["observedGeneration"], 3);
        let allowed = status["disruptionsAllowed"].as_i64().expect("a number") > 0;
        assert_eq!(status["conditions"][0]["status"], if allowed { "True" } else { "False" });
        ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
            .map(|key| status[key].as_i64().expect("a number"))
    }

    #[test]
    fn what_may_go_follows_from_the_wish() {
        for (spec, ready, wanted, expected) in [
            (json!({"minAvailable": 1}), 3, 0, [2, 3, 1, 4]),
            (json!({"minAvailable": 5}), 3, 0, [0, 3, 5, 4]),
            (json!({"minAvailable": "50%"}), 3, 5, [0, 3, 3, 5]),
            (json!({"minAvailable": "40%"}), 3, 5, [1, 3, 2, 5]),
            (json!({"maxUnavailable": 1}), 3, 4, [0, 3, 3, 4]),
            (json!({"maxUnavailable": "30%"}), 4, 5, [1, 4, 3, 5]),
            (json!({"maxUnavailable": 9}), 3, 4, [3, 3, 0, 4]),
            (json!({}), 3, 0, [0, 3, 0, 0]),
        ] {
            assert_eq!(told(spec.clone(), ready, wanted), expected, "{spec}");
        }
    }

    #[test]
    fn a_pod_that_was_promised_does_not_count_until_it_stays_too_long() {
        let status = |since: &str| json!({"disruptedPods": {"p0": since, "gone": since}});
        let spec = json!({"minAvailable": 1});
        let recent = plan(&budget(spec.clone(), status("2026-01-01T00:09:00Z")), &pods(2, 0), 0, now());
        let written = recent.status.expect("new");
        assert_eq!(written["disruptedPods"], json!({"p0": "2026-01-01T00:09:00Z"}), "who is gone is forgotten");
        assert_eq!((&written["currentHealthy"], &written["disruptionsAllowed"]), (&json!(1), &json!(0)));
        assert_eq!(recent.recheck, Some(Duration::from_secs(60)));
        let old = plan(&budget(spec, status("2026-01-01T00:01:00Z")), &pods(2, 0), 0, now());
        assert_eq!(old.not_deleted.len(), 1);
        assert_eq!(old.status.expect("new")["currentHealthy"], 2);
        assert_eq!(old.recheck, None);
    }

    #[test]
    fn nothing_is_written_twice_and_a_failure_stops_all() {
        let spec = json!({"minAvailable": 1});
        let first = plan(&budget(spec.clone(), json!({})), &pods(2, 0), 0, now()).status.expect("new");
        let later = now() + SignedDuration::from_secs(60);
        let known = budget(spec, first);
        assert_eq!(plan(&known, &pods(2, 0), 0, later).status, None);
        let failed = failed(&known, "no scale", later);
        assert_eq!(failed["disruptionsAllowed"], 0);
        assert_eq!(failed["currentHealthy"], 2);
        assert_eq!(
            (&failed["conditions"][0]["reason"], &failed["conditions"][0]["message"]),
            (&json!("SyncFailed"), &json!("no scale"))
        );
        assert_eq!(failed["conditions"][0]["lastTransitionTime"], time(later));
    }
}
