//! Rules that the workloads of the group share: selector and template, what stays as it is, the counts of a status.

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use crate::registry::kinds::template::whole;
use crate::registry::kinds::vocabulary::counts::non_negative;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::selectors::{label_selector, ordered_selector};

/// The selector must be there, valid, not empty, and match the template, which must be a valid one that runs for ever.
pub(super) fn selector_and_template(spec: &Value, path: &Path, what: &str, faults: &mut Faults) {
    let before = faults.len();
    let selector = &spec["selector"];
    let at = path.child("selector");
    if selector.is_null() {
        faults.required(&at, "");
    } else {
        label_selector(selector, &at, faults);
        if items(selector, "matchExpressions").is_empty()
            && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        {
            faults.invalid(&at, Shown("{}".into()), &format!("empty selector is invalid for {what}"));
        }
    }
    let parsed = LabelSelector::from_json(selector);
    if parsed.is_err() || (faults.len() > before && !selector.is_null() && !is_empty(selector)) {
        faults.invalid(&at, Shown(ordered_selector(selector)), "invalid label selector");
        return;
    }
    template(&spec["template"], selector, parsed.ok().as_ref(), &path.child("template"), faults);
}

fn is_empty(selector: &Value) -> bool {
    selector.as_object().is_none_or(serde_json::Map::is_empty)
}

fn template(template: &Value, selector: &Value, parsed: Option<&LabelSelector>, path: &Path, faults: &mut Faults) {
    let own = &template["metadata"]["labels"];
    let given = !selector.is_null();
    let matches = parsed.is_some_and(|s| given && s.matches(|key| own.get(key).and_then(Value::as_str)));
    if !matches && (!given || !is_empty(selector)) {
        faults.invalid(&path.child("metadata").child("labels"), own, "`selector` does not match template `labels`");
    }
    whole::pod_template(template, path, faults);
    let spec = path.child("spec");
    let policy = text(&template["spec"], "restartPolicy");
    if policy != "Always" && !policy.is_empty() {
        faults.not_supported(&spec.child("restartPolicy"), policy, &["Always"]);
    }
    if has(&template["spec"], "activeDeadlineSeconds") {
        faults.forbidden(&spec.child("activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported");
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
