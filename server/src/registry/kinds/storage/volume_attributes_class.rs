//! VolumeAttributesClass: properties that a volume can be given while it is used.

use listwatch_proto::resource::Object;

use super::parameters;
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct VolumeAttributesClassStrategy;

const COLUMNS: &[Column] =
    &[NAME, column("DriverName", "string", "Name of the CSI driver This field is immutable.", 0), AGE];

impl Strategy for VolumeAttributesClassStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.VolumeAttributesClass"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        parameters::driver(object.text(&["driverName"]), &Path::new("driverName"), faults);
        parameters::validate(object.at(&["parameters"]), false, faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        for key in ["driverName", "parameters"] {
            if new.at(&[key]) != old.at(&[key]) {
                faults.forbidden(&Path::new(key), &format!("updates to {key} are forbidden."));
            }
        }
        self.validate_create(new, faults);
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(object.text(&["driverName"])), age(object, now)]
    }
}
