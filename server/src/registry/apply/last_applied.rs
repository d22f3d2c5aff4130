//! How server-side apply by kubectl goes on from its client-side apply: what the annotation says it had set is its own,
//! and the annotation is kept up to date.

use listwatch_proto::resource::Object;
use serde_json::{Map, Value};

use super::compare::Comparison;
use super::set::FieldSet;
use super::track::Tracking;
use super::{configure, owned, validate};

/// The manager that this is done for.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Bytes of all annotations together.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// The fields that client-side apply has set and that still are as it set them.
pub(super) fn allowed(write: Tracking<'_>, live: &Map<String, Value>) -> FieldSet {
    let text = live.get("metadata").map(|metadata| &metadata["annotations"][ANNOTATION]).and_then(Value::as_str);
    let Some(Ok(applied)) = text.map(serde_json::from_str::<Value>) else { return FieldSet::default() };
    let shape = write.shape();
    if applied["apiVersion"] != write.api_version || validate::check(&applied, shape).is_err() {
        return FieldSet::default();
    }
    let mut live = live.clone();
    configure::strip(&mut live);
    let Ok(compared) = Comparison::of(&applied, &Value::Object(live), shape) else { return FieldSet::default() };
    let mut fields = owned::fields(&applied, shape);
    for differing in [&compared.modified, &compared.added, &compared.removed] {
        fields.subtract(differing);
    }
    fields
}

/// Writes the configuration into the annotation, if there is one.
pub(super) fn refresh(object: &mut Object, config: &Map<String, Value>) {
    if object.annotation(ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) =
        config.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations")).and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
    }
    // As Go writes JSON.
    let text = Value::Object(config).to_string();
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026") + "\n";
    object.set(&["metadata", "annotations", ANNOTATION], text);
    let bytes: usize = object.annotations().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        object.remove(&["metadata", "annotations", ANNOTATION]);
    }
}
