//! What structs and fields mean, and which values they may have: the words of the OpenAPI documents, which kubectl
//! explains by.
//!
//! Written by `examples/schema_words.rs` from the documents of a Kubernetes release, beside the tables, and read anew
//! each time documents are made, so that nothing of them stays in memory. Their form, one line each:
//!
//! ```text
//! core/v1.Taint "The node this Taint is attached to …"     a struct, its description as JSON
//!   effect "Required. …" enum=["NoSchedule"] ref=NAME        a field; ref= names the form of a field that may hold any JSON
//! ```
//!
//! Invariant: the documents say of a field what Kubernetes says, or nothing.

use std::collections::HashMap;

use serde_json::Value;

const WORDS: &[&str] = &[
    include_str!("words/apiextensions_v1.txt"),
    include_str!("words/apps_v1.txt"),
    include_str!("words/authentication_v1.txt"),
    include_str!("words/authorization_v1.txt"),
    include_str!("words/autoscaling_v1.txt"),
    include_str!("words/autoscaling_v2.txt"),
    include_str!("words/batch_v1.txt"),
    include_str!("words/certificates_v1.txt"),
    include_str!("words/coordination_v1.txt"),
    include_str!("words/core_v1.txt"),
    include_str!("words/discovery_v1.txt"),
    include_str!("words/events_v1.txt"),
    include_str!("words/meta_v1.txt"),
    include_str!("words/networking_v1.txt"),
    include_str!("words/node_v1.txt"),
    include_str!("words/policy_v1.txt"),
    include_str!("words/rbac_v1.txt"),
    include_str!("words/resource_v1.txt"),
    include_str!("words/scheduling_v1.txt"),
    include_str!("words/storage_v1.txt"),
];

/// What is said of a struct.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What it is; empty = nothing is said.
    pub(super) description: String,
    fields: HashMap<&'static str, Field>,
}

/// What is said of a field.
#[derive(Debug, Default)]
pub(super) struct Field {
    /// What it is; empty = nothing is said.
    pub(super) description: String,
    /// The values that it, or what a list or map of it holds, may have; none = any.
    pub(super) values: Vec<Value>,
    /// The schema of what may hold any JSON.
    pub(super) refers: Option<&'static str>,
}

/// All that is said.
#[derive(Debug)]
pub(crate) struct Words(HashMap<&'static str, Told>);

impl Words {
    /// Reads the words; they are part of the program, so a fault in them is one of the build.
    pub(crate) fn read() -> Words {
        let mut told: HashMap<&'static str, Told> = HashMap::new();
        let mut current = "";
        for line in WORDS.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#')) {
            let (name, rest) = line.trim_start().split_once(' ').unwrap_or((line, ""));
            let (description, rest) = text(rest);
            if line.starts_with(' ') {
                let mut field = Field { description, ..Field::default() };
                if let Some((_, values)) = rest.split_once(" enum=") {
                    let mut values = serde_json::Deserializer::from_str(values).into_iter::<Vec<Value>>();
                    field.values = values.next().and_then(Result::ok).unwrap_or_default();
                }
                field.refers = rest.split_once(" ref=").map(|(_, name)| name);
                told.entry(current).or_default().fields.insert(name, field);
            } else {
                current = name;
                told.entry(name).or_default().description = description;
            }
        }
        Words(told)
    }

    /// What is said of a struct.
    pub(super) fn of(&self, name: &str) -> Option<&Told> {
        self.0.get(name)
    }

    /// What is said of a field of a struct.
    pub(super) fn field(&self, of: &str, name: &str) -> Option<&Field> {
        let own = self.of(of).and_then(|told| told.fields.get(name));
        // These two mean the same in every object.
        own.or_else(|| if matches!(name, "kind" | "apiVersion") { self.of(OBJECTS)?.fields.get(name) } else { None })
    }
}

/// Where is said what kind and apiVersion mean.
const OBJECTS: &str = "object";

/// The JSON text at the beginning, and what follows.
fn text(line: &'static str) -> (String, &'static str) {
    let mut values = serde_json::Deserializer::from_str(line).into_iter::<String>();
    let text = values.next().and_then(Result::ok).unwrap_or_default();
    (text, line.get(values.byte_offset()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::table::schema;
    use super::*;

    #[test]
    fn every_struct_and_field_of_the_tables_is_told_of() {
        let words = Words::read();
        let embedded: std::collections::HashSet<&str> =
            schema().all().flat_map(|found| &found.fields).filter_map(|field| field.embedded).collect();
        let mut silent = Vec::new();
        // What stands in others is told of there.
        for found in schema().all().filter(|found| !embedded.contains(super::super::table::bare(found.name))) {
            if words.of(found.name).is_none() {
                silent.push(found.name.to_owned());
                continue;
            }
            let fields = found.fields.iter().filter(|field| words.field(found.name, field.name).is_none());
            silent.extend(fields.map(|field| format!("{}.{}", found.name, field.name)));
        }
        assert_eq!(silent, [] as [String; 0]);
    }

    #[test]
    fn descriptions_values_and_forms_are_read() {
        let words = Words::read();
        let effect = words.field("core/v1.Taint", "effect").expect("told of");
        assert!(effect.description.starts_with("Required. The effect of the taint on pods"));
        assert_eq!(effect.values, ["NoExecute", "NoSchedule", "PreferNoSchedule"]);
        let fields = words.field("meta/v1.ManagedFieldsEntry", "fieldsV1").expect("told of");
        assert_eq!(fields.refers, Some("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"));
        let kind = words.field("core/v1.Pod", "kind").expect("told of");
        assert!(kind.description.starts_with("Kind is a string value representing the REST resource"));
    }
}
