//! The kinds of the API group `rbac.authorization.k8s.io`, a file each.

use super::strategy::Strategy;

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;
mod role_ref;
mod rules;
mod subjects;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "ClusterRole" => &cluster_role::ClusterRoleStrategy,
        "ClusterRoleBinding" => &cluster_role_binding::ClusterRoleBindingStrategy,
        "Role" => &role::RoleStrategy,
        "RoleBinding" => &role_binding::RoleBindingStrategy,
        _ => return None,
    })
}
