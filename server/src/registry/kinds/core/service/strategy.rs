//! The strategy of Service.

use listwatch_proto::resource::Object;
use serde_json::json;

use super::allocation::ServiceAllocation;
use super::{defaults, print, validation, warnings};
use crate::registry::kinds::allocation::Allocation;
use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep, label_not_supported};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::names;
use crate::registry::table::{Cell, Column};

pub(in super::super) struct ServiceStrategy;

impl Strategy for ServiceStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Service"
    }

    fn default(&self, object: &mut Object) {
        defaults::apply(object);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".to_owned(), json!({"loadBalancer": {}}));
        defaults::drop_policy_of_name(object);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                defaults::drop_what_the_type_lacks(new, old);
            }
        }
        defaults::drop_policy_of_name(new);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validation::service(object, None, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            validation::status(new, old, faults);
        } else {
            validation::change(new, old, faults);
            validation::service(new, Some(old), faults);
        }
    }

    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        names::label(name, prefix)
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        warnings::of(object)
    }

    fn update_warnings(&self, part: Part, new: &Object, _old: &Object) -> Vec<String> {
        if part == Part::Status { warnings::of_status(new) } else { warnings::of(new) }
    }

    fn allocation(&self) -> Option<&'static dyn Allocation> {
        Some(&ServiceAllocation)
    }

    fn habits(&self) -> Habits {
        Habits { has_generation: false, allows_create_on_update: true, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn columns(&self) -> &'static [Column] {
        print::COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        print::cells(object, now)
    }
}
