//! Lists whose items must differ: sets, and maps by their keys.

use serde_json::{Map, Value};

use super::super::kinds::{Faults, Path};
use super::schema::{Additional, Schema};

/// Every item that stands twice in a list of type `set`, or whose keys do in one of type `map`.
pub(in super::super) fn validate(value: &Value, schema: &Schema, path: &Path, faults: &mut Faults) {
    match value {
        Value::Object(fields) => {
            if let Some(Additional::Of(of)) = &schema.additional {
                fields.iter().for_each(|(name, own)| validate(own, of, &path.key(name), faults));
            }
            for (name, own) in fields {
                if let Some(of) = schema.properties.get(name) {
                    validate(own, of, &path.child(name), faults);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_str() {
                "set" => {
                    for at in repeated(items) {
                        faults.duplicate(&path.index(at), &items[at]);
                    }
                }
                "map" => map(items, schema, path, faults),
                _ => {}
            }
            if let Some(of) = &schema.items {
                items.iter().enumerate().for_each(|(i, item)| validate(item, of, &path.index(i), faults));
            }
        }
        _ => {}
    }
}

fn map(items: &[Value], schema: &Schema, path: &Path, faults: &mut Faults) {
    for (i, item) in items.iter().enumerate() {
        if !item.is_null() && !item.is_object() {
            faults.invalid(&path.index(i), item, "must be an object for an array of list-type map");
            return;
        }
    }
    let keys: Vec<Value> = items.iter().map(|item| Value::Object(keys_of(item, &schema.list_keys))).collect();
    for at in repeated(&keys) {
        faults.duplicate(&path.index(at), &keys[at]);
    }
}

/// What tells an item apart; keys that it does not have are left out.
pub(super) fn keys_of(item: &Value, keys: &[String]) -> Map<String, Value> {
    keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone()))).collect()
}

/// Where the second of equal values stands, once for each value.
fn repeated(values: &[Value]) -> Vec<usize> {
    let mut seen: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    let mut found = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults_of(schema: Value, value: Value) -> Vec<String> {
        let mut faults = Faults::new();
        validate(&value, &Schema::read(&schema), &Path::new(""), &mut faults);
        faults.told()
    }

    #[test]
    fn items_of_sets_and_maps_differ() {
        let schema = json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                    "items": {"type": "object"}}}});
        let value = json!({"set": ["x", "y", "x", "x"], "map": [{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3}]});
        assert_eq!(
            faults_of(schema.clone(), value),
            ["map[2]: Duplicate value: {\"a\":1}", "set[2]: Duplicate value: \"x\""]
        );
        assert_eq!(
            faults_of(schema, json!({"map": [1]})),
            ["map[0]: Invalid value: 1: must be an object for an array of list-type map"]
        );
    }
}
