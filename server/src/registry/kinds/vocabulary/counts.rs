//! Counts that are not below zero, counts that are not above others, and amounts that are a count or a percentage.

use serde_json::Value;

use super::faults::{Faults, Path};

/// `spec.KEY` must not be below zero.
pub(in crate::registry::kinds) fn non_negative(spec: &Value, key: &str, path: &Path, faults: &mut Faults) {
    if let Some(count) = spec[key].as_i64().filter(|count| *count < 0) {
        faults.invalid(&path.child(key), count, "must be greater than or equal to 0");
    }
}

/// Pods that a status counts: none of these is above all of them, nor are those that are available above those that are
/// ready. `own` is the count that only this kind has.
pub(in crate::registry::kinds) fn of_replicas(status: &Value, own: &str, faults: &mut Faults) {
    let count = |key: &str| status[key].as_i64().unwrap_or(0);
    for (key, above, shown) in [
        (own, "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ] {
        if count(key) > count(above) {
            faults.invalid(&Path::new("status").child(key), count(key), &format!("cannot be greater than {shown}"));
        }
    }
}

/// A number of pods, or a percentage of them.
pub(in crate::registry::kinds) fn amount(value: &Value, path: &Path, faults: &mut Faults) {
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
pub(in crate::registry::kinds) fn at_most_all(value: &Value, path: &Path, faults: &mut Faults) {
    if let Some(text) = value.as_str()
        && percentage(text).is_some_and(|percent| percent > 100)
    {
        faults.invalid(path, text, "must not be greater than 100%");
    }
}

/// Whether it is no pod at all.
pub(in crate::registry::kinds) fn is_zero(value: &Value) -> bool {
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
