//! Which nodes a pod may run on by label: `spec.nodeSelector` and `spec.affinity.nodeAffinity` (Kubernetes 1.36,
//! `component-helpers/scheduling/corev1/nodeaffinity`).
//!
//! Invariants: terms are ORed, requirements within a term ANDed; a term without requirements, a list without terms and a
//! requirement that cannot be understood match nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A requirement on one label or field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NodeSelectorRequirement {
    /// The label's key, or `metadata.name` for a field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    /// Operands; exactly one for `Gt` and `Lt`, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Requirements that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// On labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// On fields; only `metadata.name` exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// Terms of which one must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms.
    #[serde(default)]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A term with a weight from 1 to 100.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PreferredSchedulingTerm {
    /// What a match adds to the node's score.
    pub weight: i64,
    /// The term.
    #[serde(default)]
    pub preference: NodeSelectorTerm,
}

/// `spec.affinity.nodeAffinity`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct NodeAffinity {
    /// Must hold when the pod is placed.
    #[serde(
        default,
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<NodeSelector>,
    /// Adds to the score of nodes.
    #[serde(
        default,
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredSchedulingTerm>,
}

/// A node as these rules see it.
#[derive(Debug, Clone, Copy)]
pub struct NodeLabels<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.labels`.
    pub labels: &'a BTreeMap<String, String>,
}

impl NodeSelectorRequirement {
    /// Whether a value (none: absent) satisfies the requirement.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let compare = |test: fn(&i64, &i64) -> bool| {
            let (Some(value), [operand]) = (value, self.values.as_slice()) else { return false };
            matches!((value.parse::<i64>(), operand.parse::<i64>()), (Ok(v), Ok(o)) if test(&v, &o))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(|v| self.values.iter().any(|o| o == v)),
            "NotIn" => !value.is_some_and(|v| self.values.iter().any(|o| o == v)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compare(i64::gt),
            "Lt" => compare(i64::lt),
            _ => false,
        }
    }

    fn holds_field(&self, name: &str) -> bool {
        self.key == "metadata.name" && matches!(self.operator.as_str(), "In" | "NotIn") && self.holds(Some(name))
    }
}

impl NodeSelectorTerm {
    /// Whether it has no requirement and so matches nothing.
    pub fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }

    /// Whether the node satisfies every requirement.
    pub fn matches(&self, node: NodeLabels<'_>) -> bool {
        !self.is_empty()
            && self.match_fields.iter().all(|r| r.holds_field(node.name))
            && self.match_expressions.iter().all(|r| r.holds(node.labels.get(&r.key).map(String::as_str)))
    }
}

impl NodeSelector {
    /// Whether the node satisfies at least one term.
    pub fn matches(&self, node: NodeLabels<'_>) -> bool {
        self.node_selector_terms.iter().any(|t| t.matches(node))
    }
}

impl NodeAffinity {
    /// The sum of the weights of the preferred terms that the node matches.
    pub fn preference(&self, node: NodeLabels<'_>) -> i64 {
        self.preferred.iter().filter(|p| p.preference.matches(node)).map(|p| p.weight).sum()
    }
}

/// Whether a pod with this node selector and node affinity may run on the node: every pair of the selector and the
/// required affinity must hold. The kubelet's admission and the scheduler's filter both ask this.
pub fn node_matches(
    selector: &BTreeMap<String, String>,
    affinity: Option<&NodeAffinity>,
    node: NodeLabels<'_>,
) -> bool {
    selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && affinity.and_then(|a| a.required.as_ref()).is_none_or(|r| r.matches(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels() -> BTreeMap<String, String> {
        [("kgc", "a"), ("gen", "6"), ("odd", "x7"), ("pad", "007")].map(|(k, v)| (k.into(), v.into())).into()
    }

    fn check(term: serde_json::Value, expected: bool) {
        let read: NodeSelectorTerm = serde_json::from_value(term.clone()).expect("a term");
        assert_eq!(read.matches(NodeLabels { name: "node01", labels: &labels() }), expected, "{term}");
    }

    fn expression(key: &str, operator: &str, values: &[&str], expected: bool) {
        check(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}), expected);
    }

    #[test]
    fn operators_match_as_kubernetes_does() {
        expression("kgc", "In", &["a", "b"], true);
        expression("kgc", "In", &["b"], false);
        expression("none", "In", &["a"], false);
        expression("kgc", "NotIn", &["a"], false);
        expression("none", "NotIn", &["a"], true);
        expression("kgc", "Exists", &[], true);
        expression("none", "Exists", &[], false);
        expression("none", "DoesNotExist", &[], true);
        expression("kgc", "DoesNotExist", &[], false);
        expression("gen", "Gt", &["5"], true);
        expression("gen", "Gt", &["6"], false);
        expression("gen", "Lt", &["7"], true);
        expression("odd", "Gt", &["5"], false);
        expression("pad", "Gt", &["6"], true);
        expression("none", "Lt", &["5"], false);
        expression("gen", "Gt", &["5", "4"], false);
        expression("gen", "Like", &["6"], false);
    }

    #[test]
    fn fields_name_the_node() {
        check(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node01"]}]}), true);
        check(json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node01"]}]}), false);
        check(json!({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["node01"]}]}), false);
        check(json!({}), false);
    }

    #[test]
    fn terms_are_alternatives_and_the_selector_is_not() {
        let affinity: NodeAffinity = serde_json::from_value(json!({
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kgc", "operator": "In", "values": ["z"]}]},
                {"matchExpressions": [{"key": "gen", "operator": "Exists"}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 3, "preference": {"matchExpressions": [{"key": "kgc", "operator": "Exists"}]}},
                {"weight": 5, "preference": {}},
                {"weight": 7, "preference": {"matchExpressions": [{"key": "none", "operator": "Exists"}]}}]
        }))
        .expect("an affinity");
        let labels = labels();
        let node = NodeLabels { name: "node01", labels: &labels };
        let selector = |value: &str| BTreeMap::from([("kgc".to_owned(), value.to_owned())]);
        assert!(node_matches(&selector("a"), Some(&affinity), node));
        assert!(!node_matches(&selector("b"), Some(&affinity), node));
        assert_eq!(affinity.preference(node), 3);
        let nothing = NodeAffinity { required: Some(NodeSelector::default()), preferred: Vec::new() };
        assert!(!node_matches(&BTreeMap::new(), Some(&nothing), node));
    }
}
