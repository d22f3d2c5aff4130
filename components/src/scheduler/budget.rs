//! How many pods of a set may be disrupted, as a PodDisruptionBudget says.

use std::collections::HashSet;

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::Pod;

/// What preemption knows of a PodDisruptionBudget.
#[derive(Debug, Clone)]
pub struct Budget {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `spec.selector`; an empty one selects nothing here.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub allowed: i64,
    /// `status.disruptedPods`: pods that have been counted already.
    pub disrupted: HashSet<String>,
}

impl Budget {
    /// Reads a PodDisruptionBudget; `None`: it selects nothing, or cannot be understood.
    pub fn of(budget: &Object) -> Option<Self> {
        let selector = budget.at(&["spec", "selector"]).filter(|selector| !selector.is_null())?;
        let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object);
        Some(Budget {
            namespace: budget.namespace().to_owned(),
            selector: LabelSelector::from_json(selector).ok()?,
            allowed: budget.int(&["status", "disruptionsAllowed"]).unwrap_or(0),
            disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
        })
    }

    fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.key.namespace
            && !pod.labels.is_empty()
            && !self.selector.is_empty()
            && self.selector.matches(|key| pod.label(key))
            && !self.disrupted.contains(&pod.key.name)
    }
}

/// Of pods that are to go in this order, which ones go beyond a budget.
pub(super) fn violations<'a>(pods: impl IntoIterator<Item = &'a Pod>, budgets: &[Budget]) -> Vec<bool> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut goes_beyond = |pod: &Pod| {
        let mut beyond = false;
        for (_, left) in budgets.iter().zip(&mut left).filter(|(budget, _)| budget.covers(pod)) {
            *left -= 1;
            beyond |= *left < 0;
        }
        beyond
    };
    pods.into_iter().map(&mut goes_beyond).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::ObjectKey;

    #[test]
    fn a_budget_is_used_up_in_order() {
        let pod = |namespace: &str, app: &str| Pod {
            key: ObjectKey::new(namespace, "p"),
            labels: if app.is_empty() { Vec::new() } else { vec![("app".into(), app.into())] },
            ..Pod::default()
        };
        let budget = |app: &str, allowed| Budget {
            namespace: "a".to_owned(),
            selector: LabelSelector::of_pairs([("app", app)]),
            allowed,
            disrupted: HashSet::new(),
        };
        let everything = Budget { selector: LabelSelector::of_pairs([]), ..budget("", 0) };
        let pods = [pod("a", "web"), pod("b", "web"), pod("a", "db"), pod("a", "web"), pod("a", ""), pod("a", "db")];
        let beyond = violations(&pods, &[budget("web", 1), budget("db", 0), everything]);
        assert_eq!(beyond, [false, false, true, true, false, true]);
        let counted = Budget { disrupted: HashSet::from(["p".to_owned()]), ..budget("db", 0) };
        assert_eq!(violations(&[pod("a", "db")], &[counted]), [false], "one that goes already costs nothing more");
    }

    #[test]
    fn a_budget_without_a_selector_is_none() {
        let of = |spec: Value| {
            let value = serde_json::json!({"metadata": {"namespace": "a"}, "spec": spec,
                "status": {"disruptionsAllowed": 2, "disruptedPods": {"x": "2026-01-01T00:00:00Z"}}});
            Budget::of(&Object::from_value(value).expect("a map"))
        };
        assert!(of(serde_json::json!({})).is_none());
        let budget = of(serde_json::json!({"selector": {"matchLabels": {"app": "web"}}})).expect("one");
        assert_eq!((budget.allowed, budget.disrupted.len()), (2, 1));
    }
}
