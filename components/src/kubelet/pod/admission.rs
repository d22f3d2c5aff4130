//! Whether the node takes a pod (Kubernetes 1.36): resources, node affinity, then taints; the first fault is told.
//!
//! Invariant: judged by the same functions as the scheduler's, so what it thought to fit is taken, unless the node has
//! changed meanwhile.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use listwatch_proto::resource::{
    NodeAffinity, NodeLabels, PodResources, Quantity, Resources, Taint, Toleration, node_matches, requests::PODS,
    toleration::untolerated_execute,
};
use serde::Deserialize;
use serde_json::Value;

/// Why a pod is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// `OutOfcpu`, `NodeAffinity`, `TaintToleration`.
    pub reason: String,
    /// For a person.
    pub message: String,
}

/// What a pod asks for, its one place among the pods included.
pub fn requests(pod: &Pod) -> Resources {
    let spec = serde_json::to_value(&pod.spec).unwrap_or_default();
    let mut requests = PodResources::of_spec(&spec).unwrap_or_default().requests();
    requests.insert(PODS.to_owned(), Quantity::units(1));
    requests
}

/// Judges a pod against the node and what other pods have taken of it.
pub fn admit(pod: &Pod, node: &Node, allocatable: &Resources, used: &Resources) -> Result<(), Rejection> {
    resources(&requests(pod), allocatable, used)?;
    let spec = serde_json::to_value(&pod.spec).unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let selector: BTreeMap<String, String> = part(&spec["nodeSelector"]);
    let affinity: Option<NodeAffinity> = part(&spec["affinity"]["nodeAffinity"]);
    if !node_matches(&selector, affinity.as_ref(), NodeLabels { name, labels: &labels }) {
        let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        return Err(Rejection { reason: "NodeAffinity".into(), message: message.into() });
    }
    let node_spec = serde_json::to_value(&node.spec).unwrap_or_default();
    let taints: Vec<Taint> = part(&node_spec["taints"]);
    let tolerations: Vec<Toleration> = part(&spec["tolerations"]);
    match untolerated_execute(&taints, &tolerations) {
        Some(taint) => {
            let message = format!(
                "Predicate TaintToleration failed: node had untolerated taint {{{}: {}}}",
                taint.key, taint.value
            );
            Err(Rejection { reason: "TaintToleration".into(), message })
        }
        None => Ok(()),
    }
}

fn resources(requests: &Resources, allocatable: &Resources, used: &Resources) -> Result<(), Rejection> {
    // The number of pods first, then in the order that upstream has them.
    let mut names: Vec<_> = requests.keys().collect();
    names.sort_by_key(|name| (name.as_str() != PODS, name.as_str()));
    for name in names {
        let request = requests[name];
        // What the node has never heard of is left to whoever put it into the pod.
        let Some(&capacity) = allocatable.get(name) else { continue };
        let used = used.get(name).copied().unwrap_or_default();
        if !request.is_zero() && request.nanos() + used.nanos() > capacity.nanos() {
            let amount = |quantity: Quantity| if name == "cpu" { quantity.milli_value() } else { quantity.value() };
            let message = format!(
                "Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
                amount(request),
                amount(used),
                amount(capacity)
            );
            return Err(Rejection { reason: format!("OutOf{name}"), message });
        }
    }
    Ok(())
}

/// Reads a part of an object; one that is not there, or that this version cannot read, asks for nothing.
fn part<T: Default + for<'de> Deserialize<'de>>(value: &Value) -> T {
    if value.is_null() { T::default() } else { T::deserialize(value).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn amounts(list: &[(&str, &str)]) -> Resources {
        list.iter().map(|(name, text)| ((*name).to_owned(), text.parse().expect("a quantity"))).collect()
    }

    fn check(spec: Value, used: &[(&str, &str)], expected: Result<(), (&str, &str)>) {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a pod");
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "node01", "labels": {"disk": "ssd"}},
            "spec": {"taints": [
                {"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "other", "effect": "NoSchedule"},
            ]},
        }))
        .expect("a node");
        let allocatable = amounts(&[("cpu", "4"), ("memory", "8Gi"), ("pods", "110")]);
        let outcome = admit(&pod, &node, &allocatable, &amounts(used));
        let expected =
            expected.map_err(|(reason, message)| Rejection { reason: reason.into(), message: message.into() });
        assert_eq!(outcome, expected, "{spec}");
    }

    #[test]
    fn the_first_fault_is_told_in_upstreams_words() {
        let tolerant = json!([{"key": "k", "operator": "Exists"}]);
        let container = |cpu: &str| json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
        let cpu = "Node didn't have enough resource: cpu, requested: 500, used: 3600, capacity: 4000";
        check(json!({"containers": container("400m"), "tolerations": tolerant}), &[("cpu", "3600m")], Ok(()));
        check(
            json!({"containers": container("500m"), "tolerations": tolerant}),
            &[("cpu", "3600m")],
            Err(("OutOfcpu", cpu)),
        );
        let pods = "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110";
        check(
            json!({"containers": container("9"), "tolerations": tolerant}),
            &[("pods", "110")],
            Err(("OutOfpods", pods)),
        );
        let affinity = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        check(json!({"containers": [], "nodeSelector": {"disk": "hdd"}}), &[], Err(("NodeAffinity", affinity)));
        check(json!({"containers": [], "nodeSelector": {"disk": "ssd"}, "tolerations": tolerant}), &[], Ok(()));
        let taint = "Predicate TaintToleration failed: node had untolerated taint {k: v}";
        check(json!({"containers": []}), &[], Err(("TaintToleration", taint)));
    }

    #[test]
    fn a_resource_that_the_node_does_not_know_is_not_judged() {
        let spec = json!({
            "containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}],
            "tolerations": [{"operator": "Exists"}],
        });
        check(spec, &[], Ok(()));
    }
}
