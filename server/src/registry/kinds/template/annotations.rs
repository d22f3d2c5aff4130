//! The rules of annotations that mean something for pods (Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::spec::all_containers;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, text};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Every fault of the annotations of a pod or a template.
pub(in crate::registry::kinds) fn validate(annotations: &Value, spec: &Value, path: &Path, faults: &mut Faults) {
    for (key, value) in entries(annotations) {
        let (value, at) = (value.as_str().unwrap_or_default(), path.key(key));
        if key == MIRROR && text(spec, "nodeName").is_empty() {
            faults.invalid(&at, value, "must set spec.nodeName if mirror pod annotation is set");
        }
        if key == DELETION_COST && !is_cost(value) {
            faults.invalid(&at, value, "must be a 32bit integer");
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if !all_containers(spec, path).iter().any(|(container, _)| text(container, "name") == name) {
                faults.invalid(&at, name, "container not found");
            }
            if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/") {
                faults.invalid(&at, value, &format!("invalid AppArmor profile name: {}", quote(&value)));
            }
        }
    }
}

/// A number that takes no sign but minus and no leading zeros.
fn is_cost(value: &str) -> bool {
    let first = value.bytes().next();
    let fits = value == "0" || matches!(first, Some(b'-' | b'1'..=b'9'));
    fits && value.parse::<i32>().is_ok()
}

/// Every fault of a change: what tells where a pod comes from stays as it is.
pub(in crate::registry::kinds) fn validate_update(new: &Object, old: &Object, faults: &mut Faults) {
    let path = Path::new("metadata.annotations");
    let of = |object: &Object| object.at(&["metadata", "annotations"]).cloned().unwrap_or(Value::Null);
    let (is, was) = (of(new), of(old));
    let special = |key: &str| key == MIRROR || key.starts_with(APP_ARMOR);
    let what = |key: &str| if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
    for (key, _) in entries(&was).filter(|(key, value)| special(key) && is.get(key.as_str()) != Some(*value)) {
        faults.forbidden(&path.key(key), &format!("may not remove or update {}", what(key)));
    }
    for (key, _) in entries(&is).filter(|(key, _)| special(key) && was.get(key.as_str()).is_none()) {
        faults.forbidden(&path.key(key), &format!("may not add {}", what(key)));
    }
    validate(&is, new.at(&["spec"]).unwrap_or(&Value::Null), &path, faults);
}
