//! The kinds of the API group `core`, a file each.

use super::strategy::Strategy;

mod binding;
mod component_status;
mod config_map;
mod endpoints;
pub(super) mod event;
mod key_pair;
mod keyed;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;
mod storage;

use storage::{STORAGE_CLASS, begin, protect, storage_class_annotation};

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "Binding" => &binding::BindingStrategy,
        "ComponentStatus" => &component_status::ComponentStatusStrategy,
        "ConfigMap" => &config_map::ConfigMapStrategy,
        "Endpoints" => &endpoints::EndpointsStrategy,
        "Event" => &event::EventStrategy,
        "LimitRange" => &limit_range::LimitRangeStrategy,
        "Namespace" => &namespace::NamespaceStrategy,
        "Node" => &node::NodeStrategy,
        "PersistentVolume" => &persistent_volume::PersistentVolumeStrategy,
        "PersistentVolumeClaim" => &persistent_volume_claim::PersistentVolumeClaimStrategy,
        "Pod" => &pod::PodStrategy,
        "PodTemplate" => &pod_template::PodTemplateStrategy,
        "ReplicationController" => &replication_controller::ReplicationControllerStrategy,
        "ResourceQuota" => &resource_quota::ResourceQuotaStrategy,
        "Secret" => &secret::SecretStrategy,
        "Service" => &service::ServiceStrategy,
        "ServiceAccount" => &service_account::ServiceAccountStrategy,
        _ => return None,
    })
}
