//! What a claim on devices asks for, whether it stands alone or in a template (Kubernetes 1.36, `resource/validation`).
//! Expressions of selectors are kept as they are; the scheduler judges them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, items_mut, text};
use crate::registry::kinds::vocabulary::names;

/// Requests, constraints and configurations of a claim, and selectors of a request.
const MANY: usize = 32;
/// Alternatives of a request.
const ALTERNATIVES_MAX: usize = 8;
const NOT_A_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Fills in what was left out.
pub(super) fn fill_in(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in items_mut(devices, "requests") {
        if has(request, "exactly") {
            one_device(&mut request["exactly"]);
        }
        items_mut(request, "firstAvailable").iter_mut().for_each(one_device);
    }
}

fn one_device(request: &mut Value) {
    if text(request, "allocationMode").is_empty() {
        request["allocationMode"] = "ExactCount".into();
    }
    if text(request, "allocationMode") == "ExactCount" && request["count"].as_i64().unwrap_or(0) == 0 {
        request["count"] = 1.into();
    }
}

/// Every fault of what a claim asks for.
pub(super) fn validate(spec: &Value, path: &Path, faults: &mut Faults) {
    let (devices, path) = (&spec["devices"], path.child("devices"));
    let mut known: HashMap<&str, HashSet<&str>> = HashMap::new();
    for request in items(devices, "requests") {
        let alternatives = items(request, "firstAvailable").iter().map(|own| text(own, "name")).collect();
        known.insert(text(request, "name"), alternatives);
    }
    set(items(devices, "requests"), MANY, &path.child("requests"), faults, validate_request);
    let at = path.child("constraints");
    list(items(devices, "constraints"), MANY, &at, faults, |constraint, path, faults| {
        requests_named(constraint, &known, path, faults);
        match (constraint["matchAttribute"].as_str(), constraint["distinctAttribute"].as_str()) {
            (Some(name), _) => attribute(name, &path.child("matchAttribute"), faults),
            (None, Some(name)) => attribute(name, &path.child("distinctAttribute"), faults),
            (None, None) => faults.required(
                path,
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            ),
        }
    });
    list(items(devices, "config"), MANY, &path.child("config"), faults, |config, path, faults| {
        requests_named(config, &known, path, faults);
        configuration(config, path, faults);
    });
}

/// A list that is not too long.
pub(super) fn list(
    list: &[Value],
    max: usize,
    path: &Path,
    faults: &mut Faults,
    mut validate: impl FnMut(&Value, &Path, &mut Faults),
) {
    if list.len() > max {
        faults.too_many(path, list.len(), max);
        return;
    }
    for (i, item) in list.iter().enumerate() {
        validate(item, &path.index(i), faults);
    }
}

/// A list that is not too long, of things with different names.
pub(super) fn set(
    all: &[Value],
    max: usize,
    path: &Path,
    faults: &mut Faults,
    validate: impl FnMut(&Value, &Path, &mut Faults),
) {
    list(all, max, path, faults, validate);
    let mut seen = HashSet::new();
    for (i, item) in all.iter().enumerate().filter(|_| all.len() <= max) {
        let name = item.as_str().unwrap_or_else(|| text(item, "name"));
        if !seen.insert(name) {
            faults.duplicate(&path.index(i), name);
        }
    }
}

fn validate_request(request: &Value, path: &Path, faults: &mut Faults) {
    name(text(request, "name"), &path.child("name"), faults);
    let alternatives = items(request, "firstAvailable");
    match (has(request, "exactly"), alternatives.is_empty()) {
        (false, true) => faults.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, false) => faults.invalid(
            path,
            Shown("null".into()),
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, true) => device(&request["exactly"], &path.child("exactly"), faults),
        (false, false) => {
            set(alternatives, ALTERNATIVES_MAX, &path.child("firstAvailable"), faults, |own, path, faults| {
                name(text(own, "name"), &path.child("name"), faults);
                device(own, path, faults);
            });
        }
    }
}

fn device(request: &Value, path: &Path, faults: &mut Faults) {
    let class = text(request, "deviceClassName");
    if class.is_empty() {
        faults.required(&path.child("deviceClassName"), "");
    } else {
        faults.invalid_all(&path.child("deviceClassName"), class, names::subdomain(class, false));
    }
    selectors(items(request, "selectors"), &path.child("selectors"), faults);
    let (mode, count) = (text(request, "allocationMode"), request["count"].as_i64().unwrap_or(0));
    match mode {
        "All" if count != 0 => {
            faults.invalid(&path.child("count"), count, "must not be specified when allocationMode is 'All'");
        }
        "All" => {}
        "ExactCount" if count <= 0 => faults.invalid(&path.child("count"), count, "must be greater than zero"),
        "ExactCount" => {}
        other => faults.not_supported(&path.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    for (i, toleration) in items(request, "tolerations").iter().enumerate() {
        validate_toleration(toleration, &path.child("tolerations").index(i), faults);
    }
}

fn validate_toleration(toleration: &Value, path: &Path, faults: &mut Faults) {
    let (key, value, effect) = (text(toleration, "key"), text(toleration, "value"), text(toleration, "effect"));
    if !key.is_empty() {
        faults.invalid_all(&path.child("key"), key, names::qualified(key));
    }
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            faults.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => faults.invalid_all(&path.child("value"), value, names::label_value(value)),
        "" => faults.required(&path.child("operator"), ""),
        other => faults.not_supported(&path.child("operator"), other, &["Equal", "Exists"]),
    }
    const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        faults.not_supported(&path.child("effect"), effect, &EFFECTS);
    }
}

/// Expressions that a device must meet.
pub(super) fn selectors(selectors: &[Value], path: &Path, faults: &mut Faults) {
    list(selectors, MANY, path, faults, |selector, path, faults| {
        if !has(selector, "cel") {
            faults.required(&path.child("cel"), "");
        } else if text(&selector["cel"], "expression").is_empty() {
            faults.required(&path.child("cel").child("expression"), "");
        }
    });
}

/// What a driver is told.
pub(super) fn configuration(config: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("opaque");
    if !has(config, "opaque") {
        faults.required(&at, "");
        return;
    }
    template::persistent_source::driver(text(&config["opaque"], "driver"), &at.child("driver"), faults);
    match &config["opaque"]["parameters"] {
        Value::Null => faults.required(&at.child("parameters"), ""),
        Value::Object(_) => {}
        _ => faults.invalid(
            &at.child("parameters"),
            Shown("\"<value omitted>\"".into()),
            "parameters must be a valid JSON object",
        ),
    }
}

fn name(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.required(path, "");
    } else {
        faults.invalid_all(path, name, names::label(name, false));
    }
}

fn attribute(attribute: &str, path: &Path, faults: &mut Faults) {
    if attribute.is_empty() {
        faults.required(path, "name required");
        return;
    }
    let Some((domain, id)) = attribute.split_once('/') else {
        faults.invalid(path, attribute, "must include a domain");
        return;
    };
    faults.invalid_all(path, domain, names::subdomain(domain, false));
    let first = id.bytes().next();
    let fits = first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !fits {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
                   characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
                   '[A-Za-z_][A-Za-z0-9_]*')";
        faults.invalid(path, id, why);
    }
}

/// The requests that something is about must be there.
fn requests_named(of: &Value, known: &HashMap<&str, HashSet<&str>>, path: &Path, faults: &mut Faults) {
    set(items(of, "requests"), MANY, &path.child("requests"), faults, |own, path, faults| {
        let own = own.as_str().unwrap_or_default();
        let segments: Vec<&str> = own.split('/').collect();
        if segments.len() > 2 {
            faults.invalid(path, own, NOT_A_REQUEST);
            return;
        }
        segments.iter().for_each(|segment| name(segment, path, faults));
        let found = match segments[..] {
            [request] => known.contains_key(request),
            [request, alternative] => known.get(request).is_some_and(|all| all.contains(alternative)),
            _ => false,
        };
        if !found {
            faults.invalid(path, own, NOT_A_REQUEST);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(requests: Value, constraints: Value) -> Vec<String> {
        let mut spec = json!({"devices": {"requests": requests, "constraints": constraints}});
        fill_in(&mut spec);
        let mut faults = Faults::new();
        validate(&spec, &Path::new("spec"), &mut faults);
        faults.told()
    }

    #[test]
    fn requests_are_one_of_two_forms_and_constraints_name_them() {
        let good = json!([{"name": "a", "exactly": {"deviceClassName": "gpu"}},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]}]);
        assert!(told(good.clone(), json!([{"requests": ["a", "b/x"], "matchAttribute": "e.com/numa"}])).is_empty());
        assert_eq!(
            told(json!([{"name": "a"}, {"name": "a", "exactly": {}}]), json!([])),
            [
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
                "spec.devices.requests[1].exactly.deviceClassName: Required value",
                "spec.devices.requests[1]: Duplicate value: \"a\"",
            ]
        );
        let why = told(good, json!([{"requests": ["c"], "matchAttribute": "numa"}]));
        assert!(why[0].ends_with(NOT_A_REQUEST), "{why:?}");
        assert!(why[1].ends_with("must include a domain"), "{why:?}");
    }
}
