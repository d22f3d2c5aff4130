//! The descriptions of persistent volumes, claims, storage classes and CSI nodes, line by line as kubectl 1.36 writes them.

use jiff::Timestamp;
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::batch::flag;
use super::text::{annotations, field, labels_of, multiline, one_line, pairs, time};
use super::volumes::source_facts;
use crate::commands::age::since;

/// Marks the class of claims that name none, in its present and its first form (Kubernetes').
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// A volume's or claim's class before there was a field for it (Kubernetes').
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A PersistentVolume, without the Events.
pub(super) fn volume(out: &mut String, object: &Object, now: Timestamp) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    field(out, "Name", object.name());
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    field(out, "Finalizers", &finalizers(object));
    field(out, "StorageClass", class(object));
    field(out, "Status", &status(object, now));
    let claim = &spec["claimRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let claim = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    field(out, "Claim", &claim);
    field(out, "Reclaim Policy", &text(&spec["persistentVolumeReclaimPolicy"]));
    field(out, "Access Modes", &modes(&spec["accessModes"]));
    if let Some(mode) = spec["volumeMode"].as_str() {
        field(out, "VolumeMode", mode);
    }
    field(out, "Capacity", spec["capacity"]["storage"].as_str().unwrap_or("0"));
    node_affinity(out, &spec["nodeAffinity"]["required"]);
    field(out, "Message", object.text(&["status", "message"]));
    out.push_str("Source:\n");
    let facts = source_facts(spec);
    if facts.is_empty() {
        out.push_str("  <unknown>\n");
    }
    for (name, value) in facts {
        out.push_str(&format!("    {name}:\t{value}\n"));
    }
    if spec["csi"].is_object() {
        attributes(out, &spec["csi"]["volumeAttributes"]);
    }
}

fn attributes(out: &mut String, map: &Value) {
    let lines = labels_of(map);
    if lines.is_empty() {
        out.push_str("    VolumeAttributes:\t<none>\n");
    }
    for (index, line) in lines.iter().enumerate() {
        let head = if index == 0 { "    VolumeAttributes:" } else { "        " };
        out.push_str(&format!("{head}\t    {line}\n"));
    }
}

fn node_affinity(out: &mut String, required: &Value) {
    if !required.is_object() {
        field(out, "Node Affinity", "<none>");
        return;
    }
    field(out, "Node Affinity", "");
    let terms = required["nodeSelectorTerms"].as_array().map(Vec::as_slice).unwrap_or_default();
    field(out, "  Required Terms", if terms.is_empty() { "<none>" } else { "" });
    for (index, term) in terms.iter().enumerate() {
        let rules = term["matchExpressions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = rules.iter().map(|rule| {
            let text = |field: &str| rule[field].as_str().unwrap_or_default();
            let head = format!("{} {}", text("key"), text("operator").to_lowercase());
            values_behind(head, &rule["values"])
        });
        below(out, &format!("    Term {index}"), "    ", &lines.collect::<Vec<_>>());
    }
}

/// `key in [a, b]`.
fn values_behind(head: String, values: &Value) -> String {
    let values: Vec<&str> = values.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if values.is_empty() { head } else { format!("{head} [{}]", values.join(", ")) }
}

/// `label:\tfirst`, then the others below it, as far in as the label.
fn below(out: &mut String, label: &str, indent: &str, lines: &[String]) {
    if lines.is_empty() {
        out.push_str(&format!("{label}:\t<none>\n"));
    }
    for (index, line) in lines.iter().enumerate() {
        let head = if index == 0 { format!("{label}:") } else { indent.to_owned() };
        out.push_str(&format!("{head}\t{line}\n"));
    }
}

/// A PersistentVolumeClaim with the names of the pods that use it, without the Events.
pub(super) fn claim(out: &mut String, object: &Object, users: &[String], now: Timestamp) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let volume = spec["volumeName"].as_str().unwrap_or_default();
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    field(out, "StorageClass", class(object));
    field(out, "Status", &status(object, now));
    field(out, "Volume", volume);
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    field(out, "Finalizers", &finalizers(object));
    let of_status = |field: &str| object.at(&["status", field]).unwrap_or(&Value::Null);
    let (capacity, access) = match volume {
        "" => (String::new(), String::new()),
        _ => {
            let capacity = of_status("capacity")["storage"].as_str().unwrap_or("0");
            (capacity.to_owned(), modes(of_status("accessModes")))
        }
    };
    field(out, "Capacity", &capacity);
    field(out, "Access Modes", &access);
    if let Some(mode) = spec["volumeMode"].as_str() {
        field(out, "VolumeMode", mode);
    }
    let source = &spec["dataSource"];
    if source.is_object() {
        out.push_str("DataSource:\n");
        for (label, name) in [("  APIGroup", "apiGroup"), ("  Kind", "kind"), ("  Name", "name")] {
            if let Some(text) = source[name].as_str() {
                field(out, label, text);
            }
        }
    }
    multiline(out, "Used By", users);
    let conditions = of_status("conditions").as_array().map(Vec::as_slice).unwrap_or_default();
    if !conditions.is_empty() {
        out.push_str("Conditions:\n  Type\tStatus\tLastProbeTime\tLastTransitionTime\tReason\tMessage\n");
        out.push_str("  ----\t------\t-----------------\t------------------\t------\t-------\n");
    }
    for condition in conditions {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        // A time that is not told is the first one that Go knows.
        let at = |field: &str| time(Some(text(field)).filter(|at| !at.is_empty()).unwrap_or("0001-01-01T00:00:00Z"));
        let (probed, changed) = (at("lastProbeTime"), at("lastTransitionTime"));
        let (kind, status, reason, message) = (text("type"), text("status"), text("reason"), text("message"));
        out.push_str(&format!("  {kind} \t{status} \t{probed} \t{changed} \t{reason} \t{message}\n"));
    }
}

/// A StorageClass, without the Events.
pub(super) fn storage_class(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    let is_default = DEFAULT_CLASS.iter().any(|key| object.annotation(key) == Some("true"));
    field(out, "IsDefaultClass", if is_default { "Yes" } else { "No" });
    field(out, "Annotations", &one_line(object.at(&["metadata", "annotations"]).unwrap_or(&Value::Null)));
    field(out, "Provisioner", object.text(&["provisioner"]));
    field(out, "Parameters", &one_line(object.at(&["parameters"]).unwrap_or(&Value::Null)));
    field(out, "AllowVolumeExpansion", flag(object.at(&["allowVolumeExpansion"]).unwrap_or(&Value::Null)));
    let options = object.at(&["mountOptions"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    out.push_str(if options.is_empty() { "MountOptions:\t<none>\n" } else { "MountOptions:\n" });
    for option in options.iter().filter_map(Value::as_str) {
        out.push_str(&format!("  {option}\n"));
    }
    for (label, name) in [("ReclaimPolicy", "reclaimPolicy"), ("VolumeBindingMode", "volumeBindingMode")] {
        let text = object.text(&[name]);
        if !text.is_empty() {
            field(out, label, text);
        }
    }
    let Some(terms) = object.at(&["allowedTopologies"]).and_then(Value::as_array) else { return };
    field(out, "AllowedTopologies", if terms.is_empty() { "<none>" } else { "" });
    for (index, term) in terms.iter().enumerate() {
        let rules = term["matchLabelExpressions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = rules
            .iter()
            .map(|rule| values_behind(format!("{} in", rule["key"].as_str().unwrap_or_default()), &rule["values"]));
        below(out, &format!("  Term {index}"), "  ", &lines.collect::<Vec<_>>());
    }
}

/// A CSINode, without the Events.
pub(super) fn csi_node(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    field(out, "CreationTimestamp", &time(object.creation_timestamp()));
    out.push_str("Spec:\n");
    let Some(drivers) = object.at(&["spec", "drivers"]).and_then(Value::as_array) else { return };
    // An empty list is none to Go's reader where it was made so by a client; kubectl shows the heading then, too.
    if drivers.is_empty() {
        return;
    }
    out.push_str("  Drivers:\n");
    for driver in drivers {
        let text = |field: &str| driver[field].as_str().unwrap_or_default();
        out.push_str(&format!("    {}:\n", text("name")));
        field(out, "      Node ID", text("nodeID"));
        if let Some(count) = driver["allocatable"]["count"].as_i64() {
            out.push_str(&format!("      Allocatables:\n        Count:\t{count}\n"));
        }
        if let Some(keys) = driver["topologyKeys"].as_array() {
            let keys: Vec<_> = keys.iter().filter_map(Value::as_str).collect();
            field(out, "      Topology Keys", &format!("[{}]", keys.join(" ")));
        }
    }
}

fn finalizers(object: &Object) -> String {
    let list = object.at(&["metadata", "finalizers"]).and_then(Value::as_array).into_iter().flatten();
    format!("[{}]", list.filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
}

fn class(object: &Object) -> &str {
    object.annotation(OLD_CLASS).unwrap_or_else(|| object.text(&["spec", "storageClassName"]))
}

fn status(object: &Object, now: Timestamp) -> String {
    match object.deletion_timestamp() {
        Some(at) => format!("Terminating (lasts {})", since(at, now)),
        None => object.text(&["status", "phase"]).to_owned(),
    }
}

/// `RWO,ROX`: each once, in Kubernetes' order.
fn modes(list: &Value) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has = |mode: &str| list.as_array().is_some_and(|list| list.iter().any(|one| one == mode));
    SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    /// As kubectl 1.36.3 shows this volume.
    #[test]
    fn a_volume_is_described_as_kubectl_describes_it() {
        let pv = object(json!({"metadata": {"name": "pv", "finalizers": ["kubernetes.io/pv-protection"]},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "hostPath": {"path": "/x", "type": ""},
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "sc", "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"}}));
        let mut out = String::new();
        volume(&mut out, &pv, Timestamp::UNIX_EPOCH);
        assert_eq!(
            align(&out),
            "Name:            pv\nLabels:          <none>\nAnnotations:     <none>\n\
             Finalizers:      [kubernetes.io/pv-protection]\nStorageClass:    sc\nStatus:          Pending\n\
             Claim:           \nReclaim Policy:  Retain\nAccess Modes:    RWO,RWX\nVolumeMode:      Filesystem\n\
             Capacity:        1Gi\nNode Affinity:   <none>\nMessage:         \nSource:\n    \
             Type:          HostPath (bare host directory volume)\n    Path:          /x\n    HostPathType:  \n"
        );
        let terms = json!([{"matchExpressions": [{"key": "k", "operator": "In", "values": ["a", "b"]}, {"key": "l", "operator": "Exists"}]}]);
        let csi = object(json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "n", "name": "c"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"a": "b"}}}}));
        let mut out = String::new();
        volume(&mut out, &csi, Timestamp::UNIX_EPOCH);
        let text = align(&out);
        assert!(text.contains("    Term 0:        k in [a, b]\n                   l exists\n"), "{text}");
        assert!(text.contains("Claim:             n/c\n") && text.contains("    VolumeHandle:      h\n"), "{text}");
        assert!(text.contains("    VolumeAttributes:      a=b\n"), "{text}");
    }

    #[test]
    fn a_claim_tells_who_uses_it() {
        let pvc = object(json!({"metadata": {"name": "c", "namespace": "t"},
            "spec": {"storageClassName": "sc", "volumeName": "pv", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}));
        let mut out = String::new();
        claim(&mut out, &pvc, &["a".to_owned(), "b".to_owned()], Timestamp::UNIX_EPOCH);
        assert_eq!(
            align(&out),
            "Name:          c\nNamespace:     t\nStorageClass:  sc\nStatus:        Bound\nVolume:        pv\n\
             Labels:        <none>\nAnnotations:   <none>\nFinalizers:    []\nCapacity:      1Gi\nAccess Modes:  RWO\n\
             VolumeMode:    Filesystem\nUsed By:       a\n               b\n"
        );
    }

    #[test]
    fn a_class_is_described_as_kubectl_describes_it() {
        let sc = object(
            json!({"metadata": {"name": "sc", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p", "parameters": {"b": "2", "a": "1"}, "reclaimPolicy": "Delete", "mountOptions": ["ro"],
            "allowVolumeExpansion": true, "volumeBindingMode": "Immediate",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]}),
        );
        let mut out = String::new();
        storage_class(&mut out, &sc);
        assert_eq!(
            align(&out),
            "Name:                  sc\nIsDefaultClass:        Yes\n\
             Annotations:           storageclass.kubernetes.io/is-default-class=true\nProvisioner:           p\n\
             Parameters:            a=1,b=2\nAllowVolumeExpansion:  True\nMountOptions:\n  ro\nReclaimPolicy:      Delete\n\
             VolumeBindingMode:  Immediate\nAllowedTopologies:  \n  Term 0:           zone in [a, b]\n"
        );
    }
}
