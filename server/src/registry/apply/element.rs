//! One step of a path to a field, written as in `FieldsV1`: `f:NAME`, `k:{"name":"c"}`, `v:VALUE`, `i:INDEX`.
//!
//! Invariant: equal steps are equal texts; keys are sorted and written without blanks.

use listwatch_proto::go_quote::quote;
use serde_json::{Map, Value};

/// The step to a field of a struct or a key of a map.
pub(super) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// The step to an item of a list by its keys. A key that the item leaves out has its default, or is left out here too.
///
/// # Errors
/// Why the item has none.
pub(super) fn keyed(
    item: &Value,
    keys: &[&'static str],
    default: impl Fn(&str) -> Option<Value>,
) -> Result<String, String> {
    let item = match item {
        Value::Object(item) => item,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut named = Map::new();
    for key in keys {
        if let Some(value) = item.get(*key).cloned().or_else(|| default(key)) {
            named.insert((*key).to_owned(), value);
        }
    }
    if named.is_empty() {
        let keys: Vec<_> = keys.iter().map(|key| quote(&key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(format!("k:{}", Value::Object(named)))
}

/// The step to an item of a set.
///
/// # Errors
/// Why the item has none.
pub(super) fn value(item: &Value) -> Result<String, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        item => Ok(format!("v:{item}")),
    }
}

/// A step as a client wrote it, in the one form; `None` for a sort that is not known.
///
/// # Errors
/// What is wrong with it.
pub(super) fn normal(text: &str) -> Result<Option<String>, String> {
    let Some((sort, rest)) = text.split_at_checked(2) else { return Err("key must be 2 characters long:".to_owned()) };
    match sort {
        "f:" => Ok(Some(text.to_owned())),
        "k:" => match serde_json::from_str::<Map<String, Value>>(rest) {
            Ok(keys) => Ok(Some(format!("k:{}", Value::Object(keys)))),
            Err(error) => Err(format!("parsing key as path element: {error}")),
        },
        "v:" => match serde_json::from_str::<Value>(rest) {
            Ok(value) => Ok(Some(format!("v:{value}"))),
            Err(error) => Err(format!("parsing key as path element: {error}")),
        },
        "i:" => rest.parse::<i64>().map(|index| Some(format!("i:{index}"))).map_err(|error| error.to_string()),
        _ if sort.ends_with(':') => Ok(None),
        _ => Err(format!("missing colon: {text}")),
    }
}

/// A step as a person reads it: `.name`, `[name="c"]`, `[="x"]`, `[3]`.
pub(super) fn shown(text: &str) -> String {
    let rest = text.get(2..).unwrap_or_default();
    match text.get(..2) {
        Some("f:") => format!(".{rest}"),
        Some("k:") => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let parts: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", parts.join(","))
        }
        Some("v:") => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}

/// The order of steps: fields, keys, values; numbers by their size.
pub(super) fn order(a: &str, b: &str) -> std::cmp::Ordering {
    if let (Some(a), Some(b)) = (a.strip_prefix("k:"), b.strip_prefix("k:")) {
        let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let (a, b) = (read(a), read(b));
        for ((key, value), (other_key, other)) in a.iter().zip(&b) {
            let by_value = match (value.as_f64(), other.as_f64()) {
                (Some(value), Some(other)) => value.total_cmp(&other),
                _ => value.to_string().cmp(&other.to_string()),
            };
            let order = key.cmp(other_key).then(by_value);
            if order.is_ne() {
                return order;
            }
        }
        return a.len().cmp(&b.len());
    }
    a.cmp(b)
}
