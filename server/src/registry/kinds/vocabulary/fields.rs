//! Short ways to read JSON values; what is missing reads as empty.

use serde_json::{Map, Value};

/// The text of a field.
pub(in crate::registry::kinds) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The items of a list field.
pub(in crate::registry::kinds) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Whether a field is there.
pub(in crate::registry::kinds) fn has(value: &Value, key: &str) -> bool {
    !value[key].is_null()
}

/// Sets a field if it is missing or null.
pub(in crate::registry::kinds) fn default(value: &mut Value, key: &str, to: impl Into<Value>) {
    if let Some(map) = value.as_object_mut()
        && map.get(key).is_none_or(Value::is_null)
    {
        map.insert(key.to_owned(), to.into());
    }
}

/// The items of a list field, to be changed.
pub(in crate::registry::kinds) fn items_mut<'a>(value: &'a mut Value, key: &str) -> &'a mut [Value] {
    match value.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.as_mut_slice(),
        None => &mut [],
    }
}

/// The keys of a map field.
pub(in crate::registry::kinds) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    static EMPTY: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
    value.as_object().unwrap_or_else(|| EMPTY.get_or_init(Map::new)).iter()
}
