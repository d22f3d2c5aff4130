//! A structural schema in memory.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::formats;

/// A schema, or a part of one. What judges values stands here beside what gives them their structure.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Schema {
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`; empty = any.
    pub(in super::super) kind: String,
    /// Whether null is a value.
    pub(in super::super) nullable: bool,
    /// What stands in place of what was left out.
    pub(in super::super) default: Option<Value>,
    /// The fields of an object.
    pub(in super::super) properties: BTreeMap<String, Schema>,
    /// What other fields an object may have.
    pub(in super::super) additional: Option<Additional>,
    /// What the items of a list are.
    pub(in super::super) items: Option<Box<Schema>>,
    /// Whether what is not named stays.
    pub(in super::super) preserves: bool,
    /// Whether it is a whole object with apiVersion, kind and metadata.
    pub(in super::super) embedded: bool,
    /// Whether a value is a whole number or a text.
    pub(in super::super) int_or_string: bool,
    /// `set`, `map`, `atomic`; empty = atomic.
    pub(in super::super) list_type: String,
    /// The fields that tell items of a `map` list apart.
    pub(in super::super) list_keys: Vec<String>,
    /// `granular`, `atomic`; empty = granular.
    pub(in super::super) map_type: String,
    /// What is asked of values beside their type.
    pub(super) asks: Asks,
}

/// What other fields an object may have.
#[derive(Clone, Debug)]
pub(in super::super) enum Additional {
    /// Any or none.
    Allowed(bool),
    /// Those of a schema.
    Of(Box<Schema>),
}

/// What is asked of values beside their type.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    /// Empty = none, or one that is not supported.
    pub(super) format: String,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_length: Option<i64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) max_items: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) unique_items: bool,
    pub(super) max_properties: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) required: Vec<String>,
    pub(super) one_of_values: Vec<Value>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
}

/// A pattern; one that does not compile matches nothing and says why.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) compiled: Result<Regex, String>,
}

impl Schema {
    /// Reads a schema (`JSONSchemaProps` as JSON in the form that the registry stores).
    pub(in super::super) fn read(json: &Value) -> Schema {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let flag = |key: &str| json[key].as_bool().unwrap_or(false);
        let list_keys = json["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
        let additional = match &json["additionalProperties"] {
            Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            Value::Object(_) => Some(Additional::Of(Box::new(Schema::read(&json["additionalProperties"])))),
            _ => None,
        };
        let properties = json["properties"].as_object();
        Schema {
            kind: text("type"),
            nullable: flag("nullable"),
            default: json.get("default").filter(|value| !value.is_null()).cloned(),
            properties: properties.into_iter().flatten().map(|(k, v)| (k.clone(), Schema::read(v))).collect(),
            additional,
            items: json.get("items").filter(|items| items.is_object()).map(|items| Box::new(Schema::read(items))),
            preserves: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list_type: text("x-kubernetes-list-type"),
            list_keys: list_keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            map_type: text("x-kubernetes-map-type"),
            asks: Asks::read(json),
        }
    }

    /// The types a value may have, as the validator sees them.
    pub(super) fn types(&self) -> Vec<&str> {
        match () {
            () if self.int_or_string => vec!["integer", "string"],
            () if self.kind.is_empty() => Vec::new(),
            () => vec![self.kind.as_str()],
        }
    }

    /// The schema of a field.
    pub(in super::super) fn field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(schema), _) => Some(schema),
            (None, Some(Additional::Of(schema))) => Some(schema),
            (None, _) => None,
        }
    }
}

impl Asks {
    fn read(json: &Value) -> Asks {
        let flag = |key: &str| json[key].as_bool().unwrap_or(false);
        let schemas = |key: &str| json[key].as_array().into_iter().flatten().map(Schema::read).collect();
        let kind = json["type"].as_str().unwrap_or_default();
        let ambiguous = json["x-kubernetes-int-or-string"] == true;
        let format = json["format"].as_str().unwrap_or_default();
        let pattern = json["pattern"].as_str().filter(|text| !text.is_empty()).map(|text| Pattern {
            text: text.to_owned(),
            compiled: Regex::new(text).map_err(|error| error.to_string()),
        });
        Asks {
            format: if formats::is_supported(if ambiguous { "" } else { kind }, format) {
                format.to_owned()
            } else {
                String::new()
            },
            maximum: json["maximum"].as_f64(),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: json["minimum"].as_f64(),
            exclusive_minimum: flag("exclusiveMinimum"),
            multiple_of: json["multipleOf"].as_f64(),
            max_length: json["maxLength"].as_i64(),
            min_length: json["minLength"].as_i64(),
            pattern,
            max_items: json["maxItems"].as_i64(),
            min_items: json["minItems"].as_i64(),
            unique_items: flag("uniqueItems"),
            max_properties: json["maxProperties"].as_i64(),
            min_properties: json["minProperties"].as_i64(),
            required: json["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            one_of_values: json["enum"].as_array().cloned().unwrap_or_default(),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: json.get("not").filter(|not| not.is_object()).map(|not| Box::new(Schema::read(not))),
        }
    }
}
