//! PersistentVolumeClaim: asks for storage.

use listwatch_proto::resource::{Object, Quantity};
use serde_json::{Value, json};

use super::{STORAGE_CLASS, begin, protect, storage_class_annotation};
use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::template::claim_spec::access_modes_shown;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::kinds::vocabulary::{difference, names, resources};
use crate::registry::table::{Cell, Column};

pub(super) struct PersistentVolumeClaimStrategy;

/// Keeps a claim while a pod uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";
const ONLY: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
    claims\n";
/// How far a change of size has come.
const RESIZING: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "phase represents the current phase of PersistentVolumeClaim.", 0),
    column("Volume", "string", "volumeName is the binding reference to the PersistentVolume backing this claim.", 0),
    column("Capacity", "string", "capacity represents the actual resources of the underlying volume.", 0),
    column(
        "Access Modes",
        "string",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
        0,
    ),
    column("StorageClass", "string", "StorageClass of the pvc", 0),
    column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pvc", 0),
    AGE,
    column(
        "VolumeMode",
        "string",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is implied when not included in claim spec.",
        1,
    ),
];

impl Strategy for PersistentVolumeClaimStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.PersistentVolumeClaim"
    }

    fn default(&self, object: &mut Object) {
        let spec = begin(object);
        template::claim_spec::fill_in(spec);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"phase": "Pending"}));
        template::claim_spec::unite_sources(object.at_mut(&["spec"]), None);
        protect(object, PROTECTION);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        if part == Part::Status {
            keep(new, old, &["spec"]);
        } else {
            keep(new, old, &["status"]);
            template::claim_spec::unite_sources(new.at_mut(&["spec"]), old.at(&["spec"]));
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        template::claim_spec::validate(object.at(&["spec"]).unwrap_or(&Value::Null), &Path::new("spec"), faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            validate_status(new, faults);
            return;
        }
        self.validate_create(new, faults);
        validate_change(new, old, faults);
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let old_class = object.annotation(STORAGE_CLASS).map(|_| {
            format!(
                "metadata.annotations[{STORAGE_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            )
        });
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        old_class.into_iter().chain(template::claim_spec::warnings(spec, &Path::new("spec"))).collect()
    }

    fn update_warnings(&self, part: Part, new: &Object, _old: &Object) -> Vec<String> {
        if part == Part::Status { Vec::new() } else { self.warnings(new) }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let null = Value::Null;
        let (spec, status) = (object.at(&["spec"]).unwrap_or(&null), object.at(&["status"]).unwrap_or(&null));
        let phase = if object.is_terminating() { "Terminating" } else { field(status, "phase") };
        let volume = field(spec, "volumeName");
        let (capacity, modes) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            let capacity = status["capacity"]["storage"].as_str().unwrap_or("0");
            (capacity.to_owned(), access_modes_shown(status.get("accessModes")))
        };
        let or_unset = |key: &str| text(spec[key].as_str().unwrap_or("<unset>"));
        vec![
            text(object.name()),
            text(phase),
            text(volume),
            text(capacity),
            text(modes),
            text(storage_class_annotation(object).unwrap_or_else(|| field(spec, "storageClassName"))),
            or_unset("volumeAttributesClassName"),
            age(object, now),
            or_unset("volumeMode"),
        ]
    }
}

/// Every fault of a change of the spec: but for the size and the attributes of a bound claim it stays.
fn validate_change(new: &Object, old: &Object, faults: &mut Faults) {
    let null = Value::Null;
    let (is, mut was) = (new.at(&["spec"]).unwrap_or(&null), old.at(&["spec"]).cloned().unwrap_or_default());
    // Claims of older versions have the source in one form only.
    template::claim_spec::unite_sources(&mut was, old.at(&["spec"]));
    let (mut now, mut before) = (is.clone(), was.clone());
    if field(&was, "volumeName").is_empty() {
        put(&mut before, "volumeName", &now["volumeName"]);
    }
    let (class, old_class) = (is["storageClassName"].as_str(), was["storageClassName"].as_str());
    let (noted, old_noted) = (new.annotation(STORAGE_CLASS), old.annotation(STORAGE_CLASS));
    let from_annotation =
        old_class.is_none() && class.is_some() && class == old_noted && (noted.is_none() || noted == old_noted);
    if from_annotation {
        put(&mut now, "storageClassName", &null);
    } else {
        if noted.unwrap_or_default() != old_noted.unwrap_or_default() {
            let at = Path::new("metadata.annotations").child(STORAGE_CLASS);
            faults.invalid(&at, noted.unwrap_or_default(), "field is immutable");
        }
        // A claim without a class may be given one later.
        if class.is_some() && old_class.is_none() && (old_noted.is_none() || old_noted == class) {
            put(&mut now, "storageClassName", &before["storageClassName"]);
        }
    }
    if new.text(&["status", "phase"]) == "Bound" {
        if now["resources"]["requests"].is_object() {
            now["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        }
        put(&mut now, "volumeAttributesClassName", &before["volumeAttributesClassName"]);
    }
    if in_numbers(&now) != in_numbers(&before) {
        faults.forbidden(&Path::new("spec"), &format!("{ONLY}{}", difference::unified(&before, &now)));
    }
    let amount = |value: &Value| Quantity::from_json(value).unwrap_or(Quantity::ZERO);
    let size = |spec: &Value| amount(&spec["resources"]["requests"]["storage"]);
    let held = amount(old.at(&["status", "capacity", "storage"]).unwrap_or(&null));
    if size(is) < size(&was) && size(is) <= held {
        let at = Path::new("spec.resources.requests.storage");
        faults.forbidden(&at, "field can not be less than status.capacity");
    }
    if is["volumeMode"] != was["volumeMode"] {
        faults.invalid(&Path::new("volumeMode"), &is["volumeMode"], "field is immutable");
    }
    attributes_class(is, &was, old, faults);
}

/// Once a volume has a class of attributes, its claim names one.
fn attributes_class(is: &Value, was: &Value, old: &Object, faults: &mut Faults) {
    const KEY: &str = "volumeAttributesClassName";
    if is[KEY] == was[KEY] || old.at(&["status", "currentVolumeAttributesClassName"]).is_none_or(Value::is_null) {
        return;
    }
    let what = match is[KEY].as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    faults.forbidden(&Path::new("spec").child(KEY), &why);
}

fn put(spec: &mut Value, key: &str, value: &Value) {
    if let Some(map) = spec.as_object_mut() {
        match value {
            Value::Null => drop(map.remove(key)),
            value => drop(map.insert(key.to_owned(), value.clone())),
        }
    }
}

/// The spec with amounts as numbers, so that `1Gi` is what `1073741824` is.
fn in_numbers(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for key in ["requests", "limits"] {
        let list = spec.get_mut("resources").and_then(|r| r.get_mut(key)).and_then(Value::as_object_mut);
        for amount in list.into_iter().flat_map(serde_json::Map::values_mut) {
            if let Ok(quantity) = Quantity::from_json(amount) {
                *amount = quantity.nanos().to_string().into();
            }
        }
    }
    spec
}

fn validate_status(new: &Object, faults: &mut Faults) {
    let status = new.at(&["status"]).unwrap_or(&Value::Null);
    let path = Path::new("status");
    let amount = |value: &Value| Quantity::from_json(value).unwrap_or(Quantity::ZERO);
    let basic = |value: &Value, path: &Path, faults: &mut Faults| {
        let value = amount(value).value();
        if value < 0 {
            faults.invalid(path, value, "must be a valid resource quantity");
        }
        value >= 0
    };
    for (name, value) in entries(&status["capacity"]) {
        basic(value, &path.child("capacity").key(name), faults);
    }
    let at = path.child("allocatedResourceStatuses");
    for (name, state) in entries(&status["allocatedResourceStatuses"]) {
        resource_key(name, &at, faults);
        if !state.as_str().is_some_and(|state| RESIZING.contains(&state)) {
            let mut sorted = RESIZING;
            sorted.sort_unstable();
            faults.not_supported(&at, name, &sorted);
        }
    }
    let at = path.child("allocatedResources");
    for (name, value) in entries(&status["allocatedResources"]) {
        if resource_key(name, &at, faults) && basic(value, &at.key(name), faults) {
            resources::quantity("storage", amount(value), &at.key(name), faults);
        }
    }
}

/// Whether a claim can have this.
fn resource_key(name: &str, path: &Path, faults: &mut Faults) -> bool {
    let before = faults.len();
    faults.invalid_all(path, name, names::qualified(name));
    if faults.len() == before && resources::is_native(name) && name != "storage" {
        faults.not_supported(path, name, &["storage"]);
    }
    faults.len() == before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(more: &[(&[&str], Value)]) -> Object {
        let mut object = Object::from_value(json!({
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }))
        .expect("a map");
        PersistentVolumeClaimStrategy.default(&mut object);
        for (path, value) in more {
            object.set(path, value.clone());
        }
        object
    }

    fn told(new: &Object, old: &Object) -> Vec<String> {
        let mut faults = Faults::new();
        PersistentVolumeClaimStrategy.validate_update(Part::Main, new, old, &mut faults);
        let causes = faults.into_causes().into_iter();
        causes.map(|c| format!("{}: {}", c.field, c.message.lines().next().unwrap_or_default())).collect()
    }

    const SIZE: &[&str] = &["spec", "resources", "requests", "storage"];
    const ONLY_BOUND: &str = "spec: Forbidden: spec is immutable after creation except resources.requests and \
        volumeAttributesClassName for bound claims";

    #[test]
    fn a_bound_claim_may_grow_and_nothing_else() {
        let (old, larger) = (claim(&[]), claim(&[(SIZE, json!("2Gi"))]));
        assert_eq!(told(&larger, &old), [ONLY_BOUND]);
        assert!(told(&claim(&[(SIZE, json!("1073741824"))]), &old).is_empty(), "the same number is no change");
        const PHASE: &[&str] = &["status", "phase"];
        let bound = |size: &str| claim(&[(PHASE, json!("Bound")), (SIZE, json!(size))]);
        assert!(told(&bound("2Gi"), &bound("1Gi")).is_empty());
        let mut held = bound("2Gi");
        held.set(&["status", "capacity", "storage"], "1Gi");
        assert!(told(&bound("1500Mi"), &held).is_empty(), "what was not reached may be taken back");
        assert_eq!(
            told(&bound("1Gi"), &held),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
    }

    #[test]
    fn a_class_may_come_later_and_a_volume_once() {
        let old = claim(&[]);
        assert!(told(&claim(&[(&["spec", "storageClassName"], json!("z"))]), &old).is_empty());
        let on_volume = claim(&[(&["spec", "volumeName"], json!("v"))]);
        assert!(told(&on_volume, &old).is_empty());
        assert_eq!(told(&old, &on_volume), [ONLY_BOUND]);
        let block = told(&claim(&[(&["spec", "volumeMode"], json!("Block"))]), &old);
        assert_eq!(block, [ONLY_BOUND, "volumeMode: Invalid value: \"Block\": field is immutable"]);
    }
}
