//! What a pod asks for: effective requests and limits, quality-of-service class (Kubernetes 1.36,
//! `component-helpers/resource`, `kubectl/pkg/util/qos`).
//!
//! Invariant: scheduler, kubelet and registry judge a pod by these functions alone, so that what the scheduler thought to
//! fit is what the kubelet admits.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Quantity;

/// Amounts by resource name.
pub type Resources = BTreeMap<String, Quantity>;

/// `cpu`, in cores.
pub const CPU: &str = "cpu";
/// `memory`, in bytes.
pub const MEMORY: &str = "memory";
/// `ephemeral-storage`, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// `pods`, the number of pods a node takes.
pub const PODS: &str = "pods";

/// The cpu that a container without a request counts when nodes are scored.
pub const CPU_ASSUMED: Quantity = Quantity::millis(100);
/// The memory that a container without a request counts when nodes are scored.
pub const MEMORY_ASSUMED: Quantity = Quantity::bytes(200 * 1024 * 1024);

/// `resources` of a container or a pod.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResourceRequirements {
    /// What is set aside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: Resources,
    /// What may not be exceeded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: Resources,
}

impl ResourceRequirements {
    /// The requests, with each limit standing in for a missing request, as the API server defaults them.
    pub fn effective_requests(&self) -> Resources {
        let mut requests = self.requests.clone();
        for (name, limit) in &self.limits {
            requests.entry(name.clone()).or_insert(*limit);
        }
        requests
    }
}

/// The part of a container that counts here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResources {
    /// Its requests and limits.
    #[serde(default)]
    pub resources: ResourceRequirements,
    /// `Always` on an init container makes it a sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
}

impl ContainerResources {
    /// Whether this init container keeps running beside the app containers.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// The part of a pod's `spec` that counts here; reads from the whole spec.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodResources {
    /// The app containers.
    #[serde(default)]
    pub containers: Vec<ContainerResources>,
    /// Init containers and sidecars, in order of declaration.
    #[serde(default)]
    pub init_containers: Vec<ContainerResources>,
    /// What the pod's runtime class costs.
    #[serde(default)]
    pub overhead: Resources,
    /// Pod-level requests and limits.
    #[serde(default)]
    pub resources: Option<ResourceRequirements>,
}

/// `status.qosClass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// cpu and memory of each container are limited, and requested as limited.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

impl QosClass {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            QosClass::Guaranteed => "Guaranteed",
            QosClass::Burstable => "Burstable",
            QosClass::BestEffort => "BestEffort",
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PodResources {
    /// Reads the part from a pod's `spec`.
    pub fn of_spec(spec: &Value) -> Result<Self, serde_json::Error> {
        PodResources::deserialize(spec)
    }

    /// What must be free on a node: the larger of the containers with the sidecars and of each init container with the
    /// sidecars before it; pod-level requests take the place of the sum; overhead comes on top.
    pub fn requests(&self) -> Resources {
        let mut sum = self.aggregate(ContainerResources::requests);
        if let Some(pod) = &self.resources {
            for (name, amount) in pod.effective_requests() {
                if is_pod_level(&name) {
                    sum.insert(name, amount);
                }
            }
        }
        add(&mut sum, &self.overhead);
        sum
    }

    /// What nodes are scored by: a container without a cpu or memory request counts [`CPU_ASSUMED`],
    /// [`MEMORY_ASSUMED`]; pod-level requests are not looked at (as recorded of Kubernetes 1.36).
    pub fn requests_assumed(&self) -> Resources {
        let mut sum = self.aggregate(|container| {
            let mut requests = container.requests();
            requests.entry(CPU.to_owned()).or_insert(CPU_ASSUMED);
            requests.entry(MEMORY.to_owned()).or_insert(MEMORY_ASSUMED);
            requests
        });
        add(&mut sum, &self.overhead);
        sum
    }

    /// What the pod may use at most; a resource that some container leaves unlimited still sums what is limited.
    pub fn limits(&self) -> Resources {
        let mut sum = self.aggregate(|container| container.resources.limits.clone());
        if let Some(pod) = &self.resources {
            for (name, amount) in &pod.limits {
                if is_pod_level(name) {
                    sum.insert(name.clone(), *amount);
                }
            }
        }
        for (name, amount) in &self.overhead {
            if let Some(limit) = sum.get_mut(name) {
                *limit += *amount;
            }
        }
        sum
    }

    /// The quality-of-service class.
    pub fn qos_class(&self) -> QosClass {
        match &self.resources {
            Some(pod) => class_of(std::iter::once(pod)),
            None => class_of(self.containers.iter().chain(&self.init_containers).map(|c| &c.resources)),
        }
    }

    fn aggregate(&self, amount: impl Fn(&ContainerResources) -> Resources) -> Resources {
        let mut running = Resources::new();
        for container in &self.containers {
            add(&mut running, &amount(container));
        }
        let mut sidecars = Resources::new();
        let mut init = Resources::new();
        for container in &self.init_containers {
            let amount = amount(container);
            if container.is_sidecar() {
                add(&mut running, &amount);
                add(&mut sidecars, &amount);
                raise(&mut init, &sidecars);
            } else {
                let mut at_start = sidecars.clone();
                add(&mut at_start, &amount);
                raise(&mut init, &at_start);
            }
        }
        raise(&mut running, &init);
        running
    }
}

impl ContainerResources {
    fn requests(&self) -> Resources {
        self.resources.effective_requests()
    }
}

/// Resources that may be requested for a whole pod.
fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}

fn qos_amounts(resources: &Resources) -> BTreeMap<&str, Quantity> {
    let counted = |name: &str| name == CPU || name == MEMORY;
    resources.iter().filter(|(n, q)| counted(n) && **q > Quantity::ZERO).map(|(n, q)| (n.as_str(), *q)).collect()
}

fn class_of<'a>(all: impl Iterator<Item = &'a ResourceRequirements>) -> QosClass {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut guaranteed = true;
    for one in all {
        let effective = one.effective_requests();
        for (name, amount) in qos_amounts(&effective) {
            *requests.entry(name.to_owned()).or_insert(Quantity::ZERO) += amount;
        }
        let limited = qos_amounts(&one.limits);
        guaranteed &= limited.contains_key(CPU) && limited.contains_key(MEMORY);
        for (name, amount) in limited {
            *limits.entry(name.to_owned()).or_insert(Quantity::ZERO) += amount;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if guaranteed && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

fn add(sum: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(held) => *held += *amount,
            None => {
                sum.insert(name.clone(), *amount);
            }
        }
    }
}

fn raise(largest: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        match largest.get_mut(name) {
            Some(held) if *held < *amount => *held = *amount,
            Some(_) => {}
            None => {
                largest.insert(name.clone(), *amount);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: Value) -> PodResources {
        PodResources::of_spec(&spec).expect("a pod spec")
    }

    fn cpu(amount: &str) -> Value {
        json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": amount}}})
    }

    fn sidecar(amount: &str) -> Value {
        json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": amount}}})
    }

    fn check(spec: Value, expected: &str) {
        let requests = pod(spec.clone()).requests();
        assert_eq!(requests.get(CPU).copied().unwrap_or_default().to_string(), expected, "{spec}");
    }

    #[test]
    fn effective_requests_follow_the_start_order() {
        check(json!({"containers": [cpu("1"), cpu("500m")]}), "1500m");
        check(json!({"containers": [cpu("1")], "initContainers": [cpu("3")]}), "3");
        check(json!({"containers": [cpu("1")], "initContainers": [cpu("500m")]}), "1");
        check(json!({"containers": [cpu("1")], "initContainers": [sidecar("2")]}), "3");
        check(json!({"containers": [cpu("1")], "initContainers": [sidecar("2"), cpu("2")]}), "4");
        check(json!({"containers": [cpu("1")], "initContainers": [cpu("2"), sidecar("2")]}), "3");
        check(json!({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}), "1250m");
        check(json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "3"}}}), "3");
        check(json!({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}), "2");
        check(json!({"containers": [{}]}), "0");
    }

    #[test]
    fn scoring_assumes_a_little_for_who_asks_nothing() {
        let requests = pod(json!({"containers": [{}, cpu("1")]})).requests_assumed();
        assert_eq!(requests[CPU].to_string(), "1100m");
        assert_eq!(requests[MEMORY].to_string(), "400Mi");
        let zero = pod(json!({"containers": [cpu("0")]})).requests_assumed();
        assert_eq!(zero[CPU], Quantity::ZERO);
    }

    #[test]
    fn classes_follow_requests_and_limits() {
        let both = |amount: &str| json!({"cpu": amount, "memory": "1Gi"});
        let container = |requests: Value, limits: Value| json!({"resources": {"requests": requests, "limits": limits}});
        let cases = [
            (json!({"containers": [{}]}), QosClass::BestEffort),
            (json!({"containers": [container(json!({"example.com/gpu": "1"}), json!({}))]}), QosClass::BestEffort),
            (json!({"containers": [container(both("1"), both("1"))]}), QosClass::Guaranteed),
            (json!({"containers": [container(json!({}), both("1"))]}), QosClass::Guaranteed),
            (json!({"containers": [container(both("1"), both("2"))]}), QosClass::Burstable),
            (json!({"containers": [container(both("1"), both("1")), {}]}), QosClass::Burstable),
            (json!({"containers": [cpu("1")]}), QosClass::Burstable),
            (json!({"containers": [{}], "resources": {"limits": both("1")}}), QosClass::Guaranteed),
            (
                json!({"containers": [container(both("1"), both("1"))], "initContainers": [cpu("1")]}),
                QosClass::Burstable,
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(pod(spec.clone()).qos_class(), expected, "{spec}");
        }
    }
}
