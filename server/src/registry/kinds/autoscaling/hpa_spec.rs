//! The rules of an autoscaler's spec (Kubernetes 1.36).

use listwatch_proto::resource::Quantity;
use serde_json::Value;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::{names, resources};

/// The longest period of a policy, in seconds.
const PERIOD_MAX: i64 = 1800;
/// The longest stabilization window, in seconds.
const WINDOW_MAX: i64 = 3600;

const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The fields of a metric, in the order in which they are looked at, with the type that each belongs to.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// How strictly a version of a referenced object is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// It names a group.
    WithGroup,
    /// It may be one of the core group.
    Any,
    /// It is not looked at.
    Unchecked,
}

/// Every fault of a spec; `old` is the one that it takes the place of.
pub(super) fn validate(spec: &Value, old: Option<&Value>, faults: &mut Faults) {
    let path = Path::new("spec");
    let least = spec["minReplicas"].as_i64();
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
    // None at all stand behind a gate that is closed; what had none may keep none.
    let floor = i64::from(old.is_none_or(|old| old["minReplicas"] != 0));
    if let Some(least) = least.filter(|least| *least < floor) {
        let why = format!("must be greater than or equal to {floor}");
        faults.invalid(&path.child("minReplicas"), least, &why);
    }
    let at = path.child("maxReplicas");
    if most == 0 {
        faults.required(&at, "must be set and greater than 0");
    } else if most < 0 {
        faults.invalid(&at, most, "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        faults.invalid(&at, most, "must be greater than or equal to `minReplicas`");
    }
    let target = &spec["scaleTargetRef"];
    reference(target, target_version(target, old), &path.child("scaleTargetRef"), faults);
    metrics(spec, described_version(old), &path.child("metrics"), faults);
    for key in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][key];
        if !rules.is_null() {
            scaling_rules(rules, &path.child("behavior").child(key), faults);
        }
    }
}

fn target_version(target: &Value, old: Option<&Value>) -> Version {
    let same = |key: &str| old.is_some_and(|old| text(&old["scaleTargetRef"], key) == text(target, key));
    if same("apiVersion") && same("kind") {
        Version::Unchecked
    } else if text(target, "kind") == "ReplicationController" {
        Version::Any
    } else {
        Version::WithGroup
    }
}

/// The objects of metrics may be wrong if one was before.
fn described_version(old: Option<&Value>) -> Version {
    let was_wrong = old.into_iter().flat_map(|old| items(old, "metrics")).any(|metric| {
        let object = &metric["object"];
        text(metric, "type") == "Object"
            && !object.is_null()
            && version_fault(text(&object["describedObject"], "apiVersion"), Version::Any).is_some()
    });
    if was_wrong { Version::Unchecked } else { Version::Any }
}

fn version_fault(version: &str, rule: Version) -> Option<String> {
    if rule == Version::Unchecked {
        return None;
    }
    let slashes = version.bytes().filter(|b| *b == b'/').count();
    if slashes > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    let has_group = version.split_once('/').is_some_and(|(group, _)| !group.is_empty());
    (rule == Version::WithGroup && !has_group).then(|| "apiVersion must specify API group".to_owned())
}

fn reference(target: &Value, rule: Version, path: &Path, faults: &mut Faults) {
    for key in ["kind", "name"] {
        named(text(target, key), "", &path.child(key), faults);
    }
    let version = text(target, "apiVersion");
    if let Some(why) = version_fault(version, rule) {
        faults.invalid(&path.child("apiVersion"), version, &why);
    }
}

fn named(name: &str, missing: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.required(path, missing);
    } else {
        faults.invalid_all(path, name, names::path_segment_name(name));
    }
}

fn metrics(spec: &Value, version: Version, path: &Path, faults: &mut Faults) {
    let list = items(spec, "metrics");
    for (i, metric) in list.iter().enumerate() {
        one_metric(metric, version, &path.index(i), faults);
    }
    let from_outside = list.iter().any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    if spec["minReplicas"] == 0 && !from_outside {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        faults.forbidden(path, why);
    }
}

fn one_metric(metric: &Value, version: Version, path: &Path, faults: &mut Faults) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        faults.required(&path.child("type"), "must specify a metric source type");
    }
    if !METRIC_TYPES.contains(&kind) {
        faults.not_supported(&path.child("type"), kind, &METRIC_TYPES);
    }
    let present: Vec<&str> = SOURCES.iter().map(|(key, _)| *key).filter(|key| has(metric, key)).collect();
    if let Some(first) = present.first() {
        source(first, &metric[*first], version, &path.child(first), faults);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind).map(|(key, _)| *key);
    match expected {
        Some(key) if !has(metric, key) => {
            faults.required(&path.child(key), "must populate information for the given metric source");
        }
        Some(_) => {}
        // Upstream tells an unknown type twice.
        None => faults.not_supported(&path.child("type"), kind, &METRIC_TYPES),
    }
    if present.len() != 1 {
        for key in present.iter().filter(|key| Some(**key) != expected) {
            faults.forbidden(&path.child(key), "must populate the given metric source only");
        }
    }
}

fn source(key: &str, source: &Value, version: Version, path: &Path, faults: &mut Faults) {
    let target = &source["target"];
    let target_at = path.child("target");
    let [value, average, utilization] = ["value", "averageValue", "averageUtilization"].map(|key| has(target, key));
    let required = |key: &str, why: &str, faults: &mut Faults| faults.required(&target_at.child(key), why);
    match key {
        "object" => {
            reference(&source["describedObject"], version, &path.child("describedObject"), faults);
            identified(source, path, faults);
            metric_target(target, &target_at, faults);
            if !value && !average {
                required("averageValue", "must set either a target value or averageValue", faults);
            }
        }
        "external" => {
            identified(source, path, faults);
            metric_target(target, &target_at, faults);
            if !value && !average {
                let why = "must set either a target value for metric or a per-pod target";
                required("averageValue", why, faults);
            }
            if value && average {
                let why = "may not set both a target value for metric and a per-pod target";
                faults.forbidden(&target_at.child("value"), why);
            }
        }
        "pods" => {
            identified(source, path, faults);
            metric_target(target, &target_at, faults);
            if !average {
                required("averageValue", "must specify a positive target averageValue", faults);
            }
        }
        _ => {
            resource_names(key, source, path, faults);
            metric_target(target, &target_at, faults);
            if !utilization && !average {
                let why = "must set either a target raw value or a target utilization";
                required("averageUtilization", why, faults);
            }
            if utilization && average {
                let why = "may not set both a target raw value and a target utilization";
                faults.forbidden(&target_at.child("averageValue"), why);
            }
        }
    }
}

fn resource_names(key: &str, source: &Value, path: &Path, faults: &mut Faults) {
    let name = text(source, "name");
    if name.is_empty() {
        faults.required(&path.child("name"), "must specify a resource name");
    } else if key == "containerResource" {
        resources::container_resource_name(name, &path.child("name"), faults);
    }
    if key == "containerResource" {
        let container = text(source, "container");
        if container.is_empty() {
            faults.required(&path.child("container"), "must specify a container");
        } else {
            faults.invalid_all(&path.child("container"), container, names::label(container, false));
        }
    }
}

fn identified(source: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("metric").child("name");
    named(text(&source["metric"], "name"), "must specify a metric name", &at, faults);
}

fn metric_target(target: &Value, path: &Path, faults: &mut Faults) {
    let kind = text(target, "type");
    if kind.is_empty() {
        faults.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        faults.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for key in ["value", "averageValue"] {
        if let Some(Ok(amount)) = target[key].as_str().map(str::parse::<Quantity>)
            && (amount.is_zero() || amount.is_negative())
        {
            faults.invalid(&path.child(key), amount, "must be positive");
        }
    }
    if let Some(percent) = target["averageUtilization"].as_i64().filter(|percent| *percent < 1) {
        faults.invalid(&path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn scaling_rules(rules: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("stabilizationWindowSeconds");
    match rules["stabilizationWindowSeconds"].as_i64() {
        Some(window) if window < 0 => faults.invalid(&at, window, "must be greater than or equal to zero"),
        Some(window) if window > WINDOW_MAX => {
            faults.invalid(&at, window, &format!("must be less than or equal to {WINDOW_MAX}"));
        }
        _ => {}
    }
    if let Some(policy) = rules["selectPolicy"].as_str().filter(|p| !matches!(*p, "Max" | "Min" | "Disabled")) {
        faults.not_supported(&path.child("selectPolicy"), policy, &["Disabled", "Max", "Min"]);
    }
    let (policies, at) = (items(rules, "policies"), path.child("policies"));
    if policies.is_empty() {
        faults.required(&at, "must specify at least one Policy");
    }
    for (i, policy) in policies.iter().enumerate() {
        let path = at.index(i);
        let (kind, period) = (text(policy, "type"), policy["periodSeconds"].as_i64().unwrap_or(0));
        if !matches!(kind, "Pods" | "Percent") {
            faults.not_supported(&path.child("type"), kind, &["Percent", "Pods"]);
        }
        if let Some(value) = Some(policy["value"].as_i64().unwrap_or(0)).filter(|value| *value <= 0) {
            faults.invalid(&path.child("value"), value, "must be greater than zero");
        }
        if period <= 0 {
            faults.invalid(&path.child("periodSeconds"), period, "must be greater than zero");
        }
        if period > PERIOD_MAX {
            let why = format!("must be less than or equal to {PERIOD_MAX}");
            faults.invalid(&path.child("periodSeconds"), period, &why);
        }
    }
    if let Some(Ok(tolerance)) = rules["tolerance"].as_str().map(str::parse::<Quantity>)
        && tolerance.is_negative()
    {
        faults.invalid(&path.child("tolerance"), tolerance, "must be greater than or equal to 0");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(change: &Value, old: Option<&Value>) -> Vec<String> {
        let whole = |change: &Value| {
            let mut spec = json!({"minReplicas": 1, "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
            for (key, value) in change.as_object().into_iter().flatten() {
                spec[key] = value.clone();
            }
            spec
        };
        let mut faults = Faults::new();
        validate(&whole(change), old.map(whole).as_ref(), &mut faults);
        faults.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn replicas_lie_between_one_and_the_most() {
        assert!(told(&json!({}), None).is_empty());
        assert_eq!(told(&json!({"maxReplicas": 0}), None), ["spec.maxReplicas", "spec.maxReplicas"]);
        let none = json!({"minReplicas": 0});
        assert_eq!(told(&none, None), ["spec.minReplicas", "spec.metrics"]);
        assert_eq!(told(&none, Some(&none)), ["spec.metrics"], "what had none may keep none");
    }

    #[test]
    fn a_target_names_its_group() {
        let target =
            |version: &str, kind: &str| json!({"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "x"}});
        assert_eq!(told(&target("v1", "Deployment"), None), ["spec.scaleTargetRef.apiVersion"]);
        assert!(told(&target("v1", "ReplicationController"), None).is_empty());
        assert_eq!(told(&target("a/b/c", "ReplicationController"), None), ["spec.scaleTargetRef.apiVersion"]);
        let wrong = target("v1", "Deployment");
        assert!(told(&wrong, Some(&wrong)).is_empty(), "what was wrong may stay");
    }

    #[test]
    fn a_metric_has_one_source_and_one_target() {
        let metric = |metric: Value| told(&json!({"metrics": [metric]}), None);
        let at = |tail: &str| format!("spec.metrics[0].{tail}");
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        let resource = json!({"name": "cpu", "target": target});
        assert!(metric(json!({"type": "Resource", "resource": resource})).is_empty());
        assert_eq!(metric(json!({"type": "Resource"})), [at("resource")]);
        assert_eq!(
            metric(json!({"type": "Pods", "resource": resource})),
            [at("pods")],
            "one source that is not the expected one is told as missing"
        );
        let pods = json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}});
        assert_eq!(metric(json!({"type": "Pods", "pods": pods, "resource": resource})), [at("resource")]);
        assert_eq!(
            metric(json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "X"}}})),
            [at("resource.target.type"), at("resource.target.averageUtilization")]
        );
    }
}
