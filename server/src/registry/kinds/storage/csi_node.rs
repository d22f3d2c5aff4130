//! CSINode: the storage drivers of a node.

use std::collections::HashSet;

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct CSINodeStrategy;

/// Characters of the id that a driver gives a node.
const NODE_ID_MAX: usize = 256;

const COLUMNS: &[Column] =
    &[NAME, column("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node", 0), AGE];

impl Strategy for CSINodeStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.CSINode"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let mut seen = HashSet::new();
        for (i, driver) in drivers(object).iter().enumerate() {
            let path = Path::new("spec.drivers").index(i);
            validate_driver(driver, &path, faults);
            if !seen.insert(field(driver, "name")) {
                faults.duplicate(&path.child("name"), field(driver, "name"));
            }
            topology_keys(driver, &path, faults);
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        // But for how many volumes it takes, a driver stays what it was.
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            driver.as_object_mut().map(|map| map.remove("allocatable"));
            driver
        };
        for was in drivers(old) {
            for is in drivers(new).iter().filter(|is| is["name"] == was["name"]) {
                if fixed(is) != fixed(was) {
                    faults.invalid(&Path::new("spec.drivers"), &fixed(is), "field is immutable");
                }
            }
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_unconditional_update: false,
            tells_what_it_deleted: true,
            ..Habits::USUAL
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let count = i64::try_from(drivers(object).len()).unwrap_or(i64::MAX);
        vec![text(object.name()), Cell::Int(count), age(object, now)]
    }
}

fn drivers(object: &Object) -> &[Value] {
    object.at(&["spec", "drivers"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn validate_driver(driver: &Value, path: &Path, faults: &mut Faults) {
    template::persistent_source::driver(field(driver, "name"), &path.child("name"), faults);
    let (id, at) = (field(driver, "nodeID"), path.child("nodeID"));
    if id.is_empty() {
        faults.required(&at, "");
    }
    if id.len() > NODE_ID_MAX {
        faults.invalid(&at, id, &format!("must be {NODE_ID_MAX} characters or less"));
    }
    if let Some(count) = driver["allocatable"]["count"].as_i64().filter(|count| *count < 0) {
        faults.invalid(&path.child("allocatable").child("count"), count, "must be greater than or equal to 0");
    }
}

fn topology_keys(driver: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    // Upstream names the driver, not the key.
    for key in items(driver, "topologyKeys").iter().filter_map(Value::as_str) {
        if key.is_empty() {
            faults.required(path, "");
        }
        if !seen.insert(key) {
            faults.duplicate(path, key);
        }
        faults.invalid_all(path, key, names::qualified(key));
    }
}
