//! A node as the scheduler holds it: what it offers, and what the pods on it take.
//!
//! Invariant: `requested`, the used ports and the assumed sums are the sums over `pods`, kept by [`NodeInfo::add_pod`] and
//! [`NodeInfo::remove_pod`] alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use listwatch_proto::resource::{NodeLabels, ObjectKey, Resources, Taint};
use serde::Deserialize;

use super::{Amounts, HostPort, Image, Pod};

/// The labels of a node's region; the older one counts first, as upstream has it.
const REGION: [&str; 2] = ["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"];
/// The labels of a node's zone.
const ZONE: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];

/// What the scheduler knows of a node object.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `status.allocatable`.
    pub allocatable: Amounts,
    /// `status.images`.
    pub images: Vec<Image>,
}

impl Node {
    /// Decodes a node from its JSON; fields that do not matter to placement are skipped.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<WireNode>(json).map(Node::from)
    }

    /// The node as affinity rules see it.
    pub fn labels(&self) -> NodeLabels<'_> {
        NodeLabels { name: &self.name, labels: &self.labels }
    }

    /// Region and zone, which nodes are mixed by; both may be empty.
    pub fn zone(&self) -> (&str, &str) {
        let label = |keys: [&str; 2]| keys.iter().find_map(|key| self.labels.get(*key)).map_or("", String::as_str);
        (label(REGION), label(ZONE))
    }
}

/// A node with the pods on it.
#[derive(Debug, Clone, Default)]
pub struct NodeInfo {
    /// The node object; none while only pods name it.
    pub node: Option<Arc<Node>>,
    /// The pods that take room here, placed and assumed.
    pub pods: Vec<Arc<Pod>>,
    /// The sum of their requests.
    pub requested: Amounts,
    /// The ports that they take.
    pub used_ports: Vec<HostPort>,
    /// The sum of what they count for in scores: cpu in thousandths.
    pub assumed_milli_cpu: i64,
    /// The sum of what they count for in scores: memory in bytes.
    pub assumed_memory: i64,
}

impl NodeInfo {
    /// The node object of a node in a snapshot.
    ///
    /// # Panics
    /// If only pods name the node; a snapshot holds no such entry.
    pub fn object(&self) -> &Node {
        self.node.as_deref().expect("a snapshot holds only nodes that exist")
    }

    /// What the node offers; nothing if it does not exist.
    pub fn allocatable(&self) -> &Amounts {
        static NOTHING: std::sync::OnceLock<Amounts> = std::sync::OnceLock::new();
        self.node.as_ref().map_or_else(|| NOTHING.get_or_init(Amounts::default), |n| &n.allocatable)
    }

    /// Counts a pod in.
    pub fn add_pod(&mut self, pod: Arc<Pod>) {
        self.requested.add(&pod.requests);
        self.assumed_milli_cpu += pod.assumed_milli_cpu;
        self.assumed_memory += pod.assumed_memory;
        self.used_ports.extend_from_slice(&pod.host_ports);
        self.pods.push(pod);
    }

    /// Counts a pod out; `None` if it was not there.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> Option<Arc<Pod>> {
        let at = self.pods.iter().position(|p| p.key == *key)?;
        let pod = self.pods.swap_remove(at);
        self.requested.sub(&pod.requests);
        self.assumed_milli_cpu -= pod.assumed_milli_cpu;
        self.assumed_memory -= pod.assumed_memory;
        for port in &pod.host_ports {
            // One for one: a pod that was placed by name may have the port of another.
            if let Some(at) = self.used_ports.iter().position(|used| used == port) {
                self.used_ports.swap_remove(at);
            }
        }
        Some(pod)
    }
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
struct WireMetadata {
    name: String,
    uid: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSpec {
    unschedulable: bool,
    taints: Option<Vec<Taint>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus {
    images: Option<Vec<WireImage>>,
    allocatable: Option<Resources>,
    capacity: Option<Resources>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireImage {
    names: Option<Vec<Arc<str>>>,
    size_bytes: i64,
}

impl From<WireImage> for Image {
    fn from(wire: WireImage) -> Self {
        Image { names: wire.names.unwrap_or_default(), size: wire.size_bytes }
    }
}

impl From<WireNode> for Node {
    fn from(wire: WireNode) -> Self {
        // The API server fills a missing allocatable from the capacity; a node written by other means may lack it.
        let allocatable = wire.status.allocatable.or(wire.status.capacity).unwrap_or_default();
        Node {
            name: Arc::from(wire.metadata.name),
            uid: wire.metadata.uid,
            labels: wire.metadata.labels.unwrap_or_default(),
            unschedulable: wire.spec.unschedulable,
            taints: wire.spec.taints.unwrap_or_default(),
            allocatable: Amounts::of(&allocatable),
            images: wire.status.images.into_iter().flatten().map(Image::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_the_pods() {
        let pod = |name: &str, cpu: i64| {
            Arc::new(Pod {
                key: ObjectKey::new("default", name),
                requests: Amounts::sample(cpu, 0),
                assumed_milli_cpu: cpu.max(100),
                host_ports: [HostPort::new(None, None, 80)].into(),
                ..Pod::default()
            })
        };
        let mut info = NodeInfo::default();
        info.add_pod(pod("a", 0));
        info.add_pod(pod("b", 500));
        assert_eq!((info.requested.milli_cpu, info.assumed_milli_cpu), (500, 600));
        assert!(info.remove_pod(&ObjectKey::new("other", "a")).is_none());
        assert!(info.remove_pod(&ObjectKey::new("default", "b")).is_some());
        assert_eq!((info.requested.milli_cpu, info.assumed_milli_cpu, info.pods.len()), (0, 100, 1));
        assert_eq!(info.used_ports.len(), 1, "the other pod has the port still");
    }
}
