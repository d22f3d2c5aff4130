//! Binding: puts a pod on a node. Not kept; what it does stands in `registry/pods/binding.rs`.

use listwatch_proto::resource::{Kind, Object};

use crate::registry::kinds::strategy::{Part, Strategy};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::print::{NAME, text};
use crate::registry::table::{Cell, Column};

pub(super) struct BindingStrategy;

const COLUMNS: &[Column] = &[NAME];

impl Strategy for BindingStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Binding"
    }

    fn stands_for(&self) -> Option<(&'static Kind, &'static str)> {
        let pods = Kind::by_api_version("v1", "Pod").expect("Pod is a served kind");
        Some((pods, "binding"))
    }

    fn validate_create(&self, _object: &Object, _faults: &mut Faults) {}

    fn validate_update(&self, _part: Part, _new: &Object, _old: &Object, _faults: &mut Faults) {}

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        vec![text(object.name())]
    }
}
