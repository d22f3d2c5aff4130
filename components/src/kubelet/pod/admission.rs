//! Whether the node takes a pod (Kubernetes 1.36): operating system, resources, node affinity, name, ports, then taints;
//! the first fault is told.
//!
//! Invariant: judged by the same functions as the scheduler's, so what it thought to fit is taken, unless the node has
//! changed meanwhile.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use listwatch_proto::resource::{
    NodeAffinity, NodeLabels, PodResources, Quantity, Resources, Taint, Toleration, node_matches,
    requests::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS},
    toleration::untolerated_execute,
};
use serde::Deserialize;
use serde_json::Value;

use super::spec;

/// The label that names a node's operating system.
const OS_LABEL: &str = "kubernetes.io/os";

/// Why a pod is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// `OutOfcpu`, `NodeAffinity`, `TaintToleration`, …
    pub reason: String,
    /// For a person.
    pub message: String,
}

/// What one pod takes of its node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Share {
    /// Amounts, its one place among the pods included.
    pub requests: Resources,
    /// Ports of the node.
    pub ports: Vec<HostPort>,
}

/// A port of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Address it is taken on; `0.0.0.0`: on all.
    pub ip: String,
    /// `TCP`, `UDP`, `SCTP`.
    pub protocol: String,
    /// Its number.
    pub port: i32,
}

impl Rejection {
    fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Rejection { reason: reason.into(), message: message.into() }
    }

    fn predicate(name: &str, why: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {why}"))
    }

    /// A newer picture of the node could lead to another answer.
    pub fn may_be_stale(&self) -> bool {
        matches!(self.reason.as_str(), "NodeAffinity" | "TaintToleration")
    }
}

impl Share {
    /// What this pod takes.
    pub fn of(pod: &Pod) -> Self {
        let spec = serde_json::to_value(&pod.spec).unwrap_or_default();
        let mut requests = PodResources::of_spec(&spec).unwrap_or_default().requests();
        requests.insert(PODS.to_owned(), Quantity::units(1));
        let containers = pod.spec.iter().flat_map(spec::containers).map(|(container, _)| container);
        let ports = containers
            .flat_map(|container| container.ports.iter().flatten())
            .filter_map(|port| {
                let text = |text: &Option<String>, default: &str| {
                    text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_owned())
                };
                let number = port.host_port.filter(|number| *number > 0)?;
                Some(HostPort {
                    ip: text(&port.host_ip, "0.0.0.0"),
                    protocol: text(&port.protocol, "TCP"),
                    port: number,
                })
            })
            .collect();
        Share { requests, ports }
    }
}

impl HostPort {
    fn conflicts(&self, other: &HostPort) -> bool {
        let anywhere = |ip: &str| ip == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || anywhere(&self.ip) || anywhere(&other.ip))
    }
}

/// Judges a pod against the node and what other pods have taken of it.
pub fn admit(
    pod: &Pod,
    share: &Share,
    node: &Node,
    allocatable: &Resources,
    others: &[&Share],
) -> Result<(), Rejection> {
    let spec = serde_json::to_value(&pod.spec).unwrap_or_default();
    operating_system(pod, &spec)?;
    resources(&share.requests, allocatable, others)?;
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let selector: BTreeMap<String, String> = part(&spec["nodeSelector"]);
    let affinity: Option<NodeAffinity> = part(&spec["affinity"]["nodeAffinity"]);
    if !node_matches(&selector, affinity.as_ref(), NodeLabels { name, labels: &labels }) {
        return Err(Rejection::predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"));
    }
    if spec["nodeName"].as_str().is_some_and(|wanted| wanted != name) {
        return Err(Rejection::predicate("NodeName", "node(s) didn't match the requested node name"));
    }
    let taken = |port: &HostPort| others.iter().flat_map(|other| &other.ports).any(|other| other.conflicts(port));
    if share.ports.iter().any(taken) {
        return Err(Rejection::predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"));
    }
    let node_spec = serde_json::to_value(&node.spec).unwrap_or_default();
    let taints: Vec<Taint> = part(&node_spec["taints"]);
    let tolerations: Vec<Toleration> = part(&spec["tolerations"]);
    match untolerated_execute(&taints, &tolerations) {
        Some(_) => Err(Rejection::predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")),
        None => Ok(()),
    }
}

/// Whether the pod is made for this system at all.
fn operating_system(pod: &Pod, spec: &Value) -> Result<(), Rejection> {
    let here = std::env::consts::OS;
    if pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL)).is_some_and(|wanted| wanted != here) {
        return Err(Rejection::new(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ));
    }
    if spec["os"]["name"].as_str().is_some_and(|wanted| wanted != here) {
        return Err(Rejection::new("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"));
    }
    Ok(())
}

fn resources(requests: &Resources, allocatable: &Resources, others: &[&Share]) -> Result<(), Rejection> {
    // The number of pods first, then in the order that upstream has them.
    const ORDER: [&str; 4] = [PODS, CPU, MEMORY, EPHEMERAL_STORAGE];
    let rank = |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
    let mut names: Vec<_> = requests.keys().collect();
    names.sort_by_key(|name| (rank(name.as_str()), name.as_str()));
    for name in names {
        let request = requests[name];
        let capacity = match allocatable.get(name) {
            Some(&capacity) => capacity,
            None if rank(name) < ORDER.len() => Quantity::ZERO,
            // What the node has never heard of is left to whoever put it into the pod.
            None => continue,
        };
        let used: Quantity = others.iter().filter_map(|other| other.requests.get(name)).copied().sum();
        if !request.is_zero() && request.nanos() + used.nanos() > capacity.nanos() {
            let amount = |quantity: Quantity| if name == CPU { quantity.milli_value() } else { quantity.value() };
            let message = format!(
                "Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
                amount(request),
                amount(used),
                amount(capacity)
            );
            return Err(Rejection::new(format!("OutOf{name}"), message));
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
        let other = Share {
            requests: amounts(used),
            ports: vec![HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 8080 }],
        };
        let outcome = admit(&pod, &Share::of(&pod), &node, &allocatable, &[&other]);
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
        let tolerant_on = |node: &str| json!({"containers": [], "nodeName": node, "tolerations": tolerant});
        check(tolerant_on("node01"), &[], Ok(()));
        let name = "Predicate NodeName failed: node(s) didn't match the requested node name";
        check(tolerant_on("node02"), &[], Err(("NodeName", name)));
        let taint = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
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

    #[test]
    fn ports_of_the_node_are_given_once() {
        let spec = |port: Value| {
            json!({
                "containers": [{"name": "c", "ports": [port]}], "tolerations": [{"operator": "Exists"}],
            })
        };
        let taken = Err((
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ));
        check(spec(json!({"containerPort": 8080})), &[], Ok(()));
        check(spec(json!({"containerPort": 80, "hostPort": 8080})), &[], taken);
        check(spec(json!({"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"})), &[], taken);
        check(spec(json!({"containerPort": 80, "hostPort": 8080, "protocol": "UDP"})), &[], Ok(()));
    }

    #[test]
    fn a_pod_for_another_system_is_turned_away_first() {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        check(json!({"containers": [], "os": {"name": "windows"}}), &[], Err(("PodOSNotSupported", message)));
    }

    #[test]
    fn a_plain_resource_that_the_node_does_not_offer_is_out() {
        let spec = json!({
            "containers": [{"name": "c", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}],
            "tolerations": [{"operator": "Exists"}],
        });
        let message =
            "Node didn't have enough resource: ephemeral-storage, requested: 1073741824, used: 0, capacity: 0";
        check(spec, &[], Err(("OutOfephemeral-storage", message)));
    }
}
