//! Merge patch (RFC 7386), as the library of kube-apiserver applies it (evanphx/json-patch v4), and what strict
//! validation says of a patch that is a map.

use serde_json::{Map, Value};

use crate::registry::schema::json::Node;

/// How many strict errors are told at most (apimachinery's limit).
const STRICT_MAX: usize = 100;

/// Merges a patch into a document: a null takes a key away, all but maps replace.
pub(in crate::registry) fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (document.get_mut(key), value) {
            (_, Value::Null) => {
                document.remove(key);
            }
            (Some(Value::Object(present)), Value::Object(value)) => merge(present, value),
            // What is not a map replaces a map as it stands; all else is rid of the nulls in its maps.
            (Some(present @ Value::Object(_)), value) => *present = value.clone(),
            (_, value) => {
                document.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// `duplicate field "spec.foo"` for each key that a map of the patch has twice.
pub(in crate::registry) fn duplicates(patch: &Node<'_>) -> Vec<String> {
    let mut found = Vec::new();
    look(patch, &mut String::new(), &mut found);
    found.truncate(STRICT_MAX);
    found
}

fn look(node: &Node<'_>, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match node {
        Node::Object(fields) => {
            let mut seen = std::collections::HashSet::with_capacity(fields.len());
            for (key, value) in fields {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                if !seen.insert(key) {
                    found.push(format!("duplicate field \"{path}\""));
                }
                look(value, path, found);
                path.truncate(length);
            }
        }
        Node::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                path.push_str(&format!("[{i}]"));
                look(item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(document: Value, patch: Value) -> Value {
        let (Value::Object(mut document), Value::Object(patch)) = (document, patch) else { panic!("maps") };
        merge(&mut document, &patch);
        Value::Object(document)
    }

    #[test]
    fn maps_merge_nulls_remove_and_all_else_replaces() {
        let document = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "x", "m": {"k": "v"}});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [{"x": null, "y": null}], "s": {"t": null},
            "m": [{"x": null}], "n": null});
        let expected = json!({"a": {"c": 2, "d": {"f": 1}}, "l": [{}], "s": {}, "m": [{"x": null}]});
        assert_eq!(merged(document, patch), expected);
    }

    #[test]
    fn keys_that_stand_twice_are_told_with_their_paths() {
        let node = Node::parse(br#"{"a":{"b":1,"b":2},"l":[{"x":1},{"x":1,"x":2}],"a":{}}"#).expect("JSON");
        let expected = ["duplicate field \"a.b\"", "duplicate field \"l[1].x\"", "duplicate field \"a\""];
        assert_eq!(duplicates(&node), expected);
    }
}
