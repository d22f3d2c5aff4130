//! The set of the fields that an object holds.

use std::collections::HashMap;

use serde_json::Value;

use super::compare::{as_list, as_map};
use super::element;
use super::set::FieldSet;
use super::shape::{Items, Shape};

/// The fields of a value.
pub(super) fn fields(value: &Value, shape: Shape) -> FieldSet {
    let mut set = FieldSet::default();
    walk(value, shape, &mut Vec::new(), &mut set);
    set
}

fn walk(value: &Value, shape: Shape, path: &mut Vec<String>, set: &mut FieldSet) {
    match shape {
        Shape::Scalar(_) => set.insert(path),
        shape if shape.is_atomic() => set.insert(path),
        Shape::Any if !value.is_object() && !value.is_null() => set.insert(path),
        Shape::List(items) => list(value, items, path, set),
        shape => {
            for (key, value) in as_map(Some(value)).into_iter().flatten() {
                path.push(element::field(key));
                walk(value, shape.under(key).unwrap_or(Shape::Any), path, set);
                let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if is_empty || !shape.declares(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

fn list(value: &Value, items: Items, path: &mut Vec<String>, set: &mut FieldSet) {
    let steps: Vec<(String, &Value)> = as_list(Some(value))
        .into_iter()
        .flatten()
        .filter_map(|item| items.step(item).ok().map(|step| (step, item)))
        .collect();
    let mut counts = HashMap::new();
    for (step, _) in &steps {
        *counts.entry(step.as_str()).or_insert(0) += 1;
    }
    for (step, item) in &steps {
        path.push(step.clone());
        // Of items of one key only the item as such is owned.
        if counts.get(step.as_str()) == Some(&1) {
            walk(item, items.of.shape(), path, set);
        }
        set.insert(path);
        path.pop();
    }
}
