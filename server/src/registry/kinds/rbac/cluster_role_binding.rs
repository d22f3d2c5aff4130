//! ClusterRoleBinding: gives somebody a role in all of the cluster.

use listwatch_proto::resource::Object;

use super::{role_ref, subjects};
use crate::registry::kinds::strategy::{Part, Strategy, not_a_known_field};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ClusterRoleBindingStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Role",
        "string",
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
        0,
    ),
    AGE,
    column("Users", "string", "Users in the clusterRoleBinding", 1),
    column("Groups", "string", "Groups in the clusterRoleBinding", 1),
    column("ServiceAccounts", "string", "ServiceAccounts in the clusterRoleBinding", 1),
];

impl Strategy for ClusterRoleBindingStrategy {
    fn schema(&self) -> &'static str {
        "rbac/v1.ClusterRoleBinding"
    }

    fn default(&self, object: &mut Object) {
        role_ref::default(object);
        subjects::default(object);
    }

    fn prepare_create(&self, _object: &mut Object) -> Result<(), String> {
        Ok(())
    }

    fn prepare_update(&self, _part: Part, _new: &mut Object, _old: &Object) {}

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        role_ref::validate(object, &["ClusterRole"], faults);
        subjects::validate(object, false, faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        role_ref::unchanged(new, old, faults);
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

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let [users, groups, accounts] = subjects::cells(object);
        vec![text(object.name()), text(role_ref::shown(object)), age(object, now), users, groups, accounts]
    }
}
