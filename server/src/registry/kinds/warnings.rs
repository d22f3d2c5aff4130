//! What a person is told about a valid pod or template that will surprise (Kubernetes 1.36).

use listwatch_proto::resource::{Object, Quantity};
use serde_json::Value;

use super::faults::Path;
use super::fields::{items, text};
use super::names;
use super::pod_spec::entries;

/// About a pod.
pub(super) fn pod(object: &Object) -> Vec<String> {
    let mut warnings = hostname(object);
    spec(object.at(&["spec"]).unwrap_or(&Value::Null), &Path::new("spec"), &mut warnings);
    warnings
}

/// About the template of a workload.
pub(super) fn template(object: &Object) -> Vec<String> {
    let mut warnings = hostname(object);
    let path = Path::new("spec.template.spec");
    spec(object.at(&["spec", "template", "spec"]).unwrap_or(&Value::Null), &path, &mut warnings);
    warnings
}

fn hostname(object: &Object) -> Vec<String> {
    let faults = names::label(object.name(), false);
    if faults.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        faults.join(", ")
    )]
}

fn spec(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (i, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        if constraint["labelSelector"].is_null() {
            let path = path.child("topologySpreadConstraints").index(i).child("labelSelector");
            warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    }
    for key in ["initContainers", "containers"] {
        for (i, container) in items(spec, key).iter().enumerate() {
            self::container(container, &path.child(key).index(i), warnings);
        }
    }
}

fn container(container: &Value, path: &Path, warnings: &mut Vec<String>) {
    for part in ["limits", "requests"] {
        for (name, amount) in entries(&container["resources"][part]) {
            let bytes = matches!(name.as_str(), "memory" | "ephemeral-storage");
            let Some(Ok(amount)) = amount.as_str().map(str::parse::<Quantity>) else { continue };
            if bytes && amount.nanos() % 1_000_000_000 != 0 {
                let path = path.child("resources").child(part).key(name);
                warnings.push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
            }
        }
    }
    let mut seen = Vec::new();
    for (i, variable) in items(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        if seen.contains(&name) {
            let path = path.child("env").index(i);
            warnings.push(format!(
                "{path}: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
        seen.push(name);
    }
}
