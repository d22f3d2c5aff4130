//! Short ways to what a service's spec says.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::vocabulary::fields::{items, text};

/// The address that says that there is none.
pub(super) const NO_ADDRESS: &str = "None";

/// The spec.
pub(super) fn spec(object: &Object) -> &Value {
    object.at(&["spec"]).unwrap_or(&Value::Null)
}

/// `ClusterIP`.
pub(super) fn kind(spec: &Value) -> &str {
    text(spec, "type")
}

/// The words of a list.
pub(super) fn words<'a>(spec: &'a Value, key: &str) -> Vec<&'a str> {
    items(spec, key).iter().map(|word| word.as_str().unwrap_or_default()).collect()
}

/// `spec.clusterIPs`.
pub(super) fn addresses(spec: &Value) -> Vec<&str> {
    words(spec, "clusterIPs")
}

/// `spec.ipFamilies`.
pub(super) fn families(spec: &Value) -> Vec<&str> {
    words(spec, "ipFamilies")
}

/// `spec.ipFamilyPolicy`, if it is there.
pub(super) fn policy(spec: &Value) -> Option<&str> {
    spec["ipFamilyPolicy"].as_str()
}

/// Sets a list of words; an empty one is taken away.
pub(super) fn set_words(object: &mut Object, key: &str, words: Vec<String>) {
    if words.is_empty() {
        object.remove(&["spec", key]);
    } else {
        object.set(&["spec", key], words);
    }
}

/// Whether it has no address, only names that lead to pods.
pub(super) fn is_headless(spec: &Value) -> bool {
    addresses(spec) == [NO_ADDRESS]
}

/// Whether it needs an address of the cluster, be it none.
pub(super) fn needs_address(spec: &Value) -> bool {
    kind(spec) != "ExternalName"
}

/// Whether it is of a type that has ports on every node.
pub(super) fn has_node_ports(spec: &Value) -> bool {
    matches!(kind(spec), "NodePort" | "LoadBalancer")
}

/// Whether packets from outside the cluster reach it.
pub(super) fn is_reached_from_outside(spec: &Value) -> bool {
    has_node_ports(spec) || (kind(spec) == "ClusterIP" && !items(spec, "externalIPs").is_empty())
}

/// Whether load balancers ask a port of each node whether it has endpoints.
pub(super) fn needs_health_port(spec: &Value) -> bool {
    kind(spec) == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// A number of the spec or of a port; absent is 0.
pub(super) fn number(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0)
}

/// The node ports of its ports.
pub(super) fn node_ports(spec: &Value) -> Vec<i64> {
    items(spec, "ports").iter().map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
}
