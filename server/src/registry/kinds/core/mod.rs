//! The kinds of the API group `core`, a file each.

use super::strategy::Strategy;

mod binding;
mod endpoints;
mod key_pair;
mod limit_range;
mod persistent_volume;
mod persistent_volume_claim;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;
mod storage;

use storage::{STORAGE_CLASS, protect, storage_class_annotation};

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "Binding" => &binding::BindingStrategy,
        "Endpoints" => &endpoints::EndpointsStrategy,
        "LimitRange" => &limit_range::LimitRangeStrategy,
        "PersistentVolume" => &persistent_volume::PersistentVolumeStrategy,
        "PersistentVolumeClaim" => &persistent_volume_claim::PersistentVolumeClaimStrategy,
        "PodTemplate" => &pod_template::PodTemplateStrategy,
        "ReplicationController" => &replication_controller::ReplicationControllerStrategy,
        "ResourceQuota" => &resource_quota::ResourceQuotaStrategy,
        "Secret" => &secret::SecretStrategy,
        "Service" => &service::ServiceStrategy,
        "ServiceAccount" => &service_account::ServiceAccountStrategy,
        _ => return None,
    })
}
