//! References to objects of any kind by group, kind and name (Kubernetes 1.36, `networking/validation`).

use serde_json::Value;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::text;
use crate::registry::kinds::vocabulary::names;

/// Every fault of a reference.
pub(super) fn typed(reference: &Value, path: &Path, faults: &mut Faults) {
    if let Some(group) = reference["apiGroup"].as_str() {
        faults.invalid_all(&path.child("apiGroup"), group, names::subdomain(group, false));
    }
    for key in ["kind", "name"] {
        let word = text(reference, key);
        if word.is_empty() {
            faults.required(&path.child(key), "");
        } else {
            faults.invalid_all(&path.child(key), word, names::whole_path_segment(word));
        }
    }
}
