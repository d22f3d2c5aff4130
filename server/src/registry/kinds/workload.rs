//! Rules that Deployment and ReplicaSet share: selector and template, counts, percentages.

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::faults::{Faults, Path, Shown};
use super::fields::{has, items, text};
use super::metadata::{annotations, labels};
use super::{names, pod_annotations, pod_spec};

/// `spec.KEY` must not be below zero.
pub(super) fn non_negative(spec: &Value, key: &str, path: &Path, faults: &mut Faults) {
    if let Some(count) = spec[key].as_i64().filter(|count| *count < 0) {
        faults.invalid(&path.child(key), count, "must be greater than or equal to 0");
    }
}

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

/// As Go prints a selector: matchLabels first.
fn ordered_selector(selector: &Value) -> String {
    let mut parts = Vec::new();
    for key in ["matchLabels", "matchExpressions"] {
        if has(selector, key) {
            parts.push(format!("{key:?}:{}", ordered(&selector[key])));
        }
    }
    format!("{{{}}}", parts.join(","))
}

fn ordered(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let list: Vec<_> = list
                .iter()
                .map(|e| {
                    let keys = ["key", "operator", "values"].into_iter().filter(|k| has(e, k));
                    let fields: Vec<_> = keys.map(|k| format!("{k:?}:{}", e[k])).collect();
                    format!("{{{}}}", fields.join(","))
                })
                .collect();
            format!("[{}]", list.join(","))
        }
        other => other.to_string(),
    }
}

fn template(template: &Value, selector: &Value, parsed: Option<&LabelSelector>, path: &Path, faults: &mut Faults) {
    let own = &template["metadata"]["labels"];
    let given = !selector.is_null();
    let matches = parsed.is_some_and(|s| given && s.matches(|key| own.get(key).and_then(Value::as_str)));
    if !matches && (!given || !is_empty(selector)) {
        faults.invalid(&path.child("metadata").child("labels"), own, "`selector` does not match template `labels`");
    }
    pod_template(template, path, faults);
    let spec = path.child("spec");
    let policy = text(&template["spec"], "restartPolicy");
    if policy != "Always" && !policy.is_empty() {
        faults.not_supported(&spec.child("restartPolicy"), policy, &["Always"]);
    }
    if has(&template["spec"], "activeDeadlineSeconds") {
        faults.forbidden(&spec.child("activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported");
    }
}

/// A pod template by itself, whoever it serves.
pub(super) fn pod_template(template: &Value, path: &Path, faults: &mut Faults) {
    labels(Some(&template["metadata"]["labels"]), &path.child("labels"), faults);
    annotations(Some(&template["metadata"]["annotations"]), &path.child("annotations"), faults);
    pod_annotations::validate(
        &template["metadata"]["annotations"],
        &template["spec"],
        &path.child("annotations"),
        faults,
    );
    let spec = path.child("spec");
    if !items(&template["spec"], "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        faults.forbidden(&spec.child("ephemeralContainers"), why);
    }
    pod_spec::validate_template(&template["spec"], &spec, faults);
}

/// A `metav1.LabelSelector`.
pub(super) fn label_selector(selector: &Value, path: &Path, faults: &mut Faults) {
    labels(Some(&selector["matchLabels"]), &path.child("matchLabels"), faults);
    for (i, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let values = items(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let why = "must be specified when `operator` is 'In' or 'NotIn'";
                    faults.required(&path.child("values"), why);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    faults.forbidden(&path.child("values"), why);
                }
            }
            other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
        let key = text(expression, "key");
        faults.invalid_all(&path.child("key"), key, names::qualified(key));
        for (j, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            faults.invalid_all(&path.child("values").index(j), value, names::label_value(value));
        }
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

/// A number of pods, or a percentage of them.
pub(super) fn amount(value: &Value, path: &Path, faults: &mut Faults) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_i64().filter(|n| *n < 0) {
                faults.invalid(path, number, "must be greater than or equal to 0");
            }
        }
        Value::String(text) if percentage(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                       regex used for validation is '[0-9]+%')";
            faults.invalid(path, text, why);
        }
        _ => {}
    }
}

/// Not more than 100 %.
pub(super) fn at_most_all(value: &Value, path: &Path, faults: &mut Faults) {
    if let Some(text) = value.as_str()
        && percentage(text).is_some_and(|percent| percent > 100)
    {
        faults.invalid(path, text, "must not be greater than 100%");
    }
}

/// Whether it is no pod at all.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => percentage(text) == Some(0),
        _ => true,
    }
}

fn percentage(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().unwrap_or(u64::MAX))
}
