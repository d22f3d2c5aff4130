//! What is said of a set (Kubernetes 1.36, `calculateStatus`).

use jiff::Timestamp;
use listwatch_proto::resource::{Object, time};
use serde_json::{Value, json};

use super::{Plan, Set};

/// Why pods could not be made or deleted: reason and message of the condition `ReplicaFailure`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `FailedCreate`, `FailedDelete`, or [`PODS_FAIL`].
    pub reason: &'static str,
    /// Words for a person.
    pub message: String,
}

/// The reason of ours: pods can be made, but fail at once, and are made slowly for that.
pub const PODS_FAIL: &str = "PodsFail";

/// How a plan was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// As it should be: a failure that was told is over.
    Good,
    /// It is not known: what was told of failures stands.
    Unknown,
    /// Not to the end, or only slowly.
    Failed(Failure),
}

/// `status` as it is to be; equal to the present one if nothing is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Status(pub Value);

/// The status of a set after a plan was carried out with this outcome.
pub fn status(set: &Set, object: &Object, plan: &Plan, news: &News, now: Timestamp) -> Status {
    let active = &plan.active;
    let labelled = |key: &str, value: &str, pod: &super::super::pod::Pod| pod.label(key) == Some(value);
    let fully = active.iter().filter(|p| set.template_labels.iter().all(|(k, v)| labelled(k, v, p))).count();
    let ready = active.iter().filter(|p| p.ready_since.is_some()).count();
    let available = active.iter().filter(|p| p.available_at(set.min_ready_seconds).is_some_and(|at| at <= now)).count();
    let mut status = json!({
        "replicas": active.len(),
        "observedGeneration": object.generation(),
        "terminatingReplicas": plan.terminating,
    });
    for (field, count) in [("fullyLabeledReplicas", fully), ("readyReplicas", ready), ("availableReplicas", available)]
    {
        if count > 0 {
            status[field] = count.into();
        }
    }
    let conditions = conditions(object, news, now);
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    Status(status)
}

fn conditions(object: &Object, news: &News, now: Timestamp) -> Vec<Value> {
    const TYPE: &str = "ReplicaFailure";
    let held = object.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut conditions: Vec<Value> = held.iter().filter(|c| c["type"] != TYPE).cloned().collect();
    let failure = match news {
        News::Good => return conditions,
        News::Unknown => return held,
        News::Failed(failure) => failure,
    };
    // As upstream, the first words of a reason stand; but why pods fail may change while they go on failing.
    let same =
        |c: &Value| c["reason"] == failure.reason && (failure.reason != PODS_FAIL || c["message"] == failure.message);
    let before = held.into_iter().find(|c| c["type"] == TYPE && same(c));
    conditions.push(before.unwrap_or_else(|| {
        json!({
            "type": TYPE, "status": "True", "reason": failure.reason, "message": failure.message,
            "lastTransitionTime": time(now),
        })
    }));
    conditions
}

impl Status {
    /// The merge patch from the present status to this one; `None` if they are equal. Refused by the server if the set
    /// has changed since it was read.
    pub fn patch(&self, object: &Object, uid: &str, revision: i64) -> Option<Value> {
        let present = object.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
        if present == self.0 {
            return None;
        }
        let mut status = self.0.clone();
        for field in present.as_object().into_iter().flatten().map(|(field, _)| field) {
            if status.get(field).is_none() {
                status[field] = Value::Null;
            }
        }
        Some(json!({"metadata": {"uid": uid, "resourceVersion": revision.to_string()}, "status": status}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::{LabelSelector, ObjectKey};

    fn set() -> Set {
        Set {
            key: ObjectKey::new("default", "web"),
            uid: "me".into(),
            replicas: 0,
            selector: LabelSelector::default(),
            min_ready_seconds: 0,
            template_labels: Vec::new(),
            terminating: false,
        }
    }

    #[test]
    fn an_equal_status_is_not_written_and_what_falls_away_is_taken_out() {
        let object = Object::from_value(json!({"metadata": {"generation": 2},
            "status": {"replicas": 1, "readyReplicas": 1, "observedGeneration": 2}}))
        .expect("an object");
        let new = status(&set(), &object, &Plan::default(), &News::Good, Timestamp::UNIX_EPOCH);
        let patch = new.patch(&object, "me", 7).expect("differs");
        assert_eq!(
            patch["status"],
            json!({"replicas": 0, "readyReplicas": null, "observedGeneration": 2,
            "terminatingReplicas": 0})
        );
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let mut after = object.clone();
        after.set(&["status"], new.0.clone());
        assert_eq!(new.patch(&after, "me", 8), None);
    }

    #[test]
    fn a_failure_stands_until_it_is_over() {
        let object = Object::default();
        let told = |reason, message: &str| News::Failed(Failure { reason, message: message.to_owned() });
        let failure = told("FailedCreate", "no");
        let new = status(&set(), &object, &Plan::default(), &failure, Timestamp::UNIX_EPOCH);
        let mut after = object;
        after.set(&["status"], new.0.clone());
        let judge = |news: &News| status(&set(), &after, &Plan::default(), news, Timestamp::now());
        assert_eq!(judge(&told("FailedCreate", "still no")), new, "the same reason is not written again");
        assert_eq!(judge(&News::Unknown), new, "who cannot tell leaves it as it is");
        assert!(judge(&News::Good).0.get("conditions").is_none());
        let message = |news: &News| judge(news).0["conditions"][0]["message"].clone();
        assert_eq!(message(&told("FailedDelete", "not that either")), "not that either");
        after.set(&["status"], judge(&told(PODS_FAIL, "no room")).0);
        let judge = |news: &News| status(&set(), &after, &Plan::default(), news, Timestamp::now());
        assert_eq!(judge(&told(PODS_FAIL, "a taint")).0["conditions"][0]["message"], "a taint");
    }
}
