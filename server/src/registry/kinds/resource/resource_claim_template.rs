//! ResourceClaimTemplate: makes a claim on devices for each pod.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::claim_spec;
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::metadata::{OwnMetadata, annotations, labels};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ResourceClaimTemplateStrategy;

const COLUMNS: &[Column] = &[NAME, AGE];

impl Strategy for ResourceClaimTemplateStrategy {
    fn schema(&self) -> &'static str {
        "resource/v1.ResourceClaimTemplate"
    }

    fn default(&self, object: &mut Object) {
        if let Some(spec) = object.0.get_mut("spec").and_then(|spec| spec.get_mut("spec")) {
            claim_spec::fill_in(spec);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let path = Path::new("spec");
        let metadata = path.child("metadata");
        let own = |key: &str| object.at(&["spec", "metadata", key]);
        annotations(own("annotations"), &metadata.child("annotations"), faults);
        labels(own("labels"), &metadata.child("labels"), faults);
        claim_spec::validate(object.at(&["spec", "spec"]).unwrap_or(&Value::Null), &path.child("spec"), faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        if new.0.get("spec") != old.0.get("spec") {
            faults.invalid(&Path::new("spec"), new.at(&["spec"]).unwrap_or(&Value::Null), "field is immutable");
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), age(object, now)]
    }
}
