//! LimitRange: what pods, containers and claims of a namespace may ask for, and what those get that ask for nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use listwatch_proto::resource::{Object, Quantity};
use serde_json::{Map, Value};

use crate::registry::kinds::strategy::{Habits, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, items_mut, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{CREATED_AT, NAME, created_at, text};
use crate::registry::kinds::vocabulary::{names, resources};
use crate::registry::table::{Cell, Column};

pub(super) struct LimitRangeStrategy;

const COLUMNS: &[Column] = &[NAME, CREATED_AT];
/// The types that need no domain.
const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
/// Above this, amounts are compared in whole units (Kubernetes 1.36, `resource.MaxMilliValue`).
const MILLI_MAX: i64 = i64::MAX / 1000;

impl Strategy for LimitRangeStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.LimitRange"
    }

    fn default(&self, object: &mut Object) {
        let Some(spec) = object.0.get_mut("spec") else { return };
        for limit in items_mut(spec, "limits").iter_mut().filter(|limit| field(limit, "type") == "Container") {
            // A maximum is a default limit, a default limit a default request, and a minimum where there is none.
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                fill_in(limit, from, to);
            }
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        // A limit without a name gets one of its own.
        if object.name().is_empty() && object.text(&["metadata", "generateName"]).is_empty() {
            object.set(&["metadata", "name"], uuid::Uuid::new_v4().to_string());
        }
        Ok(())
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let path = Path::new("spec.limits");
        let mut types = HashSet::new();
        let limits = object.at(&["spec", "limits"]).and_then(Value::as_array);
        for (i, limit) in limits.into_iter().flatten().enumerate() {
            let path = path.index(i);
            let of = field(limit, "type");
            type_name(of, &path.child("type"), faults);
            if !types.insert(of) {
                faults.duplicate(&path.child("type"), of);
            }
            validate_limit(limit, of, &path, faults);
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_create_on_update: true,
            ..Habits::USUAL
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        vec![text(object.name()), created_at(object)]
    }
}

/// Copies the amounts of one list into another where that has none.
fn fill_in(limit: &mut Value, from: &str, to: &str) {
    let Some(source) = limit[from].as_object().filter(|map| !map.is_empty()).cloned() else { return };
    if !limit[to].is_object() {
        limit[to] = Value::Object(Map::new());
    }
    if let Some(target) = limit[to].as_object_mut() {
        for (name, amount) in source {
            target.entry(name).or_insert(amount);
        }
    }
}

fn type_name(of: &str, path: &Path, faults: &mut Faults) {
    let wrong = names::qualified(of);
    if wrong.is_empty() && !of.contains('/') && !TYPES.contains(&of) {
        faults.invalid(path, of, "must be a standard limit type or fully qualified");
    }
    faults.invalid_all(path, of, wrong);
}

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// One limit: its names, and that its amounts do not contradict each other.
fn validate_limit(limit: &Value, of: &str, path: &Path, faults: &mut Faults) {
    let read = |key: &str, faults: &mut Faults| -> Amounts<'_> {
        let mut amounts = Amounts::new();
        for (name, amount) in entries(&limit[key]) {
            let path = path.child(key).key(name);
            match of {
                "Pod" | "Container" => resources::container_resource_name(name, &path, faults),
                _ => resources::standard_name(name, &path, faults),
            }
            amounts.insert(name, Quantity::from_json(amount).unwrap_or(Quantity::ZERO));
        }
        amounts
    };
    let (max, min) = (read("max", faults), read("min", faults));
    let (mut default, mut request) = (Amounts::new(), Amounts::new());
    if of == "Pod" {
        for key in ["default", "defaultRequest"] {
            if entries(&limit[key]).next().is_some() {
                faults.forbidden(&path.child(key), "may not be specified when `type` is 'Pod'");
            }
        }
    } else {
        default = read("default", faults);
        request = read("defaultRequest", faults);
    }
    if of == "PersistentVolumeClaim" && !min.contains_key("storage") && !max.contains_key("storage") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        faults.required(&path.child("limits"), why);
    }
    let ratio = read("maxLimitRequestRatio", faults);
    let names: BTreeSet<&str> =
        [&max, &min, &default, &request, &ratio].into_iter().flat_map(|list| list.keys().copied()).collect();
    for name in names {
        let of = |list: &Amounts<'_>| list.get(name).copied();
        let bounds = Bounds { min: of(&min), max: of(&max), default: of(&default), request: of(&request) };
        bounds.validate(name, path, faults);
        if let Some(ratio) = of(&ratio) {
            bounds.validate_ratio(ratio, &path.child("maxLimitRequestRatio").key(name), faults);
        }
        if let (Some(default), Some(request)) = (bounds.default, bounds.request)
            && !resources::may_exceed(name)
            && default != request
        {
            let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
            faults.invalid(&path.child("defaultRequest").key(name), request, &why);
        }
    }
}

/// What a limit says of one resource.
struct Bounds {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
}

impl Bounds {
    fn validate(&self, name: &str, path: &Path, faults: &mut Faults) {
        let at = |key: &str| path.child(key).key(name);
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            faults.invalid(&at("min"), min, &format!("min value {min} is greater than max value {max}"));
        }
        if let Some(request) = self.request {
            let at = at("defaultRequest");
            if let Some(min) = self.min.filter(|min| *min > request) {
                let why = format!("min value {min} is greater than default request value {request}");
                faults.invalid(&at, request, &why);
            }
            if let Some(max) = self.max.filter(|max| request > *max) {
                let why = format!("default request value {request} is greater than max value {max}");
                faults.invalid(&at, request, &why);
            }
            if let Some(default) = self.default.filter(|default| request > *default) {
                let why = format!("default request value {request} is greater than default limit value {default}");
                faults.invalid(&at, request, &why);
            }
        }
        if let Some(default) = self.default {
            let at = at("default");
            if let Some(min) = self.min.filter(|min| *min > default) {
                faults.invalid(&at, min, &format!("min value {min} is greater than default value {default}"));
            }
            if let Some(max) = self.max.filter(|max| default > *max) {
                faults.invalid(&at, max, &format!("default value {default} is greater than max value {max}"));
            }
        }
    }

    /// A ratio of limit to request is at least one, and within what minimum and maximum allow.
    fn validate_ratio(&self, ratio: Quantity, at: &Path, faults: &mut Faults) {
        if ratio < Quantity::units(1) {
            faults.invalid(at, ratio, &format!("ratio {ratio} is less than 1"));
        }
        let (Some(min), Some(max)) = (self.min, self.max) else { return };
        let fine = [ratio, min, max].iter().all(|amount| amount.value() < MILLI_MAX);
        let number = |amount: Quantity| if fine { amount.milli_value() } else { amount.value() } as f64;
        let asked = if fine { number(ratio) / 1000.0 } else { number(ratio) };
        let allowed = number(max) / number(min);
        if asked > allowed {
            faults.invalid(at, ratio, &format!("ratio {ratio} is greater than max/min = {allowed:.6}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(limit: Value) -> Object {
        let mut object = Object::from_value(json!({"spec": {"limits": [limit]}})).expect("a map");
        LimitRangeStrategy.default(&mut object);
        object
    }

    fn told(limit: Value) -> Vec<String> {
        let mut faults = Faults::new();
        LimitRangeStrategy.validate_create(&object(limit), &mut faults);
        faults.told()
    }

    #[test]
    fn limits_of_containers_fill_in_what_is_left_out() {
        let filled = object(json!({
            "type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "default": {"cpu": "1"}, "min": {"cpu": "1m"},
        }));
        let limit = &filled.at(&["spec", "limits"]).expect("limits")[0];
        assert_eq!(limit["default"], json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(limit["defaultRequest"], json!({"cpu": "1", "memory": "1Gi"}));
        let of_pods = object(json!({"type": "Pod", "max": {"cpu": "2"}}));
        assert!(of_pods.at(&["spec", "limits"]).expect("limits")[0].get("default").is_none());
    }

    #[test]
    fn contradictions_are_told() {
        assert!(told(json!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}})).is_empty());
        assert_eq!(
            told(json!({"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}})),
            [
                "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"2\": min value 3 is greater than default request \
                 value 2",
                "spec.limits[0].default[cpu]: Invalid value: \"3\": min value 3 is greater than default value 2",
            ]
        );
        assert_eq!(
            told(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "10"}, "min": {"cpu": "1"},
                "max": {"cpu": "2"}})),
            ["spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"10\": ratio 10 is greater than max/min = \
                 2.000000"]
        );
        assert_eq!(
            told(json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}})),
            ["spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1"]
        );
        assert_eq!(
            told(json!({"type": "PersistentVolumeClaim"})),
            [
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither \
                 was provided"
            ]
        );
        assert_eq!(
            told(json!({"type": "Node"})),
            ["spec.limits[0].type: Invalid value: \"Node\": must be a standard limit type or fully qualified"]
        );
    }
}
