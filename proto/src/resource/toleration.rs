//! Taints of nodes and tolerations of pods: who tolerates what (Kubernetes 1.36, `component-helpers`).
//!
//! Invariant: the same rule serves the scheduler's filter, the eviction of running pods and the kubelet's admission.

use std::fmt;

use serde::{Deserialize, Serialize};

/// New pods that do not tolerate the taint are not placed on the node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The scheduler tries to avoid the node.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// New pods are not placed there, and running ones are evicted.
pub const NO_EXECUTE: &str = "NoExecute";

/// The taint of a cordoned node.
pub const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The taint of a node whose Ready condition is False, and of each new node.
pub const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a node whose Ready condition is Unknown.
pub const TAINT_UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// An entry of `spec.taints` of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Label-like key.
    pub key: String,
    /// May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// [`NO_SCHEDULE`], [`PREFER_NO_SCHEDULE`] or [`NO_EXECUTE`].
    pub effect: String,
    /// When a NoExecute taint was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// An entry of `spec.tolerations` of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Empty, with operator `Exists`: every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` (also when empty) or `Exists`. `Gt` and `Lt` are refused by the API server and match nothing here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// Compared by `Equal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Empty: every effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// How long a NoExecute taint is tolerated; absent: for ever; zero or less: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Taint {
    /// A taint without a value.
    pub fn new(key: &str, effect: &str) -> Self {
        Taint { key: key.to_owned(), value: String::new(), effect: effect.to_owned(), time_added: None }
    }

    /// Whether two taints are the same one: key and effect name a taint, its value does not.
    pub fn is_same(&self, other: &Taint) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        if !self.effect.is_empty() {
            write!(f, ":{}", self.effect)?;
        }
        Ok(())
    }
}

impl Toleration {
    /// Whether it tolerates the taint; seconds are not looked at.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        effect
            && key
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// Whether any of the tolerations tolerates the taint.
pub fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|t| t.tolerates(taint))
}

/// The first taint of effect NoSchedule or NoExecute that no toleration tolerates.
pub fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|t| (t.effect == NO_SCHEDULE || t.effect == NO_EXECUTE) && !tolerated(t, tolerations))
}

/// The first NoExecute taint that no toleration tolerates: the one that refuses a pod placed by name, and evicts.
pub fn untolerated_execute<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|t| t.effect == NO_EXECUTE && !tolerated(t, tolerations))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(toleration: serde_json::Value, taint: (&str, &str, &str), expected: bool) {
        let read: Toleration = serde_json::from_value(toleration.clone()).expect("a toleration");
        let taint = Taint { key: taint.0.into(), value: taint.1.into(), effect: taint.2.into(), time_added: None };
        assert_eq!(read.tolerates(&taint), expected, "{toleration} on {taint}");
    }

    #[test]
    fn tolerations_match_as_kubernetes_does() {
        let q = ("qqq", "value1", NO_SCHEDULE);
        check(json!({"key": "qqq", "operator": "Equal", "value": "value1", "effect": "NoSchedule"}), q, true);
        check(json!({"key": "qqq", "operator": "Exists", "effect": "NoSchedule"}), q, true);
        check(json!({"operator": "Exists"}), q, true);
        check(json!({"operator": "Exists"}), ("any", "", NO_EXECUTE), true);
        check(json!({"key": "qqq", "operator": "Exists"}), ("qqq", "x", PREFER_NO_SCHEDULE), true);
        check(json!({"key": "qqq", "value": "other", "effect": "NoSchedule"}), q, false);
        check(json!({"key": "qqq", "value": "value1", "effect": "NoExecute"}), q, false);
        check(json!({"key": "qqq", "value": "value1"}), q, true);
        check(json!({"key": "other", "operator": "Exists"}), q, false);
        check(json!({"key": "qqq", "operator": "Gt", "value": "0"}), ("qqq", "1", NO_SCHEDULE), false);
    }

    #[test]
    fn a_preference_never_refuses() {
        let taints = [Taint::new("a", PREFER_NO_SCHEDULE), Taint::new("b", NO_SCHEDULE), Taint::new("c", NO_EXECUTE)];
        assert_eq!(untolerated(&taints, &[]).map(|t| t.key.as_str()), Some("b"));
        assert_eq!(untolerated_execute(&taints, &[]).map(|t| t.key.as_str()), Some("c"));
        assert_eq!(untolerated(&taints[..1], &[]), None);
        assert_eq!(taints[1].to_string(), "b:NoSchedule");
    }
}
