//! The description of a pod, line by line as kubectl 1.36 writes it.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::containers::{Part, containers};
use super::text::{annotations, field, multiline, pairs, spreading, time, tolerations};
use super::volumes::volumes;
use crate::commands::age::since;

/// Writes the description with tabs, without the Events.
pub(super) fn describe(out: &mut String, pod: &Object) {
    identity(out, pod);
    status(out, pod);
    containers(out, pod, &Part { label: "Init Containers", spec: "initContainers", status: "initContainerStatuses" });
    containers(out, pod, &Part { label: "Containers", spec: "containers", status: "containerStatuses" });
    containers(
        out,
        pod,
        &Part { label: "Ephemeral Containers", spec: "ephemeralContainers", status: "ephemeralContainerStatuses" },
    );
    readiness_gates(out, pod);
    conditions(out, pod);
    volumes(out, pod, "");
    field(out, "QoS Class", pod.text(&["status", "qosClass"]));
    let selector = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object);
    let selector = selector.into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)));
    multiline(out, "Node-Selectors", &pairs(selector));
    multiline(out, "Tolerations", &tolerations(pod.at(&["spec", "tolerations"])));
    spreading(out, pod, "");
}

fn field_if(out: &mut String, label: &str, value: &str) {
    if !value.is_empty() {
        field(out, label, value);
    }
}

fn identity(out: &mut String, pod: &Object) {
    field(out, "Name", pod.name());
    field(out, "Namespace", pod.namespace());
    if let Some(priority) = pod.int(&["spec", "priority"]) {
        field(out, "Priority", &priority.to_string());
    }
    field_if(out, "Priority Class Name", pod.text(&["spec", "priorityClassName"]));
    field_if(out, "Runtime Class Name", pod.text(&["spec", "runtimeClassName"]));
    field(out, "Service Account", pod.text(&["spec", "serviceAccountName"]));
    let (node, host) = (pod.text(&["spec", "nodeName"]), pod.text(&["status", "hostIP"]));
    match (node, host) {
        ("", _) => field(out, "Node", "<none>"),
        (node, "") => field(out, "Node", node),
        (node, host) => field(out, "Node", &format!("{node}/{host}")),
    }
    let start = pod.text(&["status", "startTime"]);
    if !start.is_empty() {
        field(out, "Start Time", &time(start));
    }
    multiline(out, "Labels", &pairs(pod.labels()));
    multiline(out, "Annotations", &annotations(pod));
}

fn status(out: &mut String, pod: &Object) {
    match pod.deletion_timestamp() {
        Some(at) => {
            field(out, "Status", &format!("Terminating (lasts {})", since(at, jiff::Timestamp::now())));
            let grace = pod.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            field(out, "Termination Grace Period", &format!("{grace}s"));
        }
        None => field(out, "Status", pod.text(&["status", "phase"])),
    }
    field_if(out, "Reason", pod.text(&["status", "reason"]));
    field_if(out, "Message", pod.text(&["status", "message"]));
    field(out, "IP", pod.text(&["status", "podIP"]));
    let ips: Vec<_> = pod
        .at(&["status", "podIPs"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|ip| ip["ip"].as_str())
        .collect();
    if ips.is_empty() {
        field(out, "IPs", "<none>");
    } else {
        out.push_str("IPs:\n");
        ips.iter().for_each(|ip| field(out, "  IP", ip));
    }
    if let Some(owner) = pod.controller() {
        field(out, "Controlled By", &format!("{}/{}", owner.kind, owner.name));
    }
    field_if(out, "NominatedNodeName", pod.text(&["status", "nominatedNodeName"]));
}

fn readiness_gates(out: &mut String, pod: &Object) {
    let gates = pod.at(&["spec", "readinessGates"]).and_then(Value::as_array).filter(|g| !g.is_empty());
    let Some(gates) = gates else { return };
    out.push_str("Readiness Gates:\n  Type\tStatus\n");
    for gate in gates.iter().filter_map(|g| g["conditionType"].as_str()) {
        let status = pod.condition(gate).and_then(|c| c["status"].as_str()).unwrap_or("<none>");
        out.push_str(&format!("  {gate} \t{status} \n"));
    }
}

fn conditions(out: &mut String, pod: &Object) {
    let list = pod.at(&["status", "conditions"]).and_then(Value::as_array).filter(|c| !c.is_empty());
    let Some(list) = list else { return };
    out.push_str("Conditions:\n  Type\tStatus\n");
    for condition in list {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        out.push_str(&format!("  {} \t{} \n", text("type"), text("status")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    /// From the recorded session describe-workloads (kubectl 1.36.3), with addresses put in.
    #[test]
    fn a_pod_is_described_as_kubectl_describes_it() {
        let pod = json!({
            "metadata": {"name": "wren", "namespace": "ns", "labels": {"a": "1", "z": "2"}, "annotations": {"k1": "v1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "lark", "uid": "u", "controller": true}]},
            "spec": {"priority": 0, "serviceAccountName": "default", "nodeName": "node01",
                "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"key": "q", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "registry.local/main:2", "command": ["sleep", "1000"],
                    "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
                    "resources": {"limits": {"cpu": "200m"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
                    "livenessProbe": {"httpGet": {"path": "/live", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 7, "successThreshold": 1, "failureThreshold": 3},
                    "env": [{"name": "PLAIN", "value": "yes"}, {"name": "FROMCM", "valueFrom": {"configMapKeyRef": {"name": "notes", "key": "x"}}}],
                    "volumeMounts": [{"name": "e", "mountPath": "/e"}, {"name": "c", "mountPath": "/c", "readOnly": true}]}],
                "volumes": [{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "notes"}}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "state": {"running": {}}}]},
        });
        let mut out = String::new();
        describe(&mut out, &Object::from_value(pod).expect("a map"));
        let expected = "\
Name:             wren
Namespace:        ns
Priority:         0
Service Account:  default
Node:             node01
Labels:           a=1
                  z=2
Annotations:      k1: v1
Status:           Running
IP:               10.0.0.1
IPs:
  IP:           10.0.0.1
Controlled By:  ReplicaSet/lark
Containers:
  main:
    Container ID:  
    Image:         registry.local/main:2
    Image ID:      
    Ports:         8080/TCP (http), 53/UDP
    Host Ports:    0/TCP (http), 0/UDP
    Command:
      sleep
      1000
    State:          Running
    Ready:          True
    Restart Count:  0
    Limits:
      cpu:  200m
    Requests:
      cpu:     100m
      memory:  64Mi
    Liveness:  http-get http://:8080/live delay=0s timeout=1s period=7s #success=1 #failure=3
    Environment:
      PLAIN:   yes
      FROMCM:  <set to the key 'x' of config map 'notes'>  Optional: false
    Mounts:
      /c from c (ro)
      /e from e (rw)
Conditions:
  Type    Status
  Ready   True 
Volumes:
  e:
    Type:       EmptyDir (a temporary directory that shares a pod's lifetime)
    Medium:     
    SizeLimit:  <unset>
  c:
    Type:        ConfigMap (a volume populated by a ConfigMap)
    Name:        notes
    Optional:    false
QoS Class:       Burstable
Node-Selectors:  kubernetes.io/os=linux
Tolerations:     q op=Exists
";
        assert_eq!(align(&out), expected);
    }
}
