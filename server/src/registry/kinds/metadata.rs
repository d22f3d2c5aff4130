//! The rules of `metadata`, which all kinds share (apimachinery `ValidateObjectMeta`).

use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::names;
use super::{Faults, Path, Strategy};

/// Bytes of all annotations together.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Every fault of a new object's metadata.
pub(in super::super) fn validate_new(kind: &'static Kind, rules: &dyn Strategy, object: &Object, faults: &mut Faults) {
    let path = Path::new("metadata");
    let name = object.name();
    let prefix = object.text(&["metadata", "generateName"]);
    if !prefix.is_empty() {
        faults.invalid_all(&path.child("generateName"), prefix, rules.name_faults(prefix, true));
    }
    if name.is_empty() {
        faults.required(&path.child("name"), "name or generateName is required");
    } else {
        faults.invalid_all(&path.child("name"), name, rules.name_faults(name, false));
    }
    if kind.namespaced {
        let namespace = object.namespace();
        faults.invalid_all(&path.child("namespace"), namespace, names::label(namespace, false));
    }
    if object.generation() < 0 {
        faults.invalid(&path.child("generation"), object.generation(), "must be greater than or equal to 0");
    }
    shared(object, &path, faults);
}

/// Every fault of a change of metadata.
pub(in super::super) fn validate_update(
    _kind: &'static Kind,
    _rules: &dyn Strategy,
    new: &Object,
    old: &Object,
    faults: &mut Faults,
) {
    let path = Path::new("metadata");
    for key in ["name", "namespace", "uid"] {
        let (before, after) = (old.text(&["metadata", key]), new.text(&["metadata", key]));
        if before != after {
            // Told twice, as upstream does: by the check of every update and by the kind's own.
            faults.invalid(&path.child(key), after, "field is immutable");
            faults.invalid(&path.child(key), after, "field is immutable");
        }
    }
    if old.is_terminating() {
        let added: Vec<&str> = new.finalizers().filter(|f| !old.finalizers().any(|o| o == *f)).collect();
        if !added.is_empty() {
            let list: Vec<_> = added.iter().map(|f| super::faults::quote(f)).collect();
            faults.forbidden(
                &path.child("finalizers"),
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            );
        }
    }
    shared(new, &path, faults);
}

fn shared(object: &Object, path: &Path, faults: &mut Faults) {
    labels(object.at(&["metadata", "labels"]), &path.child("labels"), faults);
    annotations(object.at(&["metadata", "annotations"]), &path.child("annotations"), faults);
    owners(object, &path.child("ownerReferences"), faults);
    finalizers(object.finalizers(), &path.child("finalizers"), faults);
}

/// A map of labels.
pub(super) fn labels(labels: Option<&Value>, path: &Path, faults: &mut Faults) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        faults.invalid_all(path, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        faults.invalid_all(path, value, names::label_value(value));
    }
}

/// A map of annotations.
pub(super) fn annotations(annotations: Option<&Value>, path: &Path, faults: &mut Faults) {
    let mut bytes = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        faults.invalid_all(path, key, names::qualified(&key.to_lowercase()));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        faults.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}

fn owners(object: &Object, path: &Path, faults: &mut Faults) {
    let list = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let mut controllers: Vec<String> = Vec::new();
    for (i, owner) in list.into_iter().flatten().enumerate() {
        let path = path.index(i);
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default().to_owned();
        if version.is_empty() {
            faults.invalid(&path.child("apiVersion"), version.as_str(), "version must not be empty");
        }
        for (key, why) in
            [("kind", "kind must not be empty"), ("name", "name must not be empty"), ("uid", "uid must not be empty")]
        {
            if text(key).is_empty() {
                faults.invalid(&path.child(key), "", why);
            }
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, rest @ ..] = controllers.as_slice()
        && let Some(second) = rest.first()
    {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        let shown = list.map_or_else(String::new, |list| Value::Array(list.clone()).to_string());
        faults.invalid(path, super::faults::Shown(shown), &why);
    }
}

fn finalizers<'a>(list: impl Iterator<Item = &'a str>, path: &Path, faults: &mut Faults) {
    let list: Vec<&str> = list.collect();
    for (i, finalizer) in list.iter().enumerate() {
        finalizer_name(finalizer, &path.index(i), path, faults);
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        let shown: Vec<_> = list.iter().map(|f| super::faults::quote(f)).collect();
        faults.invalid(path, super::faults::Shown(format!("[{}]", shown.join(","))), why);
    }
}

/// One finalizer: a qualified name, with a domain unless it is a standard one.
pub(super) fn finalizer_name(finalizer: &str, _at: &Path, path: &Path, faults: &mut Faults) {
    faults.invalid_all(path, finalizer, names::qualified(finalizer));
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        faults.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}
