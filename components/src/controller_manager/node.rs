//! Nodes and their Leases as the controllers hold them: how a node does, and when it was last heard of.

use listwatch_proto::resource::toleration::NO_EXECUTE;
use listwatch_proto::resource::{Object, OwnerReference, Taint};
use serde::Deserialize;
use serde_json::Value;

use crate::client::Decode;

/// `status` of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truth {
    /// It is so.
    True,
    /// It is not.
    False,
    /// Nobody knows, or nobody has said.
    #[default]
    Unknown,
}

/// What the controllers know of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Region and zone by label, joined; empty: the node names none.
    pub zone: Box<str>,
    /// By label: whether it is not counted when a zone is judged.
    pub uncounted: bool,
    /// Labels that old clients still ask for and that the node lacks, as they are to be.
    pub missing_labels: Vec<(&'static str, Box<str>)>,
    /// Conditions by type: whether it is so, and the heartbeat that said so.
    pub conditions: Vec<Condition>,
}

/// What matters of a node's condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// `Ready`, `MemoryPressure`, …
    pub kind: Box<str>,
    /// Whether it is so.
    pub status: Truth,
    /// `lastHeartbeatTime`.
    pub heartbeat: Box<str>,
}

/// What the controllers know of a Lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lease {
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// `spec.renewTime`, as it is written: only ever compared with itself.
    pub renewed: Box<str>,
}

impl Node {
    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| *c.kind == *kind)
    }

    /// The taints that make pods leave.
    pub fn evicting(&self) -> impl Iterator<Item = &Taint> {
        self.taints.iter().filter(|taint| taint.effect == NO_EXECUTE)
    }

    /// The condition `Ready`; unknown if the kubelet has not said.
    pub fn ready(&self) -> Truth {
        self.condition("Ready").map_or(Truth::Unknown, |c| c.status)
    }
}

/// The labels that say where a node stands.
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Labels, and the older names that say the same.
const TWINS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];
/// The label of a node that says nothing about its zone.
const UNCOUNTED: &str = "node.kubernetes.io/exclude-disruption";

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    labels: Option<std::collections::BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct WireNode {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSpec {
    taints: Option<Vec<Taint>>,
    unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus {
    conditions: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct WireLease {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireLeaseSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireLeaseSpec {
    renew_time: Option<Box<str>>,
}

impl Decode for Node {
    fn decode(wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<WireNode>(&wire.json).map(Node::from)
    }
}

impl Node {
    /// Reads a node that came as JSON.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        object.decode::<WireNode>().map(Node::from)
    }
}

impl From<WireNode> for Node {
    fn from(wire: WireNode) -> Self {
        let WireNode { metadata, spec, status } = wire;
        let text = |value: &Value| value.as_str().unwrap_or_default().into();
        let condition = |value: &Value| Condition {
            kind: text(&value["type"]),
            status: match value["status"].as_str() {
                Some("True") => Truth::True,
                Some("False") => Truth::False,
                _ => Truth::Unknown,
            },
            heartbeat: text(&value["lastHeartbeatTime"]),
        };
        let labels = metadata.labels.unwrap_or_default();
        let label = |key: &str| labels.get(key).map_or("", String::as_str);
        let zone = match (label(REGION), label(ZONE)) {
            ("", "") => "".into(),
            (region, zone) => format!("{region}/{zone}").into(),
        };
        let missing = |(name, twin): (&str, &'static str)| {
            labels.get(name).filter(|value| labels.get(twin) != Some(value)).map(|value| (twin, value.as_str().into()))
        };
        Node {
            missing_labels: TWINS.into_iter().filter_map(missing).collect(),
            uncounted: labels.contains_key(UNCOUNTED),
            zone,
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable,
            conditions: status.conditions.iter().flatten().map(condition).collect(),
        }
    }
}

impl Decode for Lease {
    fn decode(wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
        let WireLease { metadata, spec } = serde_json::from_slice(&wire.json)?;
        Ok(Lease {
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
            renewed: spec.renew_time.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_keeps_what_controllers_ask() {
        let node = Object::from_value(json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "z"}},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "h"}]}}));
        let node = Node::of(&node.expect("a map")).expect("a node");
        assert_eq!((&*node.zone, node.uncounted, node.ready()), ("/z", false, Truth::False));
        assert_eq!(node.evicting().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(node.missing_labels, [("beta.kubernetes.io/arch", "amd64".into())]);
    }
}
