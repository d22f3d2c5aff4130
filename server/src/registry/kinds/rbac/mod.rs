//! The kinds of the API group `rbac.authorization.k8s.io`. A kind and its twin of the cluster are one file.

use super::strategy::Strategy;

mod role;
mod role_binding;
mod role_ref;
mod rules;
mod subjects;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "ClusterRole" => &role::CLUSTER_ROLE,
        "ClusterRoleBinding" => &role_binding::CLUSTER_ROLE_BINDING,
        "Role" => &role::ROLE,
        "RoleBinding" => &role_binding::ROLE_BINDING,
        _ => return None,
    })
}
