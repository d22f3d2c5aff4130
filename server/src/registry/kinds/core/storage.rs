//! What volumes and claims share.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

/// An older way to name a class of storage.
pub(super) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The class of storage that an object names in the older way.
pub(super) fn storage_class_annotation(object: &Object) -> Option<&str> {
    object.annotation(STORAGE_CLASS)
}

/// Gives the spec to be filled in, of an object that is pending until its status says otherwise.
pub(super) fn begin(object: &mut Object) -> &mut Value {
    if object.text(&["status", "phase"]).is_empty() {
        object.set(&["status", "phase"], "Pending");
    }
    let spec = object.at_mut(&["spec"]);
    if !spec.is_object() {
        *spec = json!({});
    }
    spec
}

/// Puts in a finalizer that keeps an object while it is in use (upstream's StorageObjectInUseProtection admission).
pub(super) fn protect(object: &mut Object, finalizer: &str) {
    if object.finalizers().any(|own| own == finalizer) {
        return;
    }
    let list = object.at_mut(&["metadata", "finalizers"]);
    match list.as_array_mut() {
        Some(list) => list.push(Value::from(finalizer)),
        None => *list = json!([finalizer]),
    }
}
