//! The rules of ephemeral containers, which only a pod that is there already may have.

use std::collections::HashSet;

use serde_json::Value;

use super::container;
use super::spec::Context;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items, text};

/// What an ephemeral container may not have, in the order of the fields.
const REFUSED: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const WHY: &str = "cannot be set for an Ephemeral Container";

/// Every fault of the ephemeral containers of a spec. `taken` are the names of its other containers.
pub(super) fn validate_all<'a>(context: &Context<'a>, taken: &mut HashSet<&'a str>, path: &Path, faults: &mut Faults) {
    let others = taken.clone();
    for (i, own) in items(context.spec, "ephemeralContainers").iter().enumerate() {
        let path = path.index(i);
        container::validate(context, own, &path, faults);
        let image = text(own, "image");
        if image.trim() != image {
            faults.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
        }
        let (name, target) = (text(own, "name"), text(own, "targetContainerName"));
        if !taken.insert(name) {
            faults.duplicate(&path.child("name"), name);
        }
        if !target.is_empty() && !others.contains(target) {
            faults.not_found(&path.child("targetContainerName"), target);
        }
        for key in REFUSED {
            let is_set = match &own[key] {
                Value::Null => false,
                Value::Object(map) => key != "resources" || map.values().any(|value| !value.is_null()),
                Value::Array(list) => !list.is_empty(),
                _ => true,
            };
            if is_set {
                faults.forbidden(&path.child(key), WHY);
            }
        }
        for (j, mount) in items(own, "volumeMounts").iter().enumerate() {
            for key in ["subPath", "subPathExpr"] {
                if !text(mount, key).is_empty() {
                    faults.forbidden(&path.child("volumeMounts").index(j).child(key), WHY);
                }
            }
        }
    }
}
