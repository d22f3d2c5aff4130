//! Rules that workloads share: selector and template, counts, percentages.

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
pub(super) fn ordered_selector(selector: &Value) -> String {
    if selector.is_null() {
        return "null".to_owned();
    }
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

/// A template of pods, whatever runs them.
pub(super) fn pod_template(template: &Value, path: &Path, faults: &mut Faults) {
    let metadata = &template["metadata"];
    labels(Some(&metadata["labels"]), &path.child("labels"), faults);
    annotations(Some(&metadata["annotations"]), &path.child("annotations"), faults);
    pod_annotations::validate(&metadata["annotations"], &template["spec"], &path.child("annotations"), faults);
    let spec = path.child("spec");
    pod_spec::validate_template(&template["spec"], &spec, faults);
    if !items(&template["spec"], "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        faults.forbidden(&spec.child("ephemeralContainers"), why);
    }
}

/// Whether a selector selects these labels; one that is missing selects nothing. `None` = it is no valid one.
pub(super) fn selects(selector: &Value, own: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let mut faults = Faults::new();
    label_selector(selector, &Path::new(""), &mut faults);
    let parsed = LabelSelector::from_json(selector).ok().filter(|_| faults.is_empty())?;
    Some(parsed.matches(|key| own.get(key).and_then(Value::as_str)))
}

/// Whether a selector has no requirement at all.
pub(super) fn is_empty_selector(selector: &Value) -> bool {
    items(selector, "matchExpressions").is_empty()
        && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// Told of a template whose labels its selector does not select.
pub(super) fn mismatch(template: &Value, path: &Path, faults: &mut Faults) {
    let own = &template["metadata"]["labels"];
    faults.invalid(&path.child("metadata").child("labels"), own, "`selector` does not match template `labels`");
}

/// A template must run its pods for ever.
pub(super) fn runs_for_ever(template: &Value, what: &str, path: &Path, faults: &mut Faults) {
    let (spec, path) = (&template["spec"], path.child("spec"));
    let policy = text(spec, "restartPolicy");
    if policy != "Always" && !spec.is_null() {
        faults.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if has(spec, "activeDeadlineSeconds") {
        let why = format!("activeDeadlineSeconds in {what} is not Supported");
        faults.forbidden(&path.child("activeDeadlineSeconds"), &why);
    }
}

/// A count that only grows has not shrunk.
pub(super) fn not_decremented(new: &Object, old: &Object, key: &str, faults: &mut Faults) {
    let (was, is) = (old.int(&["status", key]), new.int(&["status", key]));
    if was.is_some() && is.unwrap_or(0) < was.unwrap_or(0) {
        faults.invalid(&Path::new("status").child(key), is.unwrap_or(0), "cannot be decremented");
    }
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
