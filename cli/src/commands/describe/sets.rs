//! The descriptions of StatefulSets, DaemonSets and ReplicationControllers, line by line as kubectl 1.36 writes them.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::template::template_of;
use super::text::{annotations, field, labels_of, multiline, one_line, pairs, time};
use super::workload::{Phases, conditions, selector};

/// A StatefulSet with the phases of its pods, without the Events.
pub(super) fn stateful_set(out: &mut String, object: &Object, phases: Phases) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    field(out, "CreationTimestamp", &time(object.creation_timestamp()));
    field(out, "Selector", &selector(object));
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    let (wanted, now) = (spec["replicas"].as_i64().unwrap_or(1), object.int(&["status", "replicas"]).unwrap_or(0));
    field(out, "Replicas", &format!("{wanted} desired | {now} total"));
    field(out, "Update Strategy", spec["updateStrategy"]["type"].as_str().unwrap_or_default());
    let update = &spec["updateStrategy"]["rollingUpdate"];
    if let Some(partition) = update["partition"].as_i64() {
        field(out, "  Partition", &partition.to_string());
        let most = &update["maxUnavailable"];
        if !most.is_null() {
            field(out, "  MaxUnavailable", &most.as_str().map_or_else(|| most.to_string(), str::to_owned));
        }
    }
    field(out, "Pods Status", &phases.to_string());
    template_of(out, &spec["template"]);
    claims(out, spec["volumeClaimTemplates"].as_array().map(Vec::as_slice).unwrap_or_default());
}

fn claims(out: &mut String, templates: &[Value]) {
    if templates.is_empty() {
        field(out, "Volume Claims", "<none>");
        return;
    }
    out.push_str("Volume Claims:\n");
    for claim in templates {
        let spec = &claim["spec"];
        field(out, "  Name", claim["metadata"]["name"].as_str().unwrap_or_default());
        field(out, "  StorageClass", spec["storageClassName"].as_str().unwrap_or_default());
        multiline(out, "  Labels", &labels_of(&claim["metadata"]["labels"]));
        multiline(out, "  Annotations", &labels_of(&claim["metadata"]["annotations"]));
        field(out, "  Capacity", spec["resources"]["requests"]["storage"].as_str().unwrap_or("<default>"));
        let modes = spec["accessModes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        field(out, "  Access Modes", &format!("[{}]", modes.collect::<Vec<_>>().join(" ")));
    }
}

/// A DaemonSet with the phases of its pods, without the Events.
pub(super) fn daemon_set(out: &mut String, object: &Object, phases: Phases) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    field(out, "Selector", &selector(object));
    let nodes = object.at(&["spec", "template", "spec", "nodeSelector"]).unwrap_or(&Value::Null);
    field(out, "Node-Selector", &one_line(nodes));
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    for (label, name) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        out.push_str(&format!("{label}: {}\n", object.int(&["status", name]).unwrap_or(0)));
    }
    field(out, "Pods Status", &phases.to_string());
    template_of(out, object.at(&["spec", "template"]).unwrap_or(&Value::Null));
}

/// A ReplicationController with the phases of its pods, without the Events.
pub(super) fn replication_controller(out: &mut String, object: &Object, phases: Phases) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    field(out, "Selector", &one_line(object.at(&["spec", "selector"]).unwrap_or(&Value::Null)));
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    let (now, wanted) =
        (object.int(&["status", "replicas"]).unwrap_or(0), object.int(&["spec", "replicas"]).unwrap_or(1));
    field(out, "Replicas", &format!("{now} current / {wanted} desired"));
    field(out, "Pods Status", &phases.to_string());
    template_of(out, object.at(&["spec", "template"]).unwrap_or(&Value::Null));
    conditions(out, object);
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    const PHASES: Phases = Phases { running: 1, waiting: 2, succeeded: 0, failed: 0 };

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn a_stateful_set_tells_its_claims() {
        let set =
            object(json!({"metadata": {"name": "s", "namespace": "ns", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
                "volumeClaimTemplates": [{"metadata": {"name": "d", "labels": {"x": "y", "w": "z"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]},
            "status": {"replicas": 2}}));
        let mut out = String::new();
        stateful_set(&mut out, &set, PHASES);
        let text = align(&out);
        let at = time("2026-01-02T03:04:05Z");
        assert!(
            text.starts_with(&format!(
                "Name:               s\nNamespace:          ns\nCreationTimestamp:  {at}\nSelector:           a=b\n\
             Labels:             <none>\nAnnotations:        <none>\nReplicas:           3 desired | 2 total\n\
             Update Strategy:    RollingUpdate\n  Partition:        1\n\
             Pods Status:        1 Running / 2 Waiting / 0 Succeeded / 0 Failed\nPod Template:\n"
            )),
            "{text}"
        );
        assert!(
            text.ends_with(
                "Volume Claims:\n  Name:          d\n  StorageClass:  \n  Labels:        w=z\n                 x=y\n  \
             Annotations:   <none>\n  Capacity:      1Gi\n  Access Modes:  [ReadWriteOnce]\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_daemon_set_counts_its_nodes() {
        let set = object(json!({"metadata": {"name": "d", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"nodeSelector": {"disk": "fast", "a": "b"}, "containers": [{"name": "c", "image": "x"}]}}},
            "status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberAvailable": 1}}));
        let mut out = String::new();
        daemon_set(&mut out, &set, PHASES);
        let text = align(&out);
        assert!(
            text.starts_with(
                "Name:           d\nNamespace:      ns\nSelector:       a=b\nNode-Selector:  a=b,disk=fast\n\
             Labels:         <none>\nAnnotations:    <none>\nDesired Number of Nodes Scheduled: 3\n\
             Current Number of Nodes Scheduled: 2\nNumber of Nodes Scheduled with Up-to-date Pods: 0\n\
             Number of Nodes Scheduled with Available Pods: 1\nNumber of Nodes Misscheduled: 0\n\
             Pods Status:  1 Running / 2 Waiting / 0 Succeeded / 0 Failed\nPod Template:\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_replication_controller_tells_its_replicas() {
        let set = object(json!({"metadata": {"name": "r", "namespace": "ns"},
            "spec": {"replicas": 2, "selector": {"a": "b"}, "template": {"spec": {"containers": []}}},
            "status": {"replicas": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]}}));
        let mut out = String::new();
        replication_controller(&mut out, &set, PHASES);
        let text = align(&out);
        assert!(
            text.contains("Selector:     a=b\n") && text.contains("Replicas:     1 current / 2 desired\n"),
            "{text}"
        );
        assert!(text.contains("  ReplicaFailure   True    FailedCreate\n"), "{text}");
    }
}
