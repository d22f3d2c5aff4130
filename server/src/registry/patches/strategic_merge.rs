//! Strategic merge: a patch in the shape of the object, in which lists are merged by the keys of their items (Kubernetes
//! 1.36, apimachinery's `strategicpatch`).
//!
//! How a field is merged stands in the schema tables. Directives: `$patch: replace|delete` in a map or an item,
//! `$retainKeys`, `$deleteFromPrimitiveList/FIELD`, `$setElementOrder/FIELD`. A null takes a field away.
//!
//! Order of a merged list: what the patch names stands in the patch's order (or in that of `$setElementOrder`), what only
//! the server has in the server's; where the two meet, an item that is new goes before.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Reason, Status};
use serde_json::{Map, Value};

use crate::registry::schema::table::{Field, Type, bare as bare_name, schema};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Merges a patch into an object of the struct, such as `core/v1.Pod`.
///
/// # Errors
/// `BadRequest` for directives that are none; 500 without a reason, as upstream, for a patch that contradicts itself or
/// names no merge key.
pub(in crate::registry) fn merge(object: &mut Value, patch: &Value, schema_name: &str) -> Result<(), Status> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(bad("a strategic merge patch must be an object"));
    };
    merge_map(object, patch.clone(), Shape::Struct(schema().find(schema_name)))
}

/// What is known of a map that is being merged.
#[derive(Clone, Copy)]
enum Shape<'a> {
    /// A struct by its place in the schema; `None` = nothing is known of it.
    Struct(Option<usize>),
    /// Values under keys of the client's choice.
    Values(&'a Type),
}

impl<'a> Shape<'a> {
    fn of(holds: &'a Type) -> Shape<'a> {
        match holds.plain() {
            Type::Struct(place) => Shape::Struct(Some(*place)),
            Type::Map(values) => Shape::Values(values),
            _ => Shape::Struct(None),
        }
    }

    /// The bare name of the struct.
    fn name(self) -> Option<&'static str> {
        match self {
            Shape::Struct(Some(place)) => Some(bare_name(schema().get(place).name)),
            _ => None,
        }
    }

    fn field(self, name: &str) -> Option<&'static Field> {
        match self {
            Shape::Struct(Some(place)) => schema().get(place).fields.iter().find(|f| f.name == name),
            _ => None,
        }
    }
}

/// How a field is merged, out of `merge,retainKeys:name`.
struct Strategy<'a> {
    merges: bool,
    key: Option<&'a str>,
}

impl Strategy<'_> {
    fn of(field: Option<&'static Field>) -> Strategy<'static> {
        let (strategies, key) = match field.map_or("", |f| f.patch).split_once(':') {
            Some((strategies, key)) => (strategies, Some(key)),
            None => (field.map_or("", |f| f.patch), None),
        };
        Strategy { merges: strategies.split(',').any(|s| s == "merge"), key }
    }
}

fn merge_map(original: &mut Map<String, Value>, mut patch: Map<String, Value>, shape: Shape) -> Result<(), Status> {
    if let Some(directive) = patch.remove(PATCH) {
        match directive.as_str() {
            Some("replace") => *original = without_directives(patch)?,
            Some("delete") => original.clear(),
            _ => {
                let mut shown = patch;
                let name = bare(&directive);
                shown.insert(PATCH.to_owned(), directive);
                return Err(fault(format!("unknown patch type: {name} in map: {}", go_map(&shown))));
            }
        }
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    merge_ordered_lists(original, &mut patch, shape)?;
    for (key, value) in patch {
        let (name, deletes) = match key.strip_prefix(DELETE_FROM_LIST) {
            Some(name) => (name.to_owned(), true),
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let present = original.get_mut(&name);
        match (present, value) {
            (Some(Value::Object(present)), Value::Object(value)) => {
                let field = shape.field(&name);
                if field.is_some_and(|f| f.patch == "replace") {
                    *present = value;
                    continue;
                }
                let inner = match (shape, field) {
                    (Shape::Values(values), _) => Shape::of(values),
                    (_, Some(field)) => Shape::of(&field.holds),
                    _ => Shape::Struct(None),
                };
                merge_map(present, value, inner)?;
            }
            (Some(Value::Array(present)), Value::Array(value)) => {
                let merged = merge_list(std::mem::take(present), value, shape.field(&name), deletes)?;
                *present = merged;
            }
            (_, value) if !deletes => {
                original.insert(name, new_value(value)?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// `$retainKeys`: of the fields that are there only these stay.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), Status> {
    let Some(list) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || bad("invalid patch format of retainKeys");
    let keys: Vec<String> = list
        .as_array()
        .ok_or_else(malformed)?
        .iter()
        .map(|k| k.as_str().map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or_else(malformed)?;
    if patch.iter().any(|(key, value)| !value.is_null() && !key.starts_with('$') && !keys.contains(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| keys.contains(key));
    Ok(())
}

/// The lists whose order the patch tells: merged here, and taken out of the patch.
fn merge_ordered_lists(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    shape: Shape,
) -> Result<(), Status> {
    let directives: Vec<String> = patch.keys().filter(|k| k.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let name = directive.trim_start_matches(ELEMENT_ORDER).to_owned();
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(not_a_list(other.as_ref())),
        };
        if let Some(present) = original.get(&name).filter(|present| !present.is_array()) {
            return Err(not_a_list(Some(present)));
        }
        let mut given = match patch.remove(&name) {
            Some(Value::Array(items)) => Some(items),
            None => None,
            other => return Err(not_a_list(other.as_ref())),
        };
        let field = shape.field(&name);
        if let (None, Some(of)) = (field, shape.name()) {
            let why = format!("unable to find api field in struct {of} for the json field {name}", name = quote(&name));
            return Err(fault(why));
        }
        let key = Strategy::of(field).key;
        if let Some(given) = &given {
            check_order(given, &order, key)?;
        }
        let (merged, server_order) = match (original.remove(&name), given.take()) {
            (Some(Value::Array(present)), Some(given)) => (merge_list(present.clone(), given, field, false)?, present),
            (Some(Value::Array(present)), None) => (present.clone(), present),
            (_, Some(given)) => match new_value(Value::Array(given))? {
                Value::Array(items) => (items, Vec::new()),
                _ => (Vec::new(), Vec::new()),
            },
            (_, None) => continue,
        };
        original.insert(name, Value::Array(ordered(merged, &order, &server_order, key)?));
    }
    Ok(())
}

/// What the patch names must stand in the order that it tells, and be part of it.
fn check_order(given: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    let mut from = 0;
    for item in given.iter().filter(|item| item.get(PATCH).is_none()) {
        let found = order[from..].iter().position(|place| same(place, item, key));
        let Some(found) = found else {
            return Err(fault(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_list(given),
                go_list(order)
            )));
        };
        from += found + 1;
    }
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: Option<&'static Field>,
    deletes: bool,
) -> Result<Vec<Value>, Status> {
    let strategy = Strategy::of(field);
    if !strategy.merges && !deletes {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let of_maps = patch.first().or(original.first()).is_some_and(Value::is_object);
    if !of_maps {
        if deletes {
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        let mut merged: Vec<Value> = Vec::new();
        for item in original.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return ordered(merged, &patch, &original, None);
    }
    let Some(key) = strategy.key else {
        return Err(fault("cannot merge lists without merge key for struct"));
    };
    let Type::List(of) = field.expect("a strategy comes from a field").holds.plain() else {
        return Ok(patch);
    };
    merge_items(original, patch, Shape::of(of), key)
}

fn merge_items(original: Vec<Value>, patch: Vec<Value>, shape: Shape, key: &str) -> Result<Vec<Value>, Status> {
    let (mut kept, mut given, mut replaces) = (original.clone(), Vec::new(), false);
    for item in patch {
        let Value::Object(mut item) = item else {
            return Err(fault(format!("list element types are not identical: {}", go_list(&original))));
        };
        match item.remove(PATCH).as_ref().map(|directive| directive.as_str().unwrap_or_default().to_owned()).as_deref()
        {
            None => given.push(item),
            Some("delete") => {
                let wanted = item.get(key).ok_or_else(|| item_with_directive(&item, "delete", key))?;
                kept.retain(|present| present.get(key) != Some(wanted));
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err(fault("merging lists cannot yet be specified in the patch")),
            Some(other) => {
                let mut shown = item.clone();
                shown.insert(PATCH.to_owned(), other.into());
                return Err(fault(format!("unknown patch type: {other} in map: {}", go_map(&shown))));
            }
        }
    }
    if replaces {
        return Ok(given.into_iter().map(Value::Object).collect());
    }
    let order: Vec<Value> = given.iter().cloned().map(Value::Object).collect();
    for item in given {
        let Some(wanted) = item.get(key).cloned() else {
            return Err(without_key(&item, key));
        };
        match kept.iter_mut().find(|present| present.get(key) == Some(&wanted)) {
            Some(Value::Object(present)) => merge_map(present, item, shape)?,
            _ => kept.push(new_value(Value::Object(item))?),
        }
    }
    ordered(kept, &order, &original, Some(key))
}

/// Puts a merged list into order: what `order` names after it, the rest after the server's, woven together.
fn ordered(merged: Vec<Value>, order: &[Value], server: &[Value], key: Option<&str>) -> Result<Vec<Value>, Status> {
    if let Some(key) = key
        && let Some(Value::Object(item)) = merged.iter().chain(order).find(|item| item.get(key).is_none())
    {
        return Err(without_key(item, key));
    }
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item, key));
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    rest.sort_by_key(|item| place(server, item).unwrap_or(usize::MAX));
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    let mut woven = Vec::new();
    loop {
        let from_rest = match (rest.peek(), named.peek()) {
            (None, None) => return Ok(woven),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            // Only if the server knew both does its order count.
            (Some(left), Some(right)) => {
                matches!((place(server, left), place(server, right)), (Some(left), Some(right)) if left < right)
            }
        };
        woven.extend(if from_rest { rest.next() } else { named.next() });
    }
}

fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

/// A value of the patch that meets nothing: without its nulls and directives.
fn new_value(value: Value) -> Result<Value, Status> {
    match value {
        Value::Object(map) => Ok(Value::Object(without_directives(map)?)),
        Value::Array(items) => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                // An item that says "delete" meets nothing to delete; one that says "replace" is only the directive.
                if item.get(PATCH).is_none() {
                    kept.push(new_value(item)?);
                }
            }
            Ok(Value::Array(kept))
        }
        other => Ok(other),
    }
}

fn without_directives(map: Map<String, Value>) -> Result<Map<String, Value>, Status> {
    let mut kept = Map::new();
    let mut whole = map;
    if whole.remove(PATCH).is_some_and(|directive| directive == "delete") {
        return Ok(kept);
    }
    retain_keys(&mut Map::new(), &mut whole)?;
    for (key, value) in whole {
        if !value.is_null() && !key.starts_with(ELEMENT_ORDER) && !key.starts_with(DELETE_FROM_LIST) {
            kept.insert(key, new_value(value)?);
        }
    }
    Ok(kept)
}

fn bad(message: impl Into<String>) -> Status {
    Status::bad_request(message)
}

/// 500 without a reason: what upstream answers to most patches that cannot be merged.
fn fault(message: impl Into<String>) -> Status {
    Status::new(Reason::Unknown, message)
}

fn without_key(item: &Map<String, Value>, key: &str) -> Status {
    fault(format!("map: {} does not contain declared merge key: {key}", go_map(item)))
}

/// The same of an item whose directive has been taken out.
fn item_with_directive(item: &Map<String, Value>, directive: &str, key: &str) -> Status {
    let mut shown = item.clone();
    shown.insert(PATCH.to_owned(), directive.into());
    without_key(&shown, key)
}

fn not_a_list(found: Option<&Value>) -> Status {
    let found = match found {
        None | Some(Value::Null) => "%!s(<nil>)",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(number)) if number.is_f64() => "float64",
        Some(Value::Number(_)) => "int64",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "[]interface {}",
        Some(Value::Object(_)) => "map[string]interface {}",
    };
    fault(format!("expected a []interface {{}}, but received a {found}"))
}

fn go_list(items: &[Value]) -> String {
    format!("[{}]", items.iter().map(bare).collect::<Vec<_>>().join(" "))
}

/// A value as Go prints it: `map[image:n3]`.
pub(in crate::registry) fn go_map(map: &Map<String, Value>) -> String {
    let parts: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", bare(value))).collect();
    format!("map[{}]", parts.join(" "))
}

/// Go's `%v` of a value.
pub(in crate::registry) fn bare(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => go_list(items),
        Value::Object(map) => go_map(map),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(original: Value, patch: Value) -> Result<Value, String> {
        let mut pod = json!({"spec": original});
        merge(&mut pod, &json!({"spec": patch}), "core/v1.Pod").map_err(|status| status.message)?;
        Ok(pod["spec"].take())
    }

    #[test]
    fn lists_are_merged_by_their_keys_and_new_items_go_first() {
        let original = json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
        let patch = json!({"containers": [{"name": "c", "image": "2"}, {"name": "b", "image": "2"}]});
        let merged = json!({"containers": [
            {"name": "c", "image": "2"}, {"name": "a", "image": "1"}, {"name": "b", "image": "2"}]});
        // The new item and the changed one stand in the patch's order; the server's own keeps its place before b.
        assert_eq!(spec(original, patch), Ok(merged));
    }

    #[test]
    fn the_order_that_is_told_is_kept() {
        let original = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let patch = json!({
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
            "containers": [{"name": "c"}],
        });
        let names =
            |value: Value| value["containers"].as_array().map(|c| c.iter().map(|i| i["name"].clone()).collect());
        assert_eq!(spec(original, patch).map(names), Ok(Some(json!(["b", "a", "c"]))));
    }

    #[test]
    fn directives_delete_replace_and_retain() {
        let original = json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1", "y": "2"}});
        let check = |patch: Value, expected: Value| assert_eq!(spec(original.clone(), patch), Ok(expected));
        let selector = json!({"x": "1", "y": "2"});
        check(
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}], "nodeSelector": selector}),
        );
        check(
            json!({"containers": [{"name": "c"}, {"$patch": "replace"}], "nodeSelector": {"$patch": "replace", "z": "3"}}),
            json!({"containers": [{"name": "c"}], "nodeSelector": {"z": "3"}}),
        );
        check(
            json!({"nodeSelector": {"x": null, "z": "3"}}),
            json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"y": "2", "z": "3"}}),
        );
        check(
            json!({"nodeSelector": {"$retainKeys": ["y"], "y": "4"}}),
            json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"y": "4"}}),
        );
        assert_eq!(
            spec(original.clone(), json!({"$retainKeys": "x"})),
            Err("invalid patch format of retainKeys".into())
        );
    }

    #[test]
    fn primitive_sets_grow_and_shrink() {
        let merged = |patch: Value| {
            let mut pod = json!({"metadata": {"finalizers": ["a", "b"]}});
            merge(&mut pod, &json!({"metadata": patch}), "core/v1.Pod").expect("merged");
            pod["metadata"]["finalizers"].take()
        };
        assert_eq!(merged(json!({"finalizers": ["c", "a"]})), json!(["c", "a", "b"]));
        assert_eq!(merged(json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), json!(["b"]));
    }

    #[test]
    fn an_item_without_its_key_is_refused_by_name() {
        let original = json!({"containers": [{"name": "a"}]});
        assert_eq!(
            spec(original, json!({"containers": [{"image": "n3"}]})),
            Err("map: map[image:n3] does not contain declared merge key: name".into())
        );
    }

    #[test]
    fn atomic_lists_are_replaced() {
        let original = json!({"tolerations": [{"key": "a"}], "containers": []});
        assert_eq!(
            spec(original, json!({"tolerations": [{"key": "b"}]})),
            Ok(json!({"tolerations": [{"key": "b"}], "containers": []}))
        );
    }
}
