//! JSON patch (RFC 6902), as the library of kube-apiserver applies it (evanphx/json-patch v4).
//!
//! It is laxer than the RFC: `replace` of an absent key adds it, `test` for null passes where there is nothing, negative
//! indices count from the end, and what stands before the first slash of a path is not looked at.

use listwatch_proto::resource::{Reason, Status};
use serde_json::{Map, Value};

use crate::registry::body::BODY_BYTES_MAX;
use crate::registry::schema::json::Node;

/// How many operations a patch may have (Kubernetes 1.36).
const OPERATIONS_MAX: usize = 10_000;

/// The fields of an operation.
const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// A patch, read.
#[derive(Debug)]
pub(in crate::registry) struct JsonPatch(Vec<Map<String, Value>>);

/// An operation does not apply; kube-apiserver does not say why.
#[derive(Debug, PartialEq, Eq)]
struct Inapplicable;

impl JsonPatch {
    /// Reads a patch, and what strict validation has to say of it.
    ///
    /// # Errors
    /// `BadRequest` for what is no list of operations, `RequestEntityTooLarge` for too many of them.
    pub(in crate::registry) fn read(node: &Node<'_>, lax: bool) -> Result<(Self, Vec<String>), Status> {
        let (list, one) = if lax {
            ("jsonpatch.Patch", "jsonpatch.Operation")
        } else {
            ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
        };
        let refused = |found: &Node<'_>, wanted: &str| {
            let prefix = if lax { "" } else { "error decoding patch: " };
            Status::bad_request(format!(
                "{prefix}json: cannot unmarshal {} into Go value of type {wanted}",
                found.go_kind()
            ))
        };
        let items = match node {
            Node::Null => &[][..],
            Node::Array(items) => items,
            other => return Err(refused(other, list)),
        };
        let (mut operations, mut strict) = (Vec::with_capacity(items.len()), Vec::new());
        for (i, item) in items.iter().enumerate() {
            match item {
                Node::Null => operations.push(Map::new()),
                Node::Object(fields) => {
                    for (at, (key, value)) in fields.iter().enumerate() {
                        let twice = fields[..at].iter().any(|(other, _)| other == key);
                        if !FIELDS.contains(&&**key) {
                            strict.push(format!("json patch unknown field \"[{i}].{key}\""));
                        } else if twice {
                            strict.push(format!("json patch duplicate field \"[{i}].{key}\""));
                        }
                        if !lax && FIELDS[..3].contains(&&**key) && !matches!(value, Node::String(_) | Node::Null) {
                            let field = format!("Go struct field jsonPatchOp.{key} of type string");
                            return Err(Status::bad_request(format!(
                                "error decoding patch: json: cannot unmarshal {} into {field}",
                                value.go_kind()
                            )));
                        }
                    }
                    let Value::Object(operation) = item.to_value() else { continue };
                    operations.push(operation);
                }
                other => return Err(refused(other, one)),
            }
        }
        if operations.len() > OPERATIONS_MAX {
            let message =
                format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", operations.len());
            return Err(Status::new(Reason::RequestEntityTooLarge, message));
        }
        Ok((JsonPatch(operations), strict))
    }

    /// Whether one of its operations is on this path.
    pub(in crate::registry) fn touches(&self, path: &str) -> bool {
        self.0.iter().any(|operation| operation.get("path").and_then(Value::as_str) == Some(path))
    }

    /// A tree of the keys on the way to what the operations change.
    pub(in crate::registry) fn touched(&self) -> Value {
        let mut tree = Value::Object(Map::new());
        let paths = self.0.iter().flat_map(|operation| ["path", "from"].map(|key| operation.get(key)));
        for path in paths.flatten().filter_map(Value::as_str) {
            let keys: Vec<String> = path.split('/').skip(1).map(unescaped).collect();
            let mut at = &mut tree;
            for key in &keys[..keys.len().saturating_sub(1)] {
                if !at[key.as_str()].is_object() {
                    at[key.as_str()] = Value::Object(Map::new());
                }
                at = &mut at[key.as_str()];
            }
        }
        tree
    }

    /// Applies the operations in order.
    ///
    /// # Errors
    /// `Invalid` when one does not apply.
    pub(in crate::registry) fn apply(&self, document: &mut Value) -> Result<(), Status> {
        let mut copied = 0;
        for operation in &self.0 {
            apply_one(operation, document, &mut copied).map_err(|Inapplicable| {
                Status::new(Reason::Invalid, "the server rejected our request due to an error in our request")
            })?;
        }
        Ok(())
    }
}

fn apply_one(operation: &Map<String, Value>, document: &mut Value, copied: &mut usize) -> Result<(), Inapplicable> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).ok_or(Inapplicable);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match text("op")? {
        "add" => add(document, text("path")?, value()),
        "remove" => remove(document, text("path")?).map(drop),
        "replace" => replace(document, text("path")?, value()),
        "move" => {
            let (from, path) = (text("from")?, text("path"));
            let moved = remove(document, from)?;
            add(document, path?, moved)
        }
        "copy" => {
            let (from, path) = (text("from")?, text("path")?);
            let (parent, key) = parent_of(document, from)?;
            let source = child(parent, &key)?.cloned().unwrap_or(Value::Null);
            // Copies of copies must not grow without bound.
            *copied += source.to_string().len();
            if *copied > BODY_BYTES_MAX {
                return Err(Inapplicable);
            }
            add(document, path, source)
        }
        "test" => test(document, text("path")?, operation.get("value")),
        _ => Err(Inapplicable),
    }
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The map or list that a path ends in, and the key in it.
fn parent_of<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Inapplicable> {
    let parts: Vec<&str> = path.split('/').collect();
    let [_, between @ .., key] = parts.as_slice() else { return Err(Inapplicable) };
    let mut parent = document;
    for part in between {
        let part = unescaped(part);
        parent = match parent {
            Value::Object(map) => map.get_mut(&part).ok_or(Inapplicable)?,
            Value::Array(items) => {
                let at = index(&part, items.len())?;
                &mut items[at]
            }
            _ => return Err(Inapplicable),
        };
    }
    if parent.is_object() || parent.is_array() { Ok((parent, unescaped(key))) } else { Err(Inapplicable) }
}

/// The place of an item that there is.
fn index(text: &str, length: usize) -> Result<usize, Inapplicable> {
    let at: i64 = text.parse().map_err(|_| Inapplicable)?;
    let length = i64::try_from(length).map_err(|_| Inapplicable)?;
    let at = if at < 0 { at + length } else { at };
    if (0..length).contains(&at) { usize::try_from(at).map_err(|_| Inapplicable) } else { Err(Inapplicable) }
}

/// What stands under a key: a map may have nothing there, a list must.
fn child<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, Inapplicable> {
    match parent {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => Ok(Some(&items[index(key, items.len())?])),
        _ => Err(Inapplicable),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    match parent_of(document, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        // An item may be put behind the last one too.
        (Value::Array(items), key) => {
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, Inapplicable> {
    match parent_of(document, path)? {
        (Value::Object(map), key) => map.remove(&key).ok_or(Inapplicable),
        (Value::Array(items), key) => {
            let at = index(&key, items.len())?;
            Ok(items.remove(at))
        }
        _ => Err(Inapplicable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Inapplicable> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Inapplicable);
        }
        *document = value;
        return Ok(());
    }
    match parent_of(document, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(items), key) => {
            let at = index(&key, items.len())?;
            items[at] = value;
        }
        _ => return Err(Inapplicable),
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, wanted: Option<&Value>) -> Result<(), Inapplicable> {
    let found = if path.is_empty() {
        Some(&*document)
    } else {
        let (parent, key) = parent_of(document, path)?;
        child(parent, &key)?
    };
    let passes = match found {
        None | Some(Value::Null) => wanted.is_none_or(Value::is_null),
        Some(found) => Some(found) == wanted,
    };
    if passes { Ok(()) } else { Err(Inapplicable) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(document: Value, patch: &str) -> Result<Value, String> {
        let node = Node::parse(patch.as_bytes()).expect("JSON");
        let (patch, _) = JsonPatch::read(&node, false).map_err(|s| s.message)?;
        let mut document = document;
        patch.apply(&mut document).map_err(|s| s.message)?;
        Ok(document)
    }

    const REJECTED: &str = "the server rejected our request due to an error in our request";

    #[test]
    fn operations_change_maps_and_lists() {
        let document = json!({"a": {"b": 1}, "l": [1, 2, 3], "x/y": 1, "m~n": 2});
        for (patch, path, expected) in [
            (r#"[{"op":"add","path":"/a/c","value":2}]"#, "/a", json!({"b": 1, "c": 2})),
            (r#"[{"op":"replace","path":"/a/c","value":2}]"#, "/a", json!({"b": 1, "c": 2})),
            (r#"[{"op":"remove","path":"/a/b"}]"#, "/a", json!({})),
            (r#"[{"op":"add","path":"/l/-","value":4}]"#, "/l", json!([1, 2, 3, 4])),
            (r#"[{"op":"add","path":"/l/1","value":9}]"#, "/l", json!([1, 9, 2, 3])),
            (r#"[{"op":"add","path":"/l/3","value":9}]"#, "/l", json!([1, 2, 3, 9])),
            (r#"[{"op":"remove","path":"/l/-1"}]"#, "/l", json!([1, 2])),
            (r#"[{"op":"replace","path":"/l/0","value":{"z":[]}}]"#, "/l/0/z", json!([])),
            (r#"[{"op":"move","from":"/a/b","path":"/c"}]"#, "/c", json!(1)),
            (r#"[{"op":"copy","from":"/a","path":"/a/self"}]"#, "/a/self", json!({"b": 1})),
            (r#"[{"op":"copy","from":"/none","path":"/n"}]"#, "/n", json!(null)),
            (r#"[{"op":"test","path":"/none","value":null},{"op":"test","path":"/none"}]"#, "/a", json!({"b": 1})),
            (r#"[{"op":"replace","path":"/x~1y","value":5},{"op":"remove","path":"/m~0n"}]"#, "/x~1y", json!(5)),
            (r#"[{"op":"add","path":"a/k","value":1}]"#, "/k", json!(1)),
            (r#"[{"op":"replace","path":"","value":{"q":1}}]"#, "", json!({"q": 1})),
            ("null", "/a", json!({"b": 1})),
        ] {
            let new = patched(document.clone(), patch).expect(patch);
            assert_eq!(new.pointer(path), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn what_does_not_apply_is_rejected_without_a_word() {
        for patch in [
            r#"[{"op":"add"}]"#,
            r#"[{"path":"/a"}]"#,
            r#"[{"op":"add","path":"","value":{}}]"#,
            r#"[{"op":"add","path":"/none/x","value":1}]"#,
            r#"[{"op":"add","path":"/a/b/c","value":1}]"#,
            r#"[{"op":"add","path":"/l/9","value":1}]"#,
            r#"[{"op":"remove","path":"/none"}]"#,
            r#"[{"op":"replace","path":"/l/3","value":1}]"#,
            r#"[{"op":"move","from":"/none","path":"/b"}]"#,
            r#"[{"op":"copy","path":"/b"}]"#,
            r#"[{"op":"test","path":"/a/b","value":2}]"#,
            r#"[{"op":"test","path":"/a/b"}]"#,
            r#"[{"op":"replace","path":"","value":5}]"#,
            r#"[{"op":"frob","path":"/a"}]"#,
            "[null]",
        ] {
            let document = json!({"a": {"b": 1}, "l": [1, 2, 3]});
            assert_eq!(patched(document, patch), Err(REJECTED.to_owned()), "{patch}");
        }
    }

    #[test]
    fn copies_do_not_grow_without_bound() {
        let copies: Vec<_> = (0..60).map(|i| json!({"op": "copy", "from": "/d", "path": format!("/d/{i}")})).collect();
        let document = json!({"d": {"k": "x".repeat(1 << 10)}});
        assert_eq!(patched(document, &Value::from(copies).to_string()), Err(REJECTED.to_owned()));
    }

    #[test]
    fn what_is_no_list_of_operations_is_refused_in_gos_words() {
        let refused = |patch: &str| patched(json!({}), patch).expect_err(patch);
        assert_eq!(
            refused("{}"),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            refused("[[]]"),
            "error decoding patch: json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"
        );
        let node = Node::parse(br#"[{"op":"test","path":"/a","op":"test","zip":1}]"#).expect("JSON");
        let (_, strict) = JsonPatch::read(&node, false).expect("read");
        assert_eq!(strict, ["json patch duplicate field \"[0].op\"", "json patch unknown field \"[0].zip\""]);
    }
}
