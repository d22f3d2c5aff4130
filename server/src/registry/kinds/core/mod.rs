//! The kinds of the API group `core`, a file each.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

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

/// An older way to name a class of storage.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of storage that an object names in the older way.
fn storage_class_annotation(object: &Object) -> Option<&str> {
    object.annotation(STORAGE_CLASS)
}

/// Puts in a finalizer that keeps an object while it is in use (upstream's StorageObjectInUseProtection admission).
fn protect(object: &mut Object, finalizer: &str) {
    if object.finalizers().any(|own| own == finalizer) {
        return;
    }
    let list = object.at_mut(&["metadata", "finalizers"]);
    match list.as_array_mut() {
        Some(list) => list.push(Value::from(finalizer)),
        None => *list = json!([finalizer]),
    }
}
