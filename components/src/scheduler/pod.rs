//! A pod as the scheduler holds it: what it uses where it is, and, while it waits for a node, what it asks of one.
//!
//! Invariant: what only matters while the pod waits is kept only then, so that a hundred thousand placed pods stay small.

use std::collections::BTreeMap;

use listwatch_proto::resource::requests::ContainerResources;
use listwatch_proto::resource::{NodeAffinity, ObjectKey, PodResources, ResourceRequirements, Resources, Toleration};
use serde::Deserialize;
use serde_json::Value;

use super::{Amounts, HostPort, Image};

/// The scheduler that pods ask for by default.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The reason in the condition of a pod that goes for a more important one.
pub(super) const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// What the scheduler knows of a pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`: another pod of the same name is another pod.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub revision: i64,
    /// `spec.nodeName`; empty while it waits for a node.
    pub node_name: String,
    /// `spec.priority`, 0 by default.
    pub priority: i32,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// What it takes of a node.
    pub requests: Amounts,
    /// The cpu that it counts for when nodes are scored, in thousandths.
    pub assumed_milli_cpu: i64,
    /// The memory that it counts for when nodes are scored, in bytes.
    pub assumed_memory: i64,
    /// The ports of the node that it takes: those of its containers and sidecars.
    pub host_ports: Box<[HostPort]>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// Whether its phase is Succeeded or Failed: it takes nothing any more.
    pub finished: bool,
    /// Whether it was told to go for a more important pod.
    pub preempted: bool,
    /// `status.startTime`; empty until the kubelet has seen it.
    pub start_time: Box<str>,
    /// What it asks of a node; only while it waits for one.
    pub waiting: Option<Box<Waiting>>,
}

/// What a pod without a node asks of one, and what has been said about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Waiting {
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.affinity.nodeAffinity`.
    pub node_affinity: Option<NodeAffinity>,
    /// The names of its images (init containers, containers, image volumes), each with a tag.
    pub images: Vec<Box<str>>,
    /// Whether `spec.schedulingGates` holds any.
    pub gated: bool,
    /// Whether `spec.preemptionPolicy` is `Never`.
    pub never_preempts: bool,
    /// `status.nominatedNodeName`.
    pub nominated_node: String,
    /// `status.conditions` as they stand, to be written back with one of them changed.
    pub conditions: Vec<Value>,
}

impl Pod {
    /// Decodes a pod from its JSON; fields that do not matter to placement are skipped.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<WirePod>(json).map(Pod::from)
    }

    /// What it asks of a node; nothing at all for a pod that has one.
    pub fn asks(&self) -> &Waiting {
        static NOTHING: Waiting = Waiting {
            scheduler_name: String::new(),
            generation: 0,
            tolerations: Vec::new(),
            node_selector: BTreeMap::new(),
            node_affinity: None,
            images: Vec::new(),
            gated: false,
            never_preempts: false,
            nominated_node: String::new(),
            conditions: Vec::new(),
        };
        self.waiting.as_deref().unwrap_or(&NOTHING)
    }

    /// Whether it takes room on a node: it has one and has not finished.
    pub fn is_placed(&self) -> bool {
        !self.node_name.is_empty() && !self.finished
    }

    /// Whether it is this scheduler's and has no node; one that is being deleted is not to be given any.
    pub fn wants_node(&self, scheduler_name: &str) -> bool {
        self.node_name.is_empty() && !self.finished && self.asks().scheduler_name == scheduler_name
    }

    /// The same pod as it will be once it is bound.
    pub fn placed_on(&self, node: &str) -> Pod {
        Pod { node_name: node.to_owned(), waiting: None, ..self.clone() }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|at| &*self.labels[at].1)
    }
}

#[derive(Deserialize)]
struct WirePod {
    metadata: WireMetadata,
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    generation: i64,
    labels: Option<BTreeMap<Box<str>, Box<str>>>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    containers: Vec<WireContainer>,
    init_containers: Vec<WireContainer>,
    overhead: Resources,
    resources: Option<ResourceRequirements>,
    volumes: Option<Vec<WireVolume>>,
    node_name: Option<String>,
    priority: Option<i32>,
    scheduler_name: Option<String>,
    tolerations: Option<Vec<Toleration>>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<WireAffinity>,
    scheduling_gates: Option<Vec<serde::de::IgnoredAny>>,
    preemption_policy: Option<String>,
}

/// A container: what it takes, and what else matters to placement.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    resources: ResourceRequirements,
    restart_policy: Option<String>,
    image: Option<Box<str>>,
    ports: Option<Vec<WirePort>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WirePort {
    host_port: i32,
    #[serde(rename = "hostIP")]
    host_ip: Option<Box<str>>,
    protocol: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireVolume {
    image: Option<WireImageVolume>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireImageVolume {
    reference: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireAffinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    phase: String,
    nominated_node_name: Option<String>,
    start_time: Option<Box<str>>,
    conditions: Option<Vec<Value>>,
}

/// The images of a waiting pod, as ImageLocality counts them.
fn image_names(spec: &WireSpec) -> Vec<Box<str>> {
    let containers = spec.init_containers.iter().chain(&spec.containers).map(|c| c.image.as_deref());
    let volumes = spec.volumes.iter().flatten().filter_map(|v| v.image.as_ref()).map(|i| i.reference.as_deref());
    containers.chain(volumes).map(|name| Image::tagged(name.unwrap_or_default())).collect()
}

/// Whether a condition says that the pod goes for a more important one.
fn is_preemption(condition: &Value) -> bool {
    condition["type"] == "DisruptionTarget"
        && condition["status"] == "True"
        && condition["reason"] == PREEMPTION_BY_SCHEDULER
}

/// The ports of the node that a container takes.
fn take_ports(given: Option<Vec<WirePort>>, taken: &mut Vec<HostPort>) {
    for port in given.into_iter().flatten().filter(|p| p.host_port > 0) {
        taken.push(HostPort::new(port.host_ip.as_deref(), port.protocol.as_deref(), port.host_port));
    }
}

impl From<WirePod> for Pod {
    fn from(wire: WirePod) -> Self {
        let WirePod { metadata, spec, status } = wire;
        let is_placed = spec.node_name.as_ref().is_some_and(|name| !name.is_empty());
        let images = if is_placed { Vec::new() } else { image_names(&spec) };
        let node_name = spec.node_name.unwrap_or_default();
        let (mut containers, mut ports) = (Vec::new(), Vec::new());
        for container in spec.containers {
            take_ports(container.ports, &mut ports);
            containers.push(ContainerResources { resources: container.resources, restart_policy: None });
        }
        let mut init_containers = Vec::new();
        for container in spec.init_containers {
            let init = ContainerResources { resources: container.resources, restart_policy: container.restart_policy };
            if init.is_sidecar() {
                take_ports(container.ports, &mut ports);
            }
            init_containers.push(init);
        }
        let resources =
            PodResources { containers, init_containers, overhead: spec.overhead, resources: spec.resources };
        let assumed = Amounts::of(&resources.requests_assumed());
        let preempted = status.conditions.iter().flatten().any(is_preemption);
        let waiting = node_name.is_empty().then(|| {
            Box::new(Waiting {
                scheduler_name: spec.scheduler_name.unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned()),
                generation: metadata.generation,
                tolerations: spec.tolerations.unwrap_or_default(),
                node_selector: spec.node_selector.unwrap_or_default(),
                node_affinity: spec.affinity.and_then(|a| a.node_affinity),
                images,
                gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
                never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
                nominated_node: status.nominated_node_name.unwrap_or_default(),
                conditions: status.conditions.unwrap_or_default(),
            })
        });
        Pod {
            key: ObjectKey::new(metadata.namespace, metadata.name),
            uid: metadata.uid,
            revision: metadata.resource_version.parse().unwrap_or(0),
            node_name,
            priority: spec.priority.unwrap_or(0),
            labels: metadata.labels.into_iter().flatten().collect(),
            requests: Amounts::of(&resources.requests()),
            assumed_milli_cpu: assumed.milli_cpu,
            assumed_memory: assumed.memory,
            host_ports: ports.into(),
            terminating: metadata.deletion_timestamp.is_some(),
            finished: status.phase == "Succeeded" || status.phase == "Failed",
            preempted,
            start_time: status.start_time.unwrap_or_default(),
            waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(json: Value) -> Pod {
        Pod::from_json(json.to_string().as_bytes()).expect("a pod")
    }

    #[test]
    fn a_waiting_pod_keeps_what_it_asks() {
        let pod = read(json!({
            "metadata": {"namespace": "default", "name": "p", "uid": "u", "resourceVersion": "7", "labels": {"b": "2", "a": "1"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}],
                     "nodeSelector": {"disk": "ssd"}, "schedulingGates": [{"name": "g"}]}}));
        assert!(pod.wants_node(DEFAULT_SCHEDULER));
        assert_eq!((pod.revision, pod.requests.milli_cpu, pod.assumed_memory), (7, 250, 200 << 20));
        assert_eq!((pod.label("a"), pod.label("c")), (Some("1"), None));
        assert!(pod.asks().gated);
        assert!(pod.placed_on("n").waiting.is_none());
    }

    #[test]
    fn a_pod_with_a_node_is_not_scheduled() {
        let pod = read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []}}));
        assert!(!pod.wants_node(DEFAULT_SCHEDULER) && pod.is_placed() && pod.waiting.is_none());
        let done = read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}));
        assert!(!done.is_placed());
        let other = read(json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "mine"}}));
        assert!(!other.wants_node(DEFAULT_SCHEDULER) && other.wants_node("mine"));
        let going = read(json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}));
        assert!(going.wants_node(DEFAULT_SCHEDULER) && going.terminating);
    }
}
