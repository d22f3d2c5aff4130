//! Spending a disruption budget: whether a pod may go now, and the budget as it is once the pod goes (Kubernetes 1.36).
//!
//! Invariant: what is spent is told in `disruptedPods`, so that the controller that counts pods does not count this one
//! as healthy while it is on its way.

use listwatch_proto::resource::{Cause, LabelSelector, Object, Reason, Status};
use serde_json::{Value, json};

use crate::registry::kinds::vocabulary::fields::{items, text};

/// Evictions that may be under way without the controller having seen them.
const DISRUPTED_PODS_MAX: usize = 2000;
/// Seconds after which a client asks again while the controller has not looked at the budget.
const RETRY_SECONDS: i64 = 10;
const MESSAGE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// The condition of a budget.
const ALLOWED: &str = "DisruptionAllowed";

/// Whether budgets have no say: the pod does not run yet or any more, or goes already.
pub(in crate::registry) fn needs_no_budget(pod: &Object) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed" | "Pending") || pod.is_terminating()
}

/// Whether a budget speaks of this pod.
pub(in crate::registry) fn covers(budget: &Object, pod: &Object) -> bool {
    let selector = budget.at(&["spec", "selector"]).unwrap_or(&Value::Null);
    // One without a selector speaks of none, one with an empty selector of all.
    !selector.is_null() && LabelSelector::from_json(selector).is_ok_and(|selector| selector.matches_object(pod))
}

/// Whether a pod may go without the budget being spent: it is not healthy, and does not count.
pub(in crate::registry) fn goes_free(budget: &Object, pod: &Object) -> bool {
    let status = pod.at(&["status"]).unwrap_or(&Value::Null);
    let ready = items(status, "conditions").iter().any(|c| text(c, "type") == "Ready" && text(c, "status") == "True");
    let count = |key: &str| budget.int(&["status", key]).unwrap_or(0);
    let always = budget.text(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    let enough = count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
    !ready && (always || enough)
}

/// The budget once this pod goes, as of `now`.
///
/// # Errors
/// `TooManyRequests` while the budget allows no disruption or has not been looked at; `Forbidden` for one that is broken.
pub(in crate::registry) fn spend(budget: &Object, pod: &str, now: &str) -> Result<Object, Status> {
    let name = budget.name();
    let count = |key: &str| budget.int(&["status", key]).unwrap_or(0);
    if count("observedGeneration") < budget.generation() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(why, RETRY_SECONDS));
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return Err(broken(name, "pdb disruptions allowed is negative"));
    }
    let under_way = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    if under_way > DISRUPTED_PODS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(broken(name, why));
    }
    if allowed == 0 {
        return Err(refused(why_none(budget), 0));
    }
    let mut spent = budget.clone();
    spent.set(&["status", "disruptionsAllowed"], allowed - 1);
    if allowed == 1 {
        set_insufficient(&mut spent, now);
    }
    spent.set(&["status", "disruptedPods", pod], now);
    Ok(spent)
}

fn why_none(budget: &Object) -> String {
    let name = budget.name();
    let status = budget.at(&["status"]).unwrap_or(&Value::Null);
    let count = |key: &str| status[key].as_i64().unwrap_or(0);
    let told = items(status, "conditions")
        .iter()
        .find(|c| text(c, "type") == ALLOWED)
        .filter(|c| text(c, "status") == "False" && !text(c, "message").is_empty());
    match told {
        // When the count failed, the numbers are not to be trusted.
        Some(told) if text(told, "reason") == "SyncFailed" => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            text(told, "message")
        ),
        _ if count("currentHealthy") <= count("desiredHealthy") => format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            count("desiredHealthy"),
            count("currentHealthy")
        ),
        Some(told) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            text(told, "reason"),
            text(told, "message")
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn set_insufficient(budget: &mut Object, now: &str) {
    let mut condition = json!({"type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "", "lastTransitionTime": now});
    if let Some(generation) = budget.int(&["status", "observedGeneration"]).filter(|generation| *generation != 0) {
        condition["observedGeneration"] = generation.into();
    }
    let conditions = budget.at_mut(&["status", "conditions"]);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    match list.iter_mut().find(|c| text(c, "type") == ALLOWED) {
        Some(old) => {
            if text(old, "status") == "False" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

fn refused(why: String, retry_after: i64) -> Status {
    let mut status = Status::new(Reason::TooManyRequests, MESSAGE);
    status.causes = vec![Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() }];
    status.retry_after_seconds = retry_after;
    status
}

fn broken(name: &str, why: &str) -> Status {
    let mut status =
        Status::new(Reason::Forbidden, format!("poddisruptionbudget.policy \"{name}\" is forbidden: {why}"));
    (status.name, status.group, status.kind) = (name.to_owned(), "policy".into(), "poddisruptionbudget".into());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: Value) -> Object {
        let value = json!({"metadata": {"name": "p", "generation": 1}, "spec": {}, "status": status});
        Object::from_value(value).expect("a map")
    }

    fn pod(ready: bool) -> Object {
        let status = if ready { "True" } else { "False" };
        let value = json!({"metadata": {"name": "x"}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
        Object::from_value(value).expect("a map")
    }

    fn told(status: Value) -> (u16, String, i64) {
        let refused = spend(&budget(status), "x", "now").expect_err("refused");
        let cause = refused.causes.first().map_or(refused.message.clone(), |cause| cause.message.clone());
        (refused.code, cause, refused.retry_after_seconds)
    }

    #[test]
    fn a_budget_is_spent_pod_by_pod() {
        let two = budget(json!({"observedGeneration": 1, "disruptionsAllowed": 2}));
        let one = spend(&two, "x", "now").expect("allowed");
        assert_eq!(one.int(&["status", "disruptionsAllowed"]), Some(1));
        assert!(one.at(&["status", "conditions"]).is_none());
        let none = spend(&one, "y", "later").expect("allowed");
        assert_eq!(none.at(&["status", "disruptedPods"]), Some(&json!({"x": "now", "y": "later"})));
        let condition = none.at(&["status", "conditions"]).expect("set")[0].clone();
        assert_eq!((text(&condition, "status"), text(&condition, "reason")), ("False", "InsufficientPods"));
        assert_eq!(spend(&none, "z", "now").expect_err("spent").code, 429);
    }

    #[test]
    fn why_a_budget_allows_nothing_is_told() {
        assert_eq!(
            told(json!({})),
            (429, "The disruption budget p is still being processed by the server.".into(), 10)
        );
        assert_eq!(
            told(json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1})),
            (429, "The disruption budget p needs 1 healthy pods and has 1 currently".into(), 0)
        );
        let failed = json!([{"type": ALLOWED, "status": "False", "reason": "SyncFailed", "message": "no scale"}]);
        assert_eq!(
            told(json!({"observedGeneration": 1, "conditions": failed})).1,
            "The disruption budget p does not allow evicting pods currently because it failed sync: no scale"
        );
        assert_eq!(told(json!({"observedGeneration": 1, "disruptionsAllowed": -1})).0, 403);
    }

    #[test]
    fn an_unhealthy_pod_goes_free_where_enough_others_are_healthy() {
        let enough = budget(json!({"currentHealthy": 2, "desiredHealthy": 2}));
        let few = budget(json!({"currentHealthy": 1, "desiredHealthy": 2}));
        assert!(goes_free(&enough, &pod(false)));
        assert!(!goes_free(&enough, &pod(true)));
        assert!(!goes_free(&few, &pod(false)));
        let mut always = few;
        always.set(&["spec", "unhealthyPodEvictionPolicy"], "AlwaysAllow");
        assert!(goes_free(&always, &pod(false)));
    }

    #[test]
    fn a_budget_without_a_selector_covers_nobody() {
        let with = |spec: Value| {
            let budget = Object::from_value(json!({"spec": spec})).expect("a map");
            covers(&budget, &pod(true))
        };
        assert!(!with(json!({})));
        assert!(with(json!({"selector": {}})));
        assert!(!with(json!({"selector": {"matchLabels": {"a": "b"}}})));
    }
}
