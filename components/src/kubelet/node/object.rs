//! The Node object of this kubelet (Kubernetes 1.36). Pure, but for [`system_facts`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo,
        Taint,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, Time},
    },
};

/// What is said of isolation, because no runtime has any.
const ISOLATION_ANNOTATION: &str = "listwatch.dev/isolation";

/// All that makes a Node.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::kubelet) struct NodeFacts {
    /// Its name.
    pub(in crate::kubelet) name: String,
    /// Its address.
    pub(in crate::kubelet) address: String,
    /// Port of the kubelet's server.
    pub(in crate::kubelet) port: u16,
    /// What it offers.
    pub(in crate::kubelet) capacity: BTreeMap<String, String>,
    /// Labels beside the ones that every node has.
    pub(in crate::kubelet) labels: BTreeMap<String, String>,
    /// Taints it is born with.
    pub(in crate::kubelet) taints: Vec<Taint>,
    /// What is said of isolation.
    pub(in crate::kubelet) isolation: &'static str,
    /// The machine.
    pub(in crate::kubelet) system: NodeSystemInfo,
}

impl NodeFacts {
    /// The labels of the node: those that every node has, and its own.
    pub(in crate::kubelet) fn all_labels(&self) -> BTreeMap<String, String> {
        let (os, arch) = (&self.system.operating_system, &self.system.architecture);
        let mut labels = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), self.name.clone()),
            ("kubernetes.io/os".to_owned(), os.clone()),
            ("kubernetes.io/arch".to_owned(), arch.clone()),
            ("beta.kubernetes.io/os".to_owned(), os.clone()),
            ("beta.kubernetes.io/arch".to_owned(), arch.clone()),
        ]);
        labels.extend(self.labels.clone());
        labels
    }

    /// What is written beside the labels.
    pub(in crate::kubelet) fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(ISOLATION_ANNOTATION.to_owned(), self.isolation.to_owned())])
    }

    /// The object to create.
    pub(in crate::kubelet) fn node(&self, now: Timestamp) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.all_labels()),
                annotations: Some(self.annotations()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(self.status(None, now)),
        }
    }

    /// The status, with times of transition and foreign conditions taken from the present one.
    pub(in crate::kubelet) fn status(&self, present: Option<&NodeStatus>, now: Timestamp) -> NodeStatus {
        let amounts: BTreeMap<_, _> =
            self.capacity.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect();
        let address = |kind: &str, address: &str| NodeAddress { type_: kind.to_owned(), address: address.to_owned() };
        let mut status = present.cloned().unwrap_or_default();
        status.capacity = Some(amounts.clone());
        status.allocatable = Some(amounts);
        status.addresses = Some(vec![address("InternalIP", &self.address), address("Hostname", &self.name)]);
        status.daemon_endpoints =
            Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(self.port) }) });
        status.node_info = Some(self.system.clone());
        status.conditions = Some(conditions(present, now));
        status
    }
}

/// Whether the Node says Ready.
pub(super) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The kubelet's conditions in upstream's order, then whatever others have put there.
fn conditions(present: Option<&NodeStatus>, now: Timestamp) -> Vec<NodeCondition> {
    const OWN: [(&str, &str, &str, &str); 4] = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let old = present.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let own = OWN.into_iter().map(|(kind, status, reason, message)| {
        let before = old.iter().find(|condition| condition.type_ == kind && condition.status == status);
        NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: before
                .and_then(|condition| condition.last_transition_time.clone())
                .or(Some(Time(now))),
        }
    });
    let foreign = old.iter().filter(|condition| OWN.iter().all(|own| own.0 != condition.type_)).cloned();
    own.chain(foreign).collect()
}

/// What the machine says of itself.
pub(in crate::kubelet) fn system_facts(runtime: &str) -> NodeSystemInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let os_release = read("/etc/os-release");
    let os_image = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or("Linux", |name| name.trim_matches('"'))
        .to_owned();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    NodeSystemInfo {
        architecture: architecture.to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: runtime.to_owned(),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        kube_proxy_version: String::new(),
        kubelet_version: concat!("v1.36.0-listwatch-", env!("CARGO_PKG_VERSION")).to_owned(),
        machine_id: read("/etc/machine-id"),
        operating_system: std::env::consts::OS.to_owned(),
        os_image,
        system_uuid: read("/etc/machine-id"),
        ..NodeSystemInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts() -> NodeFacts {
        NodeFacts {
            name: "node01".into(),
            address: "127.0.0.1".into(),
            port: 10250,
            capacity: BTreeMap::from([("cpu".into(), "4".into()), ("pods".into(), "110".into())]),
            labels: BTreeMap::from([("disk".into(), "ssd".into())]),
            taints: Vec::new(),
            isolation: "none",
            system: system_facts("process://test"),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    #[test]
    fn a_new_node_is_ready_at_once() {
        let node = facts().node(at(0));
        assert!(is_ready(&node));
        let json = serde_json::to_value(&node).expect("plain data");
        assert_eq!(json["metadata"]["labels"]["kubernetes.io/hostname"], "node01");
        assert_eq!(json["metadata"]["labels"]["disk"], "ssd");
        assert_eq!(json["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
        assert_eq!(json["status"]["allocatable"], json!({"cpu": "4", "pods": "110"}));
        let kinds: Vec<_> =
            json["status"]["conditions"].as_array().expect("a list").iter().map(|c| &c["type"]).collect();
        assert_eq!(kinds, ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);
    }

    #[test]
    fn heartbeats_move_and_transitions_stay() {
        let mut first = facts().status(None, at(0));
        let foreign = json!({"type": "NetworkUnavailable", "status": "False"});
        first.conditions.as_mut().expect("told").push(serde_json::from_value(foreign).expect("a condition"));
        let later = facts().status(Some(&first), at(60));
        let conditions = later.conditions.expect("told");
        assert_eq!(conditions.len(), 5);
        assert_eq!(conditions[3].last_heartbeat_time, Some(Time(at(60))));
        assert_eq!(conditions[3].last_transition_time, Some(Time(at(0))));
        let mut lost = facts().status(None, at(0));
        lost.conditions.as_mut().expect("told")[3].status = "Unknown".into();
        let back = facts().status(Some(&lost), at(60)).conditions.expect("told");
        assert_eq!(back[3].last_transition_time, Some(Time(at(60))), "Ready again since now");
    }
}
