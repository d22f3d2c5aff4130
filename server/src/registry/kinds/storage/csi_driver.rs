//! CSIDriver (storage.k8s.io).

use listwatch_proto::resource::Object;

use super::super::super::table::{Cell, Column};
use super::super::faults::Faults;
use super::super::names;
use super::super::print::{AGE, NAME, age, text};
use super::super::strategy::{Part, Strategy, not_a_known_field};

pub(super) struct CSIDriverStrategy;

const COLUMNS: &[Column] = &[NAME, AGE];

impl Strategy for CSIDriverStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.CSIDriver"
    }

    fn default(&self, _object: &mut Object) {}

    fn prepare_create(&self, _object: &mut Object) -> Result<(), String> {
        Ok(())
    }

    fn prepare_update(&self, _part: Part, _new: &mut Object, _old: &Object) {}

    fn validate_create(&self, _object: &Object, _faults: &mut Faults) {}

    fn validate_update(&self, _part: Part, _new: &Object, _old: &Object, _faults: &mut Faults) {}

    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain(name, prefix)
    }

    fn unknown_field(&self, path: &str) -> String {
        not_a_known_field(path)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), age(object, now)]
    }
}
