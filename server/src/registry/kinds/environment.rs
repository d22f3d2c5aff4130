//! The rules of a container's environment.

use serde_json::Value;

use super::faults::{Faults, Path};
use super::fields::{has, items, text};
use super::names;

/// What a variable may take from the pod.
const POD_FIELDS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "metadata.labels",
];
/// What a variable may take from the container's resources.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Every fault of `env` and `envFrom`.
pub(super) fn validate(container: &Value, path: &Path, faults: &mut Faults) {
    for (i, variable) in items(container, "env").iter().enumerate() {
        let path = path.child("env").index(i);
        let name = text(variable, "name");
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        } else {
            faults.invalid_all(&path.child("name"), name, names::env_var(name));
        }
        if has(variable, "valueFrom") {
            source(variable, &path.child("valueFrom"), faults);
        }
    }
    for (i, from) in items(container, "envFrom").iter().enumerate() {
        env_from(from, &path.child("envFrom").index(i), &path.child("envFrom"), faults);
    }
}

fn source(variable: &Value, path: &Path, faults: &mut Faults) {
    let from = &variable["valueFrom"];
    let mut sources = 0;
    for (key, rule) in [
        ("fieldRef", field_ref as fn(&Value, &Path, &mut Faults)),
        ("resourceFieldRef", resource_ref),
        ("configMapKeyRef", key_ref),
        ("secretKeyRef", key_ref),
        ("fileKeyRef", file_ref),
    ] {
        if has(from, key) {
            sources += 1;
            rule(&from[key], &path.child(key), faults);
        }
    }
    if sources == 0 {
        faults.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    }
    if !text(variable, "value").is_empty() && sources > 0 {
        faults.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        faults.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn field_ref(reference: &Value, path: &Path, faults: &mut Faults) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        faults.required(&path.child("apiVersion"), "");
        return;
    }
    let path = path.child("fieldPath");
    if field.is_empty() {
        faults.required(&path, "");
        return;
    }
    if version != "v1" {
        faults.invalid(&path, field, &format!("error converting fieldPath: unsupported pod version: {version}"));
        return;
    }
    let key = |map: &str| field.strip_prefix(map).and_then(|rest| rest.strip_suffix("']"));
    if let Some(label) = key("metadata.labels['") {
        faults.invalid_all(&path, label, names::qualified(label));
    } else if let Some(annotation) = key("metadata.annotations['") {
        faults.invalid_all(&path, annotation, names::qualified(&annotation.to_lowercase()));
    } else if !POD_FIELDS.contains(&field) || field == "metadata.labels" {
        if field.starts_with("metadata.") || field.starts_with("spec.") || field.starts_with("status.") {
            let known = matches!(
                field,
                "metadata.labels"
                    | "metadata.annotations"
                    | "spec.restartPolicy"
                    | "spec.schedulerName"
                    | "status.phase"
            );
            if known {
                let mut supported = POD_FIELDS[..9].to_vec();
                supported.sort_unstable();
                faults.not_supported(&path, field, &supported);
                return;
            }
        }
        faults.invalid(&path, field, &format!("error converting fieldPath: field label not supported: {field}"));
    }
}

fn resource_ref(reference: &Value, path: &Path, faults: &mut Faults) {
    let resource = text(reference, "resource");
    let path = path.child("resource");
    let huge = resource.strip_prefix("limits.").or(resource.strip_prefix("requests."));
    if resource.is_empty() {
        faults.required(&path, "");
    } else if !RESOURCES.contains(&resource) && !huge.is_some_and(|r| r.starts_with("hugepages-")) {
        faults.not_supported(&path, resource, &RESOURCES);
    }
}

fn key_ref(reference: &Value, path: &Path, faults: &mut Faults) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    faults.invalid_all(&path.child("name"), name, names::subdomain(name, false));
    if key.is_empty() {
        faults.required(&path.child("key"), "");
    } else {
        faults.invalid_all(&path.child("key"), key, names::config_key(key));
    }
}

fn file_ref(reference: &Value, path: &Path, faults: &mut Faults) {
    for key in ["volumeName", "path", "key"] {
        if text(reference, key).is_empty() {
            faults.required(&path.child(key), "");
        }
    }
}

fn env_from(from: &Value, path: &Path, all: &Path, faults: &mut Faults) {
    let prefix = text(from, "prefix");
    if !prefix.is_empty() {
        faults.invalid_all(&path.child("prefix"), prefix, names::env_var(prefix));
    }
    let mut sources = 0;
    for key in ["configMapRef", "secretRef"] {
        if !has(from, key) {
            continue;
        }
        sources += 1;
        let name = text(&from[key], "name");
        if name.is_empty() {
            faults.required(&path.child(key).child("name"), "");
        } else {
            faults.invalid_all(&path.child(key).child("name"), name, names::subdomain(name, false));
        }
    }
    match sources {
        0 => faults.invalid(all, "", "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => faults.invalid(all, "", "may not have more than one field specified at a time"),
    }
}
