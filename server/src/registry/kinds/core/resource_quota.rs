//! ResourceQuota: how much of what a namespace may have together.

use std::collections::BTreeSet;

use listwatch_proto::resource::{Object, Quantity};
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{entries, items, text as field};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::kinds::vocabulary::resources;
use crate::registry::table::{Cell, Column};

pub(super) struct ResourceQuotaStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume.", 0),
    column(
        "Limit",
        "string",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        0,
    ),
    AGE,
];

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
/// Scopes that no object is in together.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// What pods use, beside being there.
const OF_PODS: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
/// Resources whose requests should be below their limits.
const COMPARED: [&str; 4] = ["cpu", "memory", "storage", "ephemeral-storage"];

impl Strategy for ResourceQuotaStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.ResourceQuota"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, if part == Part::Status { &["spec"] } else { &["status"] });
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        amounts(&spec["hard"], &path.child("hard"), faults);
        scopes(spec, &path, faults);
        if !spec["scopeSelector"].is_null() {
            scope_selector(spec, &path.child("scopeSelector"), faults);
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            for key in ["hard", "used"] {
                let list = new.at(&["status", key]).unwrap_or(&Value::Null);
                amounts(list, &Path::new("status").child(key), faults);
            }
            return;
        }
        self.validate_create(new, faults);
        let set = |object: &Object| -> BTreeSet<String> {
            let list = object.at(&["spec", "scopes"]).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(|scope| scope.as_str().map(str::to_owned)).collect()
        };
        if set(new) != set(old) {
            let shown = new.at(&["spec", "scopes"]).unwrap_or(&Value::Null);
            faults.invalid(&Path::new("spec.scopes"), shown, "field is immutable");
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let hard = object.at(&["spec", "hard"]).unwrap_or(&Value::Null);
        let amount = |name: &str| Quantity::from_json(&hard[name]).ok();
        let mut warnings = Vec::new();
        for name in COMPARED {
            let (request, limit) = (format!("requests.{name}"), format!("limits.{name}"));
            // For cpu and memory the bare name is one of requests.
            let bare = matches!(name, "cpu" | "memory").then_some(name);
            let found = [Some(request.as_str()), bare].into_iter().flatten().find_map(|n| Some((n, amount(n)?)));
            if let (Some((request, asked)), Some(limited)) = (found, amount(&limit))
                && asked > limited
            {
                warnings.push(format!("ResourceQuota {request} ({asked}) should be less than {limit} ({limited})"));
            }
        }
        warnings
    }

    fn update_warnings(&self, _part: Part, _new: &Object, _old: &Object) -> Vec<String> {
        Vec::new()
    }

    fn habits(&self) -> Habits {
        Habits { has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let hard = object.at(&["status", "hard"]).unwrap_or(&Value::Null);
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        let mut names: Vec<&String> = entries(hard).map(|(name, _)| name).collect();
        names.sort_unstable();
        for name in names {
            let used = object.at(&["status", "used", name]).and_then(Value::as_str).unwrap_or("0");
            let shown = format!("{name}: {used}/{}", field(hard, name));
            if name.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
        }
        vec![text(object.name()), text(requests.join(", ")), text(limits.join(", ")), age(object, now)]
    }
}

fn is_standard(name: &str) -> bool {
    resources::is_counted(name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

/// A list of amounts: names that can be counted, and amounts that there can be.
fn amounts(list: &Value, path: &Path, faults: &mut Faults) {
    for (name, amount) in entries(list) {
        let path = path.key(name);
        resources::standard_name(name, &path, faults);
        if !name.contains('/') && !is_standard(name) {
            faults.invalid(&path, name, "must be a standard resource for quota");
        }
        resources::quantity(name, Quantity::from_json(amount).unwrap_or(Quantity::ZERO), &path, faults);
    }
}

/// Whether a scope can tell apart what uses a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || OF_PODS.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn unfitting<'a>(spec: &'a Value, scope: &'a str) -> impl Iterator<Item = &'a String> {
    let names = entries(&spec["hard"]).map(|(name, _)| name);
    names.filter(move |name| is_standard(name) && !fits(scope, name))
}

fn scopes(spec: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("scopes");
    let all: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    for scope in &all {
        if !SCOPES.contains(scope) {
            faults.invalid(&path, &spec["scopes"], "unsupported scope");
        }
        for _ in unfitting(spec, scope) {
            faults.invalid(&path, &spec["scopes"], "unsupported scope applied to resource");
        }
    }
    conflicts(&all, spec, &path, faults);
}

fn conflicts(scopes: &[&str], spec: &Value, path: &Path, faults: &mut Faults) {
    for pair in OPPOSITES {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            faults.invalid(path, &spec["scopes"], "conflicting scopes");
        }
    }
}

fn scope_selector(spec: &Value, path: &Path, faults: &mut Faults) {
    const ONLY_EXISTS: [&str; 5] =
        ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    // Upstream names the entries without their index.
    let path = path.child("matchExpressions");
    let requirements = items(&spec["scopeSelector"], "matchExpressions");
    for requirement in requirements {
        let (scope, operator) = (field(requirement, "scopeName"), field(requirement, "operator"));
        let values = items(requirement, "values");
        if !SCOPES.contains(&scope) {
            faults.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in unfitting(spec, scope) {
            faults.invalid(&path, shown_selector(requirements), "unsupported scope applied to resource");
        }
        if ONLY_EXISTS.contains(&scope) && operator != "Exists" {
            faults.invalid(
                &path.child("operator"),
                operator,
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                 ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                 ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                faults.required(&path.child("values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                faults.invalid(&path.child("values"), &requirement["values"], why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
    }
    let scopes: Vec<&str> = requirements.iter().map(|requirement| field(requirement, "scopeName")).collect();
    conflicts(&scopes, spec, &path, faults);
}

/// A selector of scopes as Go writes its own form of it.
fn shown_selector(requirements: &[Value]) -> Shown {
    let one = |requirement: &Value| {
        let text = |key: &str| json!(field(requirement, key));
        let values = &requirement["values"];
        format!("{{\"ScopeName\":{},\"Operator\":{},\"Values\":{values}}}", text("scopeName"), text("operator"))
    };
    let all: Vec<String> = requirements.iter().map(one).collect();
    Shown(format!("{{\"MatchExpressions\":[{}]}}", all.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(spec: Value) -> Vec<String> {
        let mut faults = Faults::new();
        let object = Object::from_value(json!({"spec": spec})).expect("a map");
        ResourceQuotaStrategy.validate_create(&object, &mut faults);
        faults.told()
    }

    #[test]
    fn what_can_be_counted_is_known() {
        let good = json!({"hard": {"pods": "1", "count/jobs.batch": "2", "requests.nvidia.com/gpu": "1",
            "requests.cpu": "500m", "hugepages-2Mi": "4Mi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}});
        assert!(told(good).is_empty());
        assert_eq!(
            told(json!({"hard": {"pods": "1500m", "foo": "-1"}})),
            [
                "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota",
                "spec.hard[foo]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
            ]
        );
    }

    #[test]
    fn scopes_fit_what_is_counted() {
        assert_eq!(
            told(json!({"hard": {"services": "1"}, "scopes": ["BestEffort"]})),
            ["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"]
        );
        assert!(told(json!({"hard": {"count/pods": "1"}, "scopes": ["BestEffort"]})).is_empty());
        let selector = json!({"matchExpressions": [{"scopeName": "Terminating", "operator": "In", "values": ["a"]}]});
        let why = told(json!({"hard": {"configmaps": "1"}, "scopeSelector": selector}));
        assert_eq!(
            why[0],
            "spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\"Terminating\",\
             \"Operator\":\"In\",\"Values\":[\"a\"]}]}: unsupported scope applied to resource"
        );
        assert!(why[1].starts_with("spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be"));
    }

    #[test]
    fn scopes_stay_and_requests_above_limits_are_told() {
        let object = |spec: Value| Object::from_value(json!({"spec": spec})).expect("a map");
        let mut faults = Faults::new();
        let (new, old) = (object(json!({"scopes": ["BestEffort"]})), object(json!({})));
        ResourceQuotaStrategy.validate_update(Part::Main, &new, &old, &mut faults);
        assert_eq!(faults.into_causes()[0].message, "Invalid value: [\"BestEffort\"]: field is immutable");
        let hard = json!({"hard": {"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi"}});
        assert_eq!(
            ResourceQuotaStrategy.warnings(&object(hard)),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
    }
}
