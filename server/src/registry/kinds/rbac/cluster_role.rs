//! ClusterRole: what may be done in all of the cluster, or in whatever namespace it is bound in.

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::rules;
use crate::registry::kinds::strategy::{Part, Strategy, not_a_known_field};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{CREATED_AT, NAME, created_at, text};
use crate::registry::kinds::vocabulary::{names, selectors};
use crate::registry::table::{Cell, Column};

pub(super) struct ClusterRoleStrategy;

const COLUMNS: &[Column] = &[NAME, CREATED_AT];

impl Strategy for ClusterRoleStrategy {
    fn schema(&self) -> &'static str {
        "rbac/v1.ClusterRole"
    }

    fn default(&self, _object: &mut Object) {}

    fn prepare_create(&self, _object: &mut Object) -> Result<(), String> {
        Ok(())
    }

    fn prepare_update(&self, _part: Part, _new: &mut Object, _old: &Object) {}

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        rules::validate(object, false, faults);
        aggregation(object, faults);
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

/// A role that is made up of others says which.
fn aggregation(role: &Object, faults: &mut Faults) {
    let Some(rule) = role.at(&["aggregationRule"]).filter(|rule| !rule.is_null()) else { return };
    let path = Path::new("aggregationRule.clusterRoleSelectors");
    let selectors = rule["clusterRoleSelectors"].as_array().map_or(&[][..], Vec::as_slice);
    if selectors.is_empty() {
        faults.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (i, selector) in selectors.iter().enumerate() {
        let path = path.index(i);
        let before = faults.len();
        selectors::label_selector(selector, &path, faults);
        if faults.len() > before && LabelSelector::from_json(selector).is_err() {
            faults.invalid(&path, &Value::Null, "invalid label selector.");
        }
    }
}
