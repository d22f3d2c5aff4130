//! Selectors of labels: their faults, what they select, and how they are shown.

use listwatch_proto::resource::LabelSelector;
use serde_json::Value;

use super::faults::{Faults, Path};
use super::fields::{has, items, text};
use super::metadata::labels;
use super::names;

/// A `metav1.LabelSelector`.
pub(in crate::registry::kinds) fn label_selector(selector: &Value, path: &Path, faults: &mut Faults) {
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

/// Whether a selector selects these labels; one that is missing selects nothing. `None` = it is no valid one.
pub(in crate::registry::kinds) fn selects(selector: &Value, own: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let mut faults = Faults::new();
    label_selector(selector, &Path::new(""), &mut faults);
    let parsed = LabelSelector::from_json(selector).ok().filter(|_| faults.is_empty())?;
    Some(parsed.matches(|key| own.get(key).and_then(Value::as_str)))
}

/// Whether a selector has no requirement at all.
pub(in crate::registry::kinds) fn is_empty_selector(selector: &Value) -> bool {
    items(selector, "matchExpressions").is_empty()
        && selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
}

/// As Go prints a selector: matchLabels first.
pub(in crate::registry::kinds) fn ordered_selector(selector: &Value) -> String {
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
