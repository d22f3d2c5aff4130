//! The rules of a claim that comes and goes with its pod.

use serde_json::Value;

use super::claim_spec;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::has;
use crate::registry::kinds::vocabulary::metadata::{annotations, labels};

/// Every fault of an ephemeral volume.
pub(in crate::registry::kinds) fn ephemeral(source: &Value, path: &Path, faults: &mut Faults) {
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
    claim_spec::validate(&template["spec"], &path.child("spec"), faults);
}
