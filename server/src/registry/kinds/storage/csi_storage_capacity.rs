//! CSIStorageCapacity: how much storage of a class there is somewhere.

use listwatch_proto::resource::{Object, Quantity};
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, items, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{NAME, column, text};
use crate::registry::kinds::vocabulary::{names, selectors};
use crate::registry::table::{Cell, Column};

pub(super) struct CSIStorageCapacityStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "StorageClassName",
        "string",
        "storageClassName represents the name of the StorageClass that the reported capacity applies to. It must meet the same requirements as the name of a StorageClass object (non-empty, DNS subdomain). If that object no longer exists, the CSIStorageCapacity object is obsolete and should be removed by its creator. This field is immutable.",
        0,
    ),
    column(
        "Capacity",
        "string",
        "capacity is the value reported by the CSI driver in its GetCapacityResponse for a GetCapacityRequest with topology and parameters that match the previous fields.\n\nThe semantic is currently (CSI spec 1.2) defined as: The available capacity, in bytes, of the storage that can be used to provision volumes. If not set, that information is currently unavailable.",
        0,
    ),
];

impl Strategy for CSIStorageCapacityStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.CSIStorageCapacity"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let topology = object.at(&["nodeTopology"]).unwrap_or(&Value::Null);
        selectors::label_selector(topology, &Path::new("nodeTopology"), faults);
        let class = object.text(&["storageClassName"]);
        faults.invalid_all(&Path::new("storageClassName"), class, names::subdomain(class, false));
        let capacity = object.at(&["capacity"]).and_then(|amount| Quantity::from_json(amount).ok());
        if let Some(capacity) = capacity.filter(|amount| amount.is_negative()) {
            faults.invalid(&Path::new("capacity"), capacity, "must be greater than or equal to 0");
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        for key in ["nodeTopology", "storageClassName"] {
            let (is, was) = (new.at(&[key]).unwrap_or(&Value::Null), old.at(&[key]).unwrap_or(&Value::Null));
            if is != was {
                faults.invalid(&Path::new(key), is, "field is immutable");
            }
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let topology = object.at(&["nodeTopology"]).unwrap_or(&Value::Null);
        let mut told = Vec::new();
        for (i, expression) in items(topology, "matchExpressions").iter().enumerate() {
            let key = field(expression, "key");
            if let Some(why) = template::warnings::old_label(key) {
                told.push(format!("nodeTopology.matchExpressions[{i}].key: {key} is {why}"));
            }
        }
        for (key, _) in entries(&topology["matchLabels"]) {
            if let Some(why) = template::warnings::old_label(key) {
                told.push(format!("nodeTopology.matchLabels.{key}: {why}"));
            }
        }
        told
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_unconditional_update: false,
            ..Habits::USUAL
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        let capacity = match object.text(&["capacity"]) {
            "" => "<unset>",
            capacity => capacity,
        };
        vec![text(object.name()), text(object.text(&["storageClassName"])), text(capacity)]
    }
}
