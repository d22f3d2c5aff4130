//! A pod as the controllers hold it: whose it is, where it is, how it does.
//!
//! Invariant: small, for there may be a hundred thousand; whoever writes a pod reads it whole first.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use listwatch_proto::resource::toleration::{NO_EXECUTE, TAINT_NOT_READY, TAINT_UNREACHABLE, Toleration};
use listwatch_proto::resource::{Object, OwnerReference, parse_time};
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Cached, Decode};

/// The annotation that says how dear a pod is when some must go; lower goes first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// Nobody knows.
    Unknown,
    /// At least one container runs.
    Running,
    /// All containers have ended well.
    Succeeded,
    /// All containers have ended, one badly; or the pod was refused.
    Failed,
}

/// What the controllers know of a pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pod {
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// `spec.nodeName`; empty: none.
    pub node: Box<str>,
    /// Since when it has been on that node, as far as the object says.
    pub placed: Timestamp,
    /// `spec.tolerations`, of those the ones that NoExecute taints may meet.
    pub tolerations: Arc<[Toleration]>,
    /// Whether its node has taken it on: it says since when.
    pub taken: bool,
    /// `status.phase`.
    pub phase: Phase,
    /// Since when it has been ready; none: it is not.
    pub ready_since: Option<Timestamp>,
    /// Since when its deletion has been announced, unless its kubelet did so; none: it has not.
    pub disrupted_since: Option<Timestamp>,
    /// The most restarts of one of its containers, and the most of one of its sidecars (init containers that run on).
    pub restarts: (i64, i64),
    /// What its deletion costs by annotation, 0 by default.
    pub deletion_cost: i32,
    /// `status.reason` and `status.message` of a pod that failed as a whole.
    pub failure: Option<Box<(String, String)>>,
}

/// What the API server gives every pod that says nothing about a lost node; shared, since nearly all pods have it.
static DEFAULT_TOLERATIONS: LazyLock<Arc<[Toleration]>> = LazyLock::new(|| {
    let of = |key: &str| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: NO_EXECUTE.to_owned(),
        toleration_seconds: Some(300),
        ..Toleration::default()
    };
    Arc::from([of(TAINT_NOT_READY), of(TAINT_UNREACHABLE)])
});

fn shared(tolerations: Option<Vec<Toleration>>) -> Arc<[Toleration]> {
    let mut kept = tolerations.unwrap_or_default();
    kept.retain(|t| t.effect.is_empty() || t.effect == NO_EXECUTE);
    if kept[..] == DEFAULT_TOLERATIONS[..] { DEFAULT_TOLERATIONS.clone() } else { kept.into() }
}

/// A pod of the cache.
pub type PodRef = Arc<Cached<Pod>>;

impl Pod {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|at| &*self.labels[at].1)
    }

    /// Whether it counts as one of its set's replicas: neither ended nor going.
    pub fn is_active(&self) -> bool {
        !self.terminating && !self.is_finished()
    }

    /// Whether all its containers have ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// The owner that manages it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|o| o.controller == Some(true))
    }

    /// Since when it has been available: ready for so many seconds.
    pub fn available_at(&self, min_ready_seconds: i64) -> Option<Timestamp> {
        let wait = jiff::SignedDuration::from_secs(min_ready_seconds);
        self.ready_since.map(|since| since.saturating_add(wait).unwrap_or(Timestamp::MAX))
    }
}

impl Pod {
    /// Reads a pod that came as JSON.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        object.decode::<WirePod>().map(Pod::from)
    }
}

impl Decode for Pod {
    fn decode(wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<WirePod>(&wire.json).map(Pod::from)
    }
}

#[derive(Deserialize)]
struct WirePod {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    labels: Option<std::collections::BTreeMap<Box<str>, Box<str>>>,
    annotations: Option<std::collections::BTreeMap<String, Value>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    node_name: Option<Box<str>>,
    tolerations: Option<Vec<Toleration>>,
    init_containers: Option<Vec<WireInitContainer>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireInitContainer {
    name: Box<str>,
    restart_policy: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    phase: Option<String>,
    start_time: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    conditions: Option<Vec<WireCondition>>,
    container_statuses: Option<Vec<WireContainer>>,
    init_container_statuses: Option<Vec<WireContainer>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireCondition {
    r#type: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    name: Box<str>,
    restart_count: i64,
}

impl From<WirePod> for Pod {
    fn from(wire: WirePod) -> Self {
        let WirePod { metadata, spec, status } = wire;
        let time = |text: Option<&String>| text.and_then(|t| parse_time(t)).unwrap_or(Timestamp::UNIX_EPOCH);
        let created = time(metadata.creation_timestamp.as_ref());
        let placed = status.conditions.iter().flatten().find(|c| c.r#type == "PodScheduled" && c.status == "True");
        let ready = status.conditions.iter().flatten().find(|c| c.r#type == "Ready" && c.status == "True");
        // A kubelet takes as long as it takes.
        let disrupted = status.conditions.iter().flatten().find(|c| {
            let by_kubelet = c.reason.as_deref() == Some("TerminationByKubelet");
            c.r#type == "DisruptionTarget" && c.status == "True" && !by_kubelet
        });
        let sidecar = |container: &&WireContainer| {
            let mut specs = spec.init_containers.iter().flatten();
            specs.any(|spec| spec.name == container.name && spec.restart_policy.as_deref() == Some("Always"))
        };
        let restarts = status.container_statuses.iter().flatten().map(|c| c.restart_count).max().unwrap_or(0);
        let sidecars = status.init_container_statuses.iter().flatten().filter(sidecar);
        let restarts = (restarts, sidecars.map(|c| c.restart_count).max().unwrap_or(0));
        let cost = metadata.annotations.as_ref().and_then(|a| a.get(DELETION_COST)?.as_str()?.parse().ok());
        Pod {
            labels: metadata.labels.into_iter().flatten().collect(),
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            created,
            placed: placed.map_or(created, |c| time(c.last_transition_time.as_ref()).max(created)),
            tolerations: shared(spec.tolerations),
            terminating: metadata.deletion_timestamp.is_some(),
            node: spec.node_name.unwrap_or_default(),
            taken: status.start_time.is_some(),
            phase: match status.phase.as_deref() {
                Some("Running") => Phase::Running,
                Some("Succeeded") => Phase::Succeeded,
                Some("Failed") => Phase::Failed,
                Some("Unknown") => Phase::Unknown,
                _ => Phase::Pending,
            },
            ready_since: ready.map(|c| time(c.last_transition_time.as_ref())),
            disrupted_since: disrupted.map(|c| time(c.last_transition_time.as_ref())),
            restarts,
            deletion_cost: cost.unwrap_or(0),
            failure: status.reason.map(|reason| Box::new((reason, status.message.unwrap_or_default()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_keeps_what_controllers_ask() {
        let json = json!({
            "metadata": {"name": "p", "labels": {"b": "2", "a": "1"}, "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {DELETION_COST: "-3"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
            "spec": {"nodeName": "n", "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "containerStatuses": [{"restartCount": 2}, {"restartCount": 5}],
                "initContainerStatuses": [{"name": "i", "restartCount": 9}, {"name": "s", "restartCount": 3}],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]}});
        let pod: Pod = serde_json::from_value::<WirePod>(json).map(Pod::from).expect("a pod");
        assert_eq!((pod.label("b"), pod.restarts, pod.deletion_cost), (Some("2"), (5, 3), -3));
        assert_eq!(pod.controller().map(|o| o.uid.as_str()), Some("u"));
        assert!(pod.is_active());
        assert_eq!(pod.placed, pod.created);
        assert_eq!(pod.available_at(10), "2026-01-01T00:00:15Z".parse().ok());
    }
    #[test]
    fn the_tolerations_that_all_pods_have_are_held_once() {
        let default = |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let pod = |tolerations: serde_json::Value| {
            let json = json!({"metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"tolerations": tolerations},
                "status": {"conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}]}});
            serde_json::from_value::<WirePod>(json).map(Pod::from).expect("a pod")
        };
        let plain = || pod(json!([default(TAINT_NOT_READY), default(TAINT_UNREACHABLE)]));
        assert!(Arc::ptr_eq(&plain().tolerations, &plain().tolerations));
        assert_eq!(plain().placed, "2026-01-01T00:00:07Z".parse().expect("a time"));
        let own = pod(json!([default("k"), {"key": "s", "operator": "Exists", "effect": "NoSchedule"}]));
        assert_eq!(own.tolerations.iter().map(|t| t.key.as_str()).collect::<Vec<_>>(), ["k"]);
    }
}
