//! Role and ClusterRole: what may be done in a namespace, and in all of the cluster or wherever it is bound.

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::rules;
use crate::registry::kinds::strategy::{Habits, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{CREATED_AT, NAME, created_at, text};
use crate::registry::kinds::vocabulary::{names, selectors};
use crate::registry::table::{Cell, Column};

/// The rules of the two kinds, which differ in where they reach.
pub(super) struct RoleStrategy {
    schema: &'static str,
    namespaced: bool,
}

pub(super) const ROLE: RoleStrategy = RoleStrategy { schema: "rbac/v1.Role", namespaced: true };
pub(super) const CLUSTER_ROLE: RoleStrategy = RoleStrategy { schema: "rbac/v1.ClusterRole", namespaced: false };

const COLUMNS: &[Column] = &[NAME, CREATED_AT];

impl Strategy for RoleStrategy {
    fn schema(&self) -> &'static str {
        self.schema
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        rules::validate(object, self.namespaced, faults);
        if !self.namespaced {
            aggregation(object, faults);
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_create_on_update: true,
            ..Habits::USUAL
        }
    }

    fn name_faults(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::whole_path_segment(name)
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
