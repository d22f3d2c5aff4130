//! Nodes and their Leases as the controllers hold them: how a node does, and when it was last heard of.

use listwatch_proto::resource::{OwnerReference, Taint};
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

    /// The condition `Ready`; unknown if the kubelet has not said.
    pub fn ready(&self) -> Truth {
        self.condition("Ready").map_or(Truth::Unknown, |c| c.status)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
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
        let WireNode { metadata, spec, status } = serde_json::from_slice(&wire.json)?;
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
        Ok(Node {
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable,
            conditions: status.conditions.iter().flatten().map(condition).collect(),
        })
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
