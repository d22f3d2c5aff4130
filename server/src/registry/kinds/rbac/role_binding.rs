//! RoleBinding and ClusterRoleBinding: give somebody a role in a namespace, and in all of the cluster.

use listwatch_proto::resource::Object;

use super::{role_ref, subjects};
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

/// The rules of the two kinds, which differ in where they reach.
pub(super) struct BindingStrategy {
    schema: &'static str,
    namespaced: bool,
    /// The kinds of role that can be given.
    roles: &'static [&'static str],
    columns: &'static [Column],
}

pub(super) const ROLE_BINDING: BindingStrategy = BindingStrategy {
    schema: "rbac/v1.RoleBinding",
    namespaced: true,
    roles: &["Role", "ClusterRole"],
    columns: &[
        NAME,
        column(
            "Role",
            "string",
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
            0,
        ),
        AGE,
        column("Users", "string", "Users in the roleBinding", 1),
        column("Groups", "string", "Groups in the roleBinding", 1),
        column("ServiceAccounts", "string", "ServiceAccounts in the roleBinding", 1),
    ],
};

pub(super) const CLUSTER_ROLE_BINDING: BindingStrategy = BindingStrategy {
    schema: "rbac/v1.ClusterRoleBinding",
    namespaced: false,
    roles: &["ClusterRole"],
    columns: &[
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
    ],
};

impl Strategy for BindingStrategy {
    fn schema(&self) -> &'static str {
        self.schema
    }

    fn default(&self, object: &mut Object) {
        role_ref::default(object);
        subjects::default(object);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        role_ref::validate(object, self.roles, faults);
        subjects::validate(object, self.namespaced, faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        role_ref::unchanged(new, old, faults);
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
        self.columns
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let [users, groups, accounts] = subjects::cells(object);
        vec![text(object.name()), text(role_ref::shown(object)), age(object, now), users, groups, accounts]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn binding(value: Value) -> Object {
        let mut object = Object::from_value(value).expect("a map");
        ROLE_BINDING.default(&mut object);
        object
    }

    fn told(faults: Faults) -> Vec<String> {
        faults.told()
    }

    #[test]
    fn groups_are_filled_in_and_what_cannot_be_bound_is_told() {
        let good = binding(json!({
            "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"},
            ],
            "roleRef": {"kind": "Role", "name": "r"},
        }));
        let mut faults = Faults::new();
        ROLE_BINDING.validate_create(&good, &mut faults);
        assert!(told(faults).is_empty());
        assert_eq!(good.text(&["roleRef", "apiGroup"]), "rbac.authorization.k8s.io");
        let bad = binding(json!({
            "subjects": [{"kind": "Robot", "name": ""}, {"kind": "ServiceAccount", "name": "S", "apiGroup": "x"}],
            "roleRef": {"kind": "Pod", "name": "a/b"},
        }));
        let mut faults = Faults::new();
        ROLE_BINDING.validate_create(&bad, &mut faults);
        let told = told(faults);
        assert_eq!(told[0], "roleRef.kind: Unsupported value: \"Pod\": supported values: \"Role\", \"ClusterRole\"");
        assert_eq!(told[1], "roleRef.name: Invalid value: \"a/b\": may not contain '/'");
        assert_eq!(told[2], "subjects[0].name: Required value");
        assert!(told[3].starts_with("subjects[0].kind: Unsupported value: \"Robot\""), "{told:?}");
        assert!(told[4].starts_with("subjects[1].name: Invalid value: \"S\": a lowercase RFC 1123"), "{told:?}");
        assert_eq!(told[5], "subjects[1].apiGroup: Unsupported value: \"x\": supported values: \"\"");
    }

    #[test]
    fn the_role_stays() {
        let old = binding(json!({"roleRef": {"kind": "Role", "name": "r"}}));
        let new = binding(json!({"roleRef": {"kind": "Role", "name": "other"}}));
        let mut faults = Faults::new();
        ROLE_BINDING.validate_update(Part::Main, &new, &old, &mut faults);
        assert_eq!(
            told(faults),
            [
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"other\"}: \
              cannot change roleRef"
            ]
        );
    }
}
