//! The rules of `metadata`, which all kinds share (apimachinery `ValidateObjectMeta`).

use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::faults::Shown;
use super::names;
use crate::registry::kinds::strategy::Part;
use crate::registry::kinds::{Faults, Path, Strategy};

/// Bytes of all annotations together.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// How a kind's own rules look at metadata, beside the checks that every write gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnMetadata {
    /// A change is judged as a change and as a new object.
    Whole,
    /// A change is judged as a new object.
    Fresh,
    /// A change is judged as a change.
    Change,
    /// The same, and finalizers need no domain.
    Plain,
    /// They do not look at it.
    None,
}

/// Every fault of a new object's metadata.
pub(in crate::registry) fn validate_new(
    kind: &'static Kind,
    rules: &dyn Strategy,
    object: &Object,
    faults: &mut Faults,
) {
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
    finalizers(object.finalizers(), &path.child("finalizers"), faults);
    if matches!(rules.habits().own_metadata, OwnMetadata::Whole | OwnMetadata::Fresh | OwnMetadata::Change) {
        standard_finalizers(object.finalizers(), &path.child("finalizers"), faults);
    }
}

/// Every fault of the metadata of an object that stands inside of another one.
pub(in crate::registry) fn validate_object_metadata(
    metadata: &serde_json::Map<String, Value>,
    path: &Path,
    faults: &mut Faults,
) {
    let mut object = Object::default();
    object.set(&["metadata"], Value::Object(metadata.clone()));
    for (key, text) in [("generateName", object.text(&["metadata", "generateName"])), ("name", object.name())] {
        faults.invalid_all(&path.child(key), text, names::path_segment(text));
    }
    if !object.namespace().is_empty() {
        faults.invalid_all(&path.child("namespace"), object.namespace(), names::label(object.namespace(), false));
    }
    if object.generation() < 0 {
        faults.invalid(&path.child("generation"), object.generation(), "must be greater than or equal to 0");
    }
    shared(&object, path, faults);
    finalizers(object.finalizers(), &path.child("finalizers"), faults);
    standard_finalizers(object.finalizers(), &path.child("finalizers"), faults);
}

/// Every fault of a change of metadata. Each round of checks tells its own, so that some are told several times, as
/// upstream does: every update is checked as a new object and as a change, and then by the kind's own rules.
pub(in crate::registry) fn validate_update(
    kind: &'static Kind,
    rules: &dyn Strategy,
    part: Part,
    new: &Object,
    old: &Object,
    faults: &mut Faults,
) {
    let path = Path::new("metadata");
    let prefix = new.text(&["metadata", "generateName"]);
    faults.invalid_all(&path.child("generateName"), prefix, names::path_segment(prefix));
    shared(new, &path, faults);
    finalizers(new.finalizers(), &path.child("finalizers"), faults);
    change(new, old, &path, faults);
    let own = rules.habits().own_metadata;
    if own == OwnMetadata::None {
        return;
    }
    if own == OwnMetadata::Fresh {
        validate_new(kind, rules, new, faults);
        return;
    }
    change(new, old, &path, faults);
    if own != OwnMetadata::Plain {
        standard_finalizers(new.finalizers(), &path.child("finalizers"), faults);
    }
    if own == OwnMetadata::Whole && part != Part::Status {
        validate_new(kind, rules, new, faults);
    }
}

/// What makes a change of metadata a wrong one.
fn change(new: &Object, old: &Object, path: &Path, faults: &mut Faults) {
    for key in ["name", "namespace", "uid"] {
        let (before, after) = (old.text(&["metadata", key]), new.text(&["metadata", key]));
        if before != after {
            faults.invalid(&path.child(key), after, "field is immutable");
        }
    }
    if old.is_terminating() {
        let mut added: Vec<&str> = new.finalizers().filter(|f| !old.finalizers().any(|o| o == *f)).collect();
        added.sort_unstable();
        if !added.is_empty() {
            let list: Vec<_> = added.iter().map(super::faults::quote).collect();
            faults.forbidden(
                &path.child("finalizers"),
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            );
        }
    }
    shared(new, path, faults);
}

fn shared(object: &Object, path: &Path, faults: &mut Faults) {
    labels(object.at(&["metadata", "labels"]), &path.child("labels"), faults);
    annotations(object.at(&["metadata", "annotations"]), &path.child("annotations"), faults);
    owners(object, &path.child("ownerReferences"), faults);
}

/// A map of labels.
pub(in crate::registry::kinds) fn labels(labels: Option<&Value>, path: &Path, faults: &mut Faults) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        faults.invalid_all(path, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        faults.invalid_all(path, value, names::label_value(value));
    }
}

/// A map of annotations.
pub(in crate::registry::kinds) fn annotations(annotations: Option<&Value>, path: &Path, faults: &mut Faults) {
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
    let mut controller: Option<String> = None;
    // Upstream names the entries without their index.
    for owner in list.into_iter().flatten() {
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let (group, version) = match text("apiVersion").split('/').collect::<Vec<_>>()[..] {
            [version] => ("", version),
            [group, version] => (group, version),
            _ => ("", ""),
        };
        if version.is_empty() {
            faults.invalid(&path.child("apiVersion"), text("apiVersion"), "version must not be empty");
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                faults.invalid(&path.child(key), "", "must not be empty");
            }
        }
        if (group, version, text("kind")) == ("", "v1", "Event") {
            faults.invalid(path, shown_owner(owner), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            let own = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(own),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {own}"
                    );
                    let all: Vec<_> = list.into_iter().flatten().map(|owner| shown_owner(owner).0).collect();
                    faults.invalid(path, Shown(format!("[{}]", all.join(","))), &why);
                }
            }
        }
    }
}

/// An owner as Go writes it: in the order in which the fields are declared.
fn shown_owner(owner: &Value) -> Shown {
    let keys = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields: Vec<_> =
        keys.iter().filter(|key| !owner[**key].is_null()).map(|key| format!("\"{key}\":{}", owner[*key])).collect();
    Shown(format!("{{{}}}", fields.join(",")))
}

fn finalizers<'a>(list: impl Iterator<Item = &'a str>, path: &Path, faults: &mut Faults) {
    let list: Vec<&str> = list.collect();
    for finalizer in &list {
        faults.invalid_all(path, finalizer, names::qualified(finalizer));
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        let shown: Vec<_> = list.iter().map(super::faults::quote).collect();
        faults.invalid(path, Shown(format!("[{}]", shown.join(","))), why);
    }
}

fn standard_finalizers<'a>(list: impl Iterator<Item = &'a str>, path: &Path, faults: &mut Faults) {
    for (i, finalizer) in list.enumerate() {
        standard_finalizer(finalizer, &path.index(i), faults);
    }
}

/// A finalizer without a domain is one of the standard ones.
fn standard_finalizer(finalizer: &str, path: &Path, faults: &mut Faults) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        faults.invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// One finalizer of a namespace's spec: a qualified name, with a domain unless it is a standard one.
pub(in crate::registry::kinds) fn finalizer_name(finalizer: &str, path: &Path, faults: &mut Faults) {
    faults.invalid_all(path, finalizer, names::qualified(finalizer));
    standard_finalizer(finalizer, path, faults);
}
