//! References to fields of the pod and to resources of its containers, in variables and in downward volumes.

use listwatch_proto::resource::Quantity;
use serde_json::Value;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::text;
use crate::registry::kinds::vocabulary::names;

/// What a variable may take from the pod.
pub(in crate::registry::kinds) const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What a volume may show of the pod.
pub(in crate::registry::kinds) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// What can be referred to at all.
const FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.hostIP",
    "status.hostIPs",
    // The old name of spec.nodeName.
    "spec.host",
];
/// What can be taken from a container's resources.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// In which units bytes may be shown.
const BYTE_UNITS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// A reference to a field of the pod.
pub(in crate::registry::kinds) fn field_ref(reference: &Value, supported: &[&str], path: &Path, faults: &mut Faults) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        faults.required(&path.child("apiVersion"), "");
        return;
    }
    let at = path.child("fieldPath");
    if field.is_empty() {
        faults.required(&at, "");
        return;
    }
    if version != "v1" {
        faults.invalid(&at, field, &format!("error converting fieldPath: unsupported pod version: {version}"));
        return;
    }
    let subscript = field.strip_suffix("']").and_then(|rest| rest.split_once("['")).filter(|(map, _)| !map.is_empty());
    if let Some((map, key)) = subscript {
        // The keys of maps are named without the last step of the path.
        match map {
            "metadata.annotations" => {
                faults.invalid_all(path, &key.to_lowercase(), names::qualified(&key.to_lowercase()))
            }
            "metadata.labels" => faults.invalid_all(path, key, names::qualified(key)),
            _ => {
                faults.invalid(
                    &at,
                    field,
                    &format!("error converting fieldPath: field label does not support subscript: {field}"),
                );
            }
        }
    } else if !FIELDS.contains(&field) {
        faults.invalid(&at, field, &format!("error converting fieldPath: field label not supported: {field}"));
    } else if !supported.contains(&if field == "spec.host" { "spec.nodeName" } else { field }) {
        let mut supported = supported.to_vec();
        supported.sort_unstable();
        faults.not_supported(&at, field, &supported);
    }
}

/// A reference to a container's resource; in a volume it names the container.
pub(in crate::registry::kinds) fn resource_ref(reference: &Value, in_volume: bool, path: &Path, faults: &mut Faults) {
    let resource = text(reference, "resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if in_volume && text(reference, "containerName").is_empty() {
        faults.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        faults.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        faults.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    divisor(reference, resource, huge, &path.child("divisor"), faults);
}

fn divisor(reference: &Value, resource: &str, huge: bool, path: &Path, faults: &mut Faults) {
    let divisor = match text(reference, "divisor").parse::<Quantity>() {
        Ok(divisor) if !divisor.is_zero() => divisor.to_string(),
        _ => return,
    };
    let bytes = BYTE_UNITS.contains(&divisor.as_str());
    const UNITS: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let what = match resource.split_once('.') {
        Some(("limits" | "requests", "cpu")) if !matches!(divisor.as_str(), "1" | "1m") => {
            faults.invalid(path, resource, "only divisor's values 1m and 1 are supported with the cpu resource");
            return;
        }
        Some(("limits" | "requests", "memory")) if !bytes => "memory",
        Some(("limits" | "requests", "ephemeral-storage")) if !bytes => "local ephemeral storage",
        _ if huge && !bytes => "hugepages",
        _ => return,
    };
    faults.invalid(path, resource, &format!("only divisor's values {UNITS} are supported with the {what} resource"));
}
