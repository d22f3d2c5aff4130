//! Rules that the workloads of the group share: selector and template, what stays as it is, the counts of a status.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::template::whole;
use crate::registry::kinds::vocabulary::counts::non_negative;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::selectors::ordered_selector;

/// How a Deployment and the ReplicaSets that it makes ask for a selector; upstream has one word for both.
const SELECTING: whole::Selecting = whole::Selecting {
    required: true,
    never_empty_for: Some("deployment"),
    unreadable: Some("invalid label selector"),
};

/// The selector must be there, valid, not empty, and match the template, which must be a valid one that runs for ever.
pub(super) fn selector_and_template(spec: &Value, path: &Path, faults: &mut Faults) {
    if whole::selector(spec, path, &SELECTING, faults) {
        whole::for_ever(&spec["template"], "ReplicaSet", &path.child("template"), faults);
    }
}

/// A count that only grows has not shrunk.
pub(super) fn not_decremented(new: &Object, old: &Object, key: &str, faults: &mut Faults) {
    let (was, is) = (old.int(&["status", key]), new.int(&["status", key]));
    if was.is_some() && is.unwrap_or(0) < was.unwrap_or(0) {
        faults.invalid(&Path::new("status").child(key), is.unwrap_or(0), "cannot be decremented");
    }
}

/// The selector stays what it was.
pub(super) fn immutable_selector(new: &Object, old: &Object, faults: &mut Faults) {
    let (before, after) = (old.at(&["spec", "selector"]), new.at(&["spec", "selector"]));
    if before != after {
        let shown = after.filter(|s| !s.is_null()).map_or_else(|| "null".to_owned(), ordered_selector);
        faults.invalid(&Path::new("spec.selector"), Shown(shown), "field is immutable");
    }
}

/// Labels stay what they were.
pub(super) fn keep_labels(new: &mut Object, old: &Object) {
    match old.at(&["metadata", "labels"]) {
        Some(labels) => new.set(&["metadata", "labels"], labels.clone()),
        None => drop(new.remove(&["metadata", "labels"])),
    }
}

/// The counts of a status are not below zero.
pub(super) fn status(object: &Object, faults: &mut Faults) {
    let status = object.at(&["status"]).unwrap_or(&Value::Null);
    for key in [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
    ] {
        non_negative(status, key, &Path::new("status"), faults);
    }
}
