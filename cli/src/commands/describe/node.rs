//! The description of a node, line by line as kubectl 1.36 writes it.

use jiff::Timestamp;
use listwatch_proto::resource::requests::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, PodResources, Resources};
use listwatch_proto::resource::{Object, Quantity};
use serde_json::Value;

use super::text::{annotations, field, multiline, pairs, time};
use crate::commands::age::since;

/// What is told of a node besides itself.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// The node's lease, or why there is none.
    pub(super) lease: Result<Object, String>,
    /// Its pods that have not ended.
    pub(super) pods: Vec<Object>,
}

/// A node, without the Events.
pub(super) fn describe(out: &mut String, node: &Object, around: &Surroundings, now: Timestamp) {
    field(out, "Name", node.name());
    let roles = roles(node);
    field(out, "Roles", if roles.is_empty() { "<none>" } else { &roles });
    multiline(out, "Labels", &pairs(node.labels()));
    multiline(out, "Annotations", &annotations(node));
    field(out, "CreationTimestamp", &time(node.creation_timestamp()));
    multiline(out, "Taints", &taints(node));
    field(out, "Unschedulable", &node.flag(&["spec", "unschedulable"]).to_string());
    lease(out, &around.lease);
    conditions(out, node);
    out.push_str("Addresses:\n");
    for address in node.at(&["status", "addresses"]).and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| address[name].as_str().unwrap_or_default();
        out.push_str(&format!("  {}:\t{}\n", text("type"), text("address")));
    }
    for (label, name) in [("Capacity", "capacity"), ("Allocatable", "allocatable")] {
        let amounts = amounts(node, name);
        if !amounts.is_empty() {
            out.push_str(&format!("{label}:\n"));
            amounts.iter().for_each(|(name, amount)| out.push_str(&format!("  {name}:\t{amount}\n")));
        }
    }
    system(out, node);
    pods(out, node, &around.pods, now);
}

/// From labels `node-role.kubernetes.io/ROLE` and `kubernetes.io/role=ROLE`.
fn roles(node: &Object) -> String {
    let mut roles: Vec<&str> = node
        .labels()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then_some(value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles.join(",")
}

/// By effect, then by key.
fn taints(node: &Object) -> Vec<String> {
    let list = node.at(&["spec", "taints"]).and_then(Value::as_array);
    let mut taints: Vec<_> = list
        .into_iter()
        .flatten()
        .map(|taint| {
            let text = |name: &str| taint[name].as_str().unwrap_or_default();
            let value = if text("value").is_empty() { String::new() } else { format!("={}", text("value")) };
            let effect = if text("effect").is_empty() { String::new() } else { format!(":{}", text("effect")) };
            (format!("{},{}", text("effect"), text("key")), format!("{}{value}{effect}", text("key")))
        })
        .collect();
    taints.sort();
    taints.into_iter().map(|(_, shown)| shown).collect()
}

fn lease(out: &mut String, lease: &Result<Object, String>) {
    let lease = match lease {
        Ok(lease) => lease,
        Err(why) => return field(out, "Lease", &format!("Failed to get lease: {why}")),
    };
    out.push_str("Lease:\n");
    let or_unset = |text: String| if text.is_empty() { "<unset>".to_owned() } else { text };
    field(out, "  HolderIdentity", &or_unset(lease.text(&["spec", "holderIdentity"]).to_owned()));
    field(out, "  AcquireTime", &or_unset(time(lease.text(&["spec", "acquireTime"]))));
    field(out, "  RenewTime", &or_unset(time(lease.text(&["spec", "renewTime"]))));
}

fn conditions(out: &mut String, node: &Object) {
    let list = node.at(&["status", "conditions"]).and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(list) = list else { return };
    out.push_str("Conditions:\n  Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage\n");
    out.push_str("  ----\t------\t-----------------\t------------------\t------\t-------\n");
    for condition in list {
        let text = |name: &str| condition[name].as_str().unwrap_or_default();
        out.push_str(&format!(
            "  {} \t{} \t{} \t{} \t{} \t{}\n",
            text("type"),
            text("status"),
            time(text("lastHeartbeatTime")),
            time(text("lastTransitionTime")),
            text("reason"),
            text("message"),
        ));
    }
}

fn system(out: &mut String, node: &Object) {
    out.push_str("System Info:\n");
    for (label, name) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
    ] {
        out.push_str(&format!("  {label}:\t{}\n", node.text(&["status", "nodeInfo", name])));
    }
    for (label, name) in [("PodCIDR", "podCIDR"), ("ProviderID", "providerID")] {
        let value = node.text(&["spec", name]);
        if !value.is_empty() {
            field(out, label, value);
        }
    }
}

fn amounts(node: &Object, name: &str) -> Resources {
    let map = node.at(&["status", name]).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(name, v)| Some((name.clone(), Quantity::from_json(v).ok()?))).collect()
}

/// What a pod asks for and may use; nothing of a spec that cannot be read.
fn of_pod(pod: &Object) -> (Resources, Resources) {
    let spec = pod.at(&["spec"]).and_then(|spec| PodResources::of_spec(spec).ok());
    spec.map_or_else(Default::default, |spec| (spec.requests(), spec.limits()))
}

fn pods(out: &mut String, node: &Object, pods: &[Object], now: Timestamp) {
    let mut allocatable = amounts(node, "allocatable");
    if allocatable.is_empty() {
        allocatable = amounts(node, "capacity");
    }
    out.push_str(&format!("Non-terminated Pods:\t({} in total)\n", pods.len()));
    out.push_str("  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge\n");
    out.push_str("  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---\n");
    let (mut all_requests, mut all_limits) = (Resources::new(), Resources::new());
    for pod in pods {
        let (requests, limits) = of_pod(pod);
        let share = |amounts: &Resources, name: &str| share(amounts, &allocatable, name);
        out.push_str(&format!(
            "  {}\t{}\t\t{}\t{}\t{}\t{}\t{}\n",
            pod.namespace(),
            pod.name(),
            share(&requests, CPU),
            share(&limits, CPU),
            share(&requests, MEMORY),
            share(&limits, MEMORY),
            since(pod.creation_timestamp(), now),
        ));
        for (sum, amounts) in [(&mut all_requests, requests), (&mut all_limits, limits)] {
            for (name, amount) in amounts {
                *sum.entry(name).or_insert(Quantity::bytes(0)) += amount;
            }
        }
    }
    out.push_str("Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)\n");
    out.push_str("  Resource\tRequests\tLimits\n  --------\t--------\t------\n");
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
        let (requests, limits) = (share(&all_requests, &allocatable, name), share(&all_limits, &allocatable, name));
        out.push_str(&format!("  {name}\t{requests}\t{limits}\n"));
    }
    let (huge, others): (Vec<_>, Vec<_>) = allocatable
        .keys()
        .filter(|name| ![CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name.as_str()))
        .partition(|name| name.starts_with("hugepages-"));
    for name in huge {
        let (requests, limits) = (share(&all_requests, &allocatable, name), share(&all_limits, &allocatable, name));
        out.push_str(&format!("  {name}\t{requests}\t{limits}\n"));
    }
    for name in others {
        let amount = |amounts: &Resources| amounts.get(name).map_or_else(|| "0".to_owned(), ToString::to_string);
        out.push_str(&format!("  {name}\t{}\t{}\n", amount(&all_requests), amount(&all_limits)));
    }
}

/// `100m (2%)`: of what the node has to give.
fn share(amounts: &Resources, allocatable: &Resources, name: &str) -> String {
    let Some(amount) = amounts.get(name) else { return "0 (0%)".to_owned() };
    let whole = allocatable.get(name).map_or(0, |whole| whole.nanos());
    let percent = if whole == 0 { 0 } else { amount.nanos() * 100 / whole };
    format!("{amount} ({percent}%)")
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn a_node_is_described_as_kubectl_describes_it() {
        let node = object(json!({
            "metadata": {"name": "node01", "labels": {"node-role.kubernetes.io/worker": "", "qqq": "1"}, "creationTimestamp": "x"},
            "spec": {"unschedulable": true, "taints": [
                {"key": "wasp", "value": "hive", "effect": "PreferNoSchedule"}, {"key": "empty", "effect": "NoSchedule"},
                {"key": "bare", "effect": "NoSchedule"}, {"key": "wasp", "value": "hive", "effect": "NoSchedule"}]},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": "node01"}],
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "h", "lastTransitionTime": "t",
                    "reason": "KubeletReady", "message": "kubelet is posting ready status"}],
                "nodeInfo": {"kernelVersion": "6", "kubeletVersion": "v1"}},
        }));
        let pod = |name: &str, requests: Value, limits: Value| {
            object(
                json!({"metadata": {"name": name, "namespace": "default", "creationTimestamp": "1970-01-01T00:00:00Z"},
                "spec": {"containers": [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}}),
            )
        };
        let around = Surroundings {
            lease: Ok(object(json!({"spec": {"holderIdentity": "node01", "renewTime": "r"}}))),
            pods: vec![
                pod("a", json!({"cpu": "100m", "memory": "64Mi"}), json!({"cpu": "5"})),
                pod("b", json!({}), json!({})),
            ],
        };
        let mut out = String::new();
        describe(&mut out, &node, &around, Timestamp::from_second(90).expect("a time"));
        let expected = "\
Name:               node01
Roles:              worker
Labels:             node-role.kubernetes.io/worker=
                    qqq=1
Annotations:        <none>
CreationTimestamp:  x
Taints:             bare:NoSchedule
                    empty:NoSchedule
                    wasp=hive:NoSchedule
                    wasp=hive:PreferNoSchedule
Unschedulable:      true
Lease:
  HolderIdentity:  node01
  AcquireTime:     <unset>
  RenewTime:       r
Conditions:
  Type    Status  LastHeartbeatTime  LastTransitionTime  Reason         Message
  ----    ------  -----------------  ------------------  ------         -------
  Ready   True    h                  t                   KubeletReady   kubelet is posting ready status
Addresses:
  InternalIP:  127.0.0.1
  Hostname:    node01
Capacity:
  cpu:     4
  memory:  8Gi
  pods:    110
Allocatable:
  cpu:              4
  example.com/gpu:  2
  memory:           8Gi
  pods:             110
System Info:
  Machine ID:                 
  System UUID:                
  Boot ID:                    
  Kernel Version:             6
  OS Image:                   
  Operating System:           
  Architecture:               
  Container Runtime Version:  
  Kubelet Version:            v1
Non-terminated Pods:          (2 in total)
  Namespace                   Name    CPU Requests  CPU Limits  Memory Requests  Memory Limits  Age
  ---------                   ----    ------------  ----------  ---------------  -------------  ---
  default                     a       100m (2%)     5 (125%)    64Mi (0%)        0 (0%)         90s
  default                     b       0 (0%)        0 (0%)      0 (0%)           0 (0%)         90s
Allocated resources:
  (Total limits may be over 100 percent, i.e., overcommitted.)
  Resource           Requests   Limits
  --------           --------   ------
  cpu                100m (2%)  5 (125%)
  memory             64Mi (0%)  0 (0%)
  ephemeral-storage  0 (0%)     0 (0%)
  example.com/gpu    0          0
";
        let shown: String = align(&out).lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        let expected: String = expected.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_node_without_taints_or_lease_says_so() {
        let node = object(json!({"metadata": {"name": "n"}}));
        let around =
            Surroundings { lease: Err("leases.coordination.k8s.io \"n\" not found".to_owned()), pods: Vec::new() };
        let mut out = String::new();
        describe(&mut out, &node, &around, Timestamp::UNIX_EPOCH);
        let out = align(&out);
        assert!(out.contains("\nTaints:             <none>\nUnschedulable:      false\n"), "{out}");
        assert!(out.contains("Failed to get lease: leases.coordination.k8s.io \"n\" not found\n"), "{out}");
    }
}
