//! CustomResourceDefinition (apiextensions.k8s.io): a kind that a user defines.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::{definition_schema, definition_spec};
use crate::registry::custom::marked;
use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, text};
use crate::registry::table::{Cell, Column};

pub(super) struct CustomResourceDefinitionStrategy;

const COLUMNS: &[Column] = &[NAME, Column { name: "Created At", data_type: "date", ..AGE }];

impl Strategy for CustomResourceDefinitionStrategy {
    fn schema(&self) -> &'static str {
        "apiextensions/v1.CustomResourceDefinition"
    }

    fn default(&self, object: &mut Object) {
        let kind = object.text(&["spec", "names", "kind"]).to_owned();
        if object.text(&["spec", "names", "singular"]).is_empty() && !kind.is_empty() {
            object.set(&["spec", "names", "singular"], kind.to_lowercase());
        }
        if object.text(&["spec", "names", "listKind"]).is_empty() && !kind.is_empty() {
            object.set(&["spec", "names", "listKind"], format!("{kind}List"));
        }
        if object.at(&["spec", "conversion"]).is_none() {
            object.set(&["spec", "conversion"], json!({"strategy": "None"}));
        }
        let service = ["spec", "conversion", "webhook", "clientConfig", "service"];
        if object.at(&service).is_some_and(|service| service.is_object() && service.get("port").is_none()) {
            object.at_mut(&service)["port"] = 443.into();
        }
        store_version(object);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.set(
            &["status"],
            json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null}),
        );
        store_version(object);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        if part == Part::Status {
            keep(new, old, &["spec"]);
        } else {
            keep(new, old, &["status"]);
            add_stored_version(new);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        definition_spec::validate(object, None, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            definition_spec::status(new, faults);
        } else {
            definition_spec::validate(new, Some(old), faults);
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        unknown_formats(object).into_iter().map(|format| format!("unrecognized format {}", quote(&format))).collect()
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let known = unknown_formats(old);
        let added = unknown_formats(new).into_iter().filter(|format| !known.contains(format));
        added.map(|format| format!("unrecognized format {}", quote(&format))).collect()
    }

    fn habits(&self) -> Habits {
        Habits { allows_unconditional_update: false, ..Habits::USUAL }
    }

    fn held(&self, old: &Object, _asked: &Object, now: &str) -> Option<Object> {
        Some(marked(old, now))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(object.creation_timestamp())]
    }
}

/// Formats of its schemas that mean nothing.
fn unknown_formats(object: &Object) -> Vec<String> {
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_array);
    definition_schema::unknown_formats(versions.map_or(&[], Vec::as_slice))
}

/// The name of the version in which objects are stored.
fn storage_version(object: &Object) -> Option<String> {
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let mut storage = versions.filter(|version| version["storage"] == true);
    storage.next().and_then(|version| version["name"].as_str()).map(str::to_owned)
}

/// Where no version is said to be stored, the storage version is.
fn store_version(object: &mut Object) {
    let stored = object.at(&["status", "storedVersions"]).and_then(Value::as_array);
    if stored.is_none_or(Vec::is_empty)
        && let Some(version) = storage_version(object)
    {
        object.set(&["status", "storedVersions"], json!([version]));
    }
}

/// A new storage version is one in which objects are stored from now on.
fn add_stored_version(object: &mut Object) {
    let Some(version) = storage_version(object) else { return };
    let stored = object.at_mut(&["status", "storedVersions"]);
    match stored.as_array_mut() {
        Some(list) if list.iter().any(|own| *own == version.as_str()) => {}
        Some(list) => list.push(version.into()),
        None => *stored = json!([version]),
    }
}
