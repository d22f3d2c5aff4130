//! A value without some of its fields.

use serde_json::{Map, Value};

use super::compare::{as_list, as_map};
use super::element;
use super::set::FieldSet;
use super::shape::Shape;

/// The value without the fields; null for a list or map of which nothing is left.
pub(super) fn without(value: &Value, fields: &FieldSet, shape: Shape) -> Value {
    match shape {
        Shape::Scalar(_) => value.clone(),
        Shape::Any if !value.is_object() => value.clone(),
        shape if shape.is_atomic() => Value::Null,
        Shape::List(items) => {
            let mut kept = Vec::new();
            for item in as_list(Some(value)).into_iter().flatten() {
                let step = items.step(item).unwrap_or_default();
                if fields.has_step(&step) {
                    continue;
                }
                kept.push(match fields.below(&step) {
                    Some(below) => without(item, &below, items.of.shape()),
                    None => item.clone(),
                });
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        shape => {
            let mut kept = Map::new();
            for (key, value) in as_map(Some(value)).into_iter().flatten() {
                let step = element::field(key);
                if fields.has_step(&step) {
                    continue;
                }
                let value = match fields.below(&step) {
                    Some(below) => without(value, &below, shape.under(key).unwrap_or(Shape::Any)),
                    None => value.clone(),
                };
                kept.insert(key.clone(), value);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
    }
}
