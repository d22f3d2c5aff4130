//! Conditions that controllers write into the status of pods that are somebody else's.
//!
//! Invariant: only the one condition is touched; every write is refused if the pod is another one or has changed since it
//! was read, so what its kubelet says meanwhile is never undone.

use jiff::Timestamp;
use listwatch_proto::resource::{Object, time};
use serde_json::{Value, json};

use crate::client::{Api, Cached, Error, Patch};

/// The condition of a pod that goes because of its surroundings, not of itself.
pub(super) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// A condition to be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    /// `type`.
    pub kind: &'static str,
    /// Whether it is so.
    pub status: bool,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: &'static str,
}

/// The pod's conditions with this one as it is to be; `None` if it is so already.
pub(super) fn with_condition(pod: &Object, condition: Condition, now: Timestamp) -> Option<Vec<Value>> {
    let status = if condition.status { "True" } else { "False" };
    let mut conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut new = json!({
        "type": condition.kind, "status": status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": time(now),
    });
    let Some(held) = conditions.iter_mut().find(|held| held["type"] == condition.kind) else {
        conditions.push(new);
        return Some(conditions);
    };
    if held["status"] == new["status"] {
        new["lastTransitionTime"] = held["lastTransitionTime"].take();
    }
    if held["reason"] == new["reason"] && held["message"] == new["message"] && held["status"] == new["status"] {
        return None;
    }
    *held = new;
    Some(conditions)
}

/// Merges this into the status of the pod as it was read; a pod that is gone is none to be marked.
pub(super) async fn merge_status(pods: &Api<Object>, pod: &Cached<Object>, status: Value) -> Result<(), Error> {
    let patch = json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.revision.to_string()},
        "status": status,
    });
    match pods.patch_status(&pod.key, &Patch::Merge(patch)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_moves_only_when_it_changes() {
        let now: Timestamp = "2026-01-01T00:00:09Z".parse().expect("a time");
        let target = |message| Condition { kind: DISRUPTION_TARGET, status: true, reason: "R", message };
        let pod = |conditions: Value| Object::from_value(json!({"status": {"conditions": conditions}})).expect("a map");
        let ready = json!({"type": "Ready", "status": "True"});
        let set = with_condition(&pod(json!([ready])), target("m"), now).expect("new");
        assert_eq!(set[0], ready);
        assert_eq!(
            (&set[1]["status"], &set[1]["lastTransitionTime"]),
            (&json!("True"), &json!("2026-01-01T00:00:09Z"))
        );
        assert_eq!(with_condition(&pod(json!(set)), target("m"), now), None);
        let later: Timestamp = "2026-01-01T00:01:00Z".parse().expect("a time");
        let other = with_condition(&pod(json!(set)), target("other"), later).expect("another message");
        assert_eq!(other[1]["lastTransitionTime"], "2026-01-01T00:00:09Z", "the status has not changed");
    }
}
