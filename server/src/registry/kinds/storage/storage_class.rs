//! StorageClass: a kind of storage that claims can ask for.

use std::collections::{BTreeMap, BTreeSet};

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::parameters;
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items, text as field};
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct StorageClassStrategy;

/// Marks the class of claims that name none: today's way, and an older one.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

const COLUMNS: &[Column] = &[
    NAME,
    column("Provisioner", "string", "provisioner indicates the type of the provisioner.", 0),
    column(
        "ReclaimPolicy",
        "string",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
        0,
    ),
    column(
        "VolumeBindingMode",
        "string",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
        0,
    ),
    column(
        "AllowVolumeExpansion",
        "string",
        "allowVolumeExpansion shows whether the storage class allow volume expand.",
        0,
    ),
    AGE,
];

impl Strategy for StorageClassStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.StorageClass"
    }

    fn default(&self, object: &mut Object) {
        for (key, value) in [("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")] {
            if object.at(&[key]).is_none_or(Value::is_null) {
                object.set(&[key], value);
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        parameters::driver(object.text(&["provisioner"]), &Path::new("provisioner"), faults);
        parameters::validate(object.at(&["parameters"]), true, faults);
        let policy = object.text(&["reclaimPolicy"]);
        if !matches!(policy, "" | "Delete" | "Retain") {
            faults.not_supported(&Path::new("reclaimPolicy"), policy, &["Delete", "Retain"]);
        }
        let mode = object.text(&["volumeBindingMode"]);
        if !matches!(mode, "Immediate" | "WaitForFirstConsumer") {
            faults.not_supported(&Path::new("volumeBindingMode"), mode, &["Immediate", "WaitForFirstConsumer"]);
        }
        topologies(object, faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        for key in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            let (is, was) = (new.at(&[key]).unwrap_or(&Value::Null), old.at(&[key]).unwrap_or(&Value::Null));
            if is != was {
                faults.invalid(&Path::new(key), is, "field is immutable");
            }
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let mut told = Vec::new();
        for (i, term) in terms(object).iter().enumerate() {
            for (j, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
                if let Some(why) = template::warnings::old_label(field(expression, "key")) {
                    told.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {why}"));
                }
            }
        }
        told
    }

    fn habits(&self) -> Habits {
        Habits { has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let mut name = object.name().to_owned();
        if DEFAULT.iter().any(|key| object.annotation(key) == Some("true")) {
            name.push_str(" (default)");
        }
        let or = |key: &str, otherwise: &'static str| match object.text(&[key]) {
            "" => text(otherwise),
            value => text(value),
        };
        vec![
            text(name),
            text(object.text(&["provisioner"])),
            or("reclaimPolicy", "Delete"),
            or("volumeBindingMode", "Immediate"),
            Cell::Flag(object.flag(&["allowVolumeExpansion"])),
            age(object, now),
        ]
    }
}

fn terms(object: &Object) -> &[Value] {
    object.at(&["allowedTopologies"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Where volumes may be made: labels with values, no term twice.
fn topologies(object: &Object, faults: &mut Faults) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for (i, term) in terms(object).iter().enumerate() {
        let path = Path::new("allowedTopologies").index(i).child("matchLabelExpressions");
        let mut own: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (j, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
            let (path, key) = (path.index(j), field(expression, "key"));
            let values = items(expression, "values");
            if values.is_empty() {
                faults.required(&path.child("values"), "");
            }
            let mut set = BTreeSet::new();
            for (k, value) in values.iter().filter_map(Value::as_str).enumerate() {
                if !set.insert(value) {
                    faults.duplicate(&path.child("values").index(k), value);
                }
            }
            faults.invalid_all(&path.child("key"), key, names::qualified(key));
            if own.insert(key, set).is_some() {
                faults.duplicate(&path.child("key"), key);
            }
        }
        // Upstream's list of what it has seen begins with an empty place for each term.
        let empty = if own.is_empty() { terms(object).len() } else { 0 };
        for _ in 0..empty + seen.iter().filter(|other| **other == own).count() {
            faults.duplicate(&path, "");
        }
        seen.push(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(mut value: Value) -> Object {
        value["provisioner"] = "a.b/c".into();
        let mut object = Object::from_value(value).expect("a map");
        StorageClassStrategy.default(&mut object);
        object
    }

    #[test]
    fn topologies_are_judged_and_the_rest_stays() {
        let told = |new: Value, old: Value| -> Vec<String> {
            let mut faults = Faults::new();
            StorageClassStrategy.validate_update(Part::Main, &class(new), &class(old), &mut faults);
            faults.told()
        };
        let term = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]});
        assert_eq!(
            told(json!({"allowedTopologies": [term, term]}), json!({})),
            [
                "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                "allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
            ]
        );
        assert_eq!(
            told(json!({"reclaimPolicy": "Retain", "parameters": {"a": "b"}}), json!({})),
            [
                "parameters: Invalid value: {\"a\":\"b\"}: field is immutable",
                "reclaimPolicy: Invalid value: \"Retain\": field is immutable",
            ]
        );
    }
}
