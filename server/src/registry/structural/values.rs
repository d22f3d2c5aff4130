//! JSON as values of CEL, in the light of the schema: times and durations where the format says so, and fields by the names
//! that rules use for them (Kubernetes 1.36).

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::{CompiledSchema, SchemaFormat};
use serde_json::Value as Json;

/// Words of CEL, which cannot be names of fields.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A value of CEL; `parse` turns a text into a `timestamp` or a `duration`, if it is one.
pub(super) fn value_of(
    json: &Json,
    schema: Option<&CompiledSchema>,
    parse: &mut dyn FnMut(&str, &str) -> Option<Value>,
) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(own) => Value::Bool(*own),
        Json::Number(own) => number(own),
        Json::String(own) => text(own, schema, parse),
        Json::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            Value::List(Arc::new(items.iter().map(|item| value_of(item, below, parse)).collect()))
        }
        Json::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (name, own) in fields {
                let below =
                    schema.and_then(|schema| schema.properties.get(name).or(schema.additional_properties.as_deref()));
                // Keys of maps are data, not names.
                let is_key = schema.is_some_and(|schema| schema.is_map);
                let name = if is_key { name.clone() } else { escaped(name) };
                map.insert(key(name), value_of(own, below, parse));
            }
            if schema.is_some_and(|schema| schema.embedded_resource) {
                for name in ["apiVersion", "kind"] {
                    map.entry(key(name.to_owned())).or_insert_with(|| Value::String(Arc::default()));
                }
                map.entry(key("metadata".to_owned())).or_insert_with(|| Value::Map(Map { map: Arc::default() }));
            }
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

fn number(own: &serde_json::Number) -> Value {
    match (own.as_i64(), own.as_u64()) {
        (Some(own), _) => Value::Int(own),
        (None, Some(own)) => Value::UInt(own),
        (None, None) => Value::Float(own.as_f64().unwrap_or(f64::NAN)),
    }
}

fn text(own: &str, schema: Option<&CompiledSchema>, parse: &mut dyn FnMut(&str, &str) -> Option<Value>) -> Value {
    let parsed = match schema.map(|schema| &schema.format) {
        Some(SchemaFormat::DateTime) => parse("timestamp", own),
        Some(SchemaFormat::Duration) => parse("duration", own),
        Some(SchemaFormat::Bytes) => {
            base64::engine::general_purpose::STANDARD.decode(own).ok().map(|bytes| Value::Bytes(Arc::new(bytes)))
        }
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::String(Arc::new(own.to_owned())))
}

/// The name of a field in rules: `a-b` is `a__dash__b`.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '_' => escaped.push_str("__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c => escaped.push(c),
        }
    }
    escaped
}
