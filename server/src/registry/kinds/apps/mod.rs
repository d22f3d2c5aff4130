//! The kinds of the API group `apps`, a file each.

use super::strategy::Strategy;

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;
mod workload;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "ControllerRevision" => &controller_revision::ControllerRevisionStrategy,
        "DaemonSet" => &daemon_set::DaemonSetStrategy,
        "Deployment" => &deployment::DeploymentStrategy,
        "ReplicaSet" => &replica_set::ReplicaSetStrategy,
        "StatefulSet" => &stateful_set::StatefulSetStrategy,
        _ => return None,
    })
}
