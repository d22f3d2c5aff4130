//! The rules of a claim that comes and goes with its pod.

use listwatch_proto::resource::Quantity;
use serde_json::Value;

use super::faults::{Faults, Path};
use super::fields::{has, items, text};
use super::metadata::{annotations, labels};
use super::{names, workload};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Every fault of an ephemeral volume.
pub(super) fn ephemeral(source: &Value, path: &Path, faults: &mut Faults) {
    let (template, path) = (&source["volumeClaimTemplate"], path.child("volumeClaimTemplate"));
    if template.is_null() {
        faults.required(&path, "");
        return;
    }
    let metadata = path.child("metadata");
    annotations(Some(&template["metadata"]["annotations"]), &metadata.child("annotations"), faults);
    labels(Some(&template["metadata"]["labels"]), &metadata.child("labels"), faults);
    for key in ["name", "generateName", "namespace", "uid", "ownerReferences", "finalizers"] {
        if has(&template["metadata"], key) {
            faults.forbidden(&metadata.child(key), "cannot be set");
        }
    }
    spec(&template["spec"], &path.child("spec"), faults);
}

/// Every fault of the spec of a claim.
pub(super) fn spec(spec: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("accessModes");
    let modes: Vec<&str> = items(spec, "accessModes").iter().filter_map(Value::as_str).collect();
    if modes.is_empty() {
        faults.required(&at, "at least 1 access mode is required");
    }
    workload::label_selector(&spec["selector"], &path.child("selector"), faults);
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        faults.not_supported(&at, *mode, &ACCESS_MODES);
    }
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(|m| *m != "ReadWriteOncePod" && ACCESS_MODES.contains(m))
    {
        faults.forbidden(&at, "may not use ReadWriteOncePod with other access modes");
    }
    let storage = path.child("resources").key("storage");
    match spec["resources"]["requests"]["storage"].as_str().map(str::parse::<Quantity>) {
        Some(Ok(amount)) if amount.is_negative() || amount.is_zero() => {
            faults.invalid(&storage, amount, "must be greater than zero");
        }
        Some(_) => {}
        None => faults.required(&storage, ""),
    }
    for key in ["storageClassName", "volumeAttributesClassName"] {
        let name = text(spec, key);
        if !name.is_empty() {
            faults.invalid_all(&path.child(key), name, names::subdomain(name, false));
        }
    }
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !matches!(*mode, "Block" | "Filesystem")) {
        faults.not_supported(&path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    for key in ["dataSource", "dataSourceRef"] {
        if has(spec, key) {
            data_source(&spec[key], &path.child(key), faults);
        }
    }
}

fn data_source(source: &Value, path: &Path, faults: &mut Faults) {
    for key in ["name", "kind"] {
        if text(source, key).is_empty() {
            faults.required(&path.child(key), "");
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        faults.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() {
        faults.invalid_all(&path.child("apiGroup"), group, names::subdomain(group, false));
    }
}
