//! Role: what may be done in a namespace.

use listwatch_proto::resource::Object;

use super::rules;
use crate::registry::kinds::strategy::{Part, Strategy, not_a_known_field};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{CREATED_AT, NAME, created_at, text};
use crate::registry::table::{Cell, Column};

pub(super) struct RoleStrategy;

const COLUMNS: &[Column] = &[NAME, CREATED_AT];

impl Strategy for RoleStrategy {
    fn schema(&self) -> &'static str {
        "rbac/v1.Role"
    }

    fn default(&self, _object: &mut Object) {}

    fn prepare_create(&self, _object: &mut Object) -> Result<(), String> {
        Ok(())
    }

    fn prepare_update(&self, _part: Part, _new: &mut Object, _old: &Object) {}

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        rules::validate(object, true, faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, _old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
    }

    fn own_metadata(&self) -> OwnMetadata {
        OwnMetadata::Whole
    }

    fn name_faults(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::whole_path_segment(name)
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn unknown_field(&self, path: &str) -> String {
        not_a_known_field(path)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        vec![text(object.name()), created_at(object)]
    }
}
