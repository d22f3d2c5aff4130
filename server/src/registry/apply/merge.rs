//! What becomes of an object when a configuration is applied to it: its values win, maps and keyed lists are merged.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::compare::{as_list, as_map};
use super::shape::{Items, Shape};

/// Merges a configuration into an object; `None` if nothing comes of it.
///
/// # Errors
/// Which item of a list has no key, or a key that another has.
pub(super) fn merge(live: Option<&Value>, config: Option<&Value>, shape: Shape) -> Result<Option<Value>, String> {
    let leaf = || Ok(config.or(live).cloned());
    match shape {
        Shape::Scalar(_) => leaf(),
        shape if shape.is_atomic() => leaf(),
        Shape::Any if config.is_some_and(|value| !value.is_object() && !value.is_null()) => leaf(),
        Shape::List(items) => {
            let (live, config) = (as_list(live), as_list(config));
            if live.is_none_or(Vec::is_empty) && config.is_none_or(Vec::is_empty) {
                return leaf();
            }
            let merged = lists(live.map_or(&[][..], Vec::as_slice), config.map_or(&[][..], Vec::as_slice), items)?;
            Ok((!merged.is_empty()).then_some(Value::Array(merged)))
        }
        shape => {
            let (live, config) = (as_map(live), as_map(config));
            if live.is_none_or(Map::is_empty) && config.is_none_or(Map::is_empty) {
                return leaf();
            }
            let empty = Map::new();
            let (live, config) = (live.unwrap_or(&empty), config.unwrap_or(&empty));
            let mut merged = Map::new();
            for key in live.keys().chain(config.keys().filter(|key| !live.contains_key(*key))) {
                let value = merge(live.get(key), config.get(key), shape.under(key).unwrap_or(Shape::Any))?;
                merged.extend(value.map(|value| (key.clone(), value)));
            }
            Ok((!merged.is_empty()).then_some(Value::Object(merged)))
        }
    }
}

/// A list whose items have been told apart.
struct Indexed<'a> {
    steps: Vec<String>,
    /// An item that is there several times stands for nothing that could be merged.
    items: HashMap<String, &'a Value>,
}

impl<'a> Indexed<'a> {
    fn of(list: &'a [Value], items: Items, may_repeat: bool) -> Result<Self, String> {
        static REPEATED: Value = Value::Null;
        let mut indexed = Indexed { steps: Vec::with_capacity(list.len()), items: HashMap::with_capacity(list.len()) };
        for (i, item) in list.iter().enumerate() {
            let step = items.step(item).map_err(|why| format!("element {i}: {why}"))?;
            match indexed.items.get_mut(&step) {
                Some(_) if !may_repeat => {
                    return Err(format!("duplicate entries for key {}", super::element::shown(&step)));
                }
                Some(known) => *known = &REPEATED,
                None => drop(indexed.items.insert(step.clone(), item)),
            }
            indexed.steps.push(step);
        }
        Ok(indexed)
    }
}

/// The items of both: in the order of the configuration, what only the object has where it stood among them.
fn lists(live: &[Value], config: &[Value], items: Items) -> Result<Vec<Value>, String> {
    let shape = items.of.shape();
    let (right, left) = (Indexed::of(config, items, false)?, Indexed::of(live, items, true)?);
    let mut shared = right.steps.iter().filter(|step| left.items.contains_key(*step));
    let mut next = shared.next();
    let (mut l, mut r) = (0, 0);
    let mut done = std::collections::HashSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    while l < left.steps.len() || r < right.steps.len() {
        if let (Some(step), Some(other)) = (left.steps.get(l), right.steps.get(r)) {
            if step == other {
                done.insert(step);
                out.extend(merge(left.items.get(step).copied(), right.items.get(step).copied(), shape)?);
                (l, r) = (l + 1, r + 1);
                next = shared.next();
                continue;
            }
            // Shared, but not the one whose turn it is.
            if right.items.contains_key(step) && next.is_some_and(|next| next != step) {
                l += 1;
                continue;
            }
        }
        if let Some(step) = left.steps.get(l) {
            if !right.items.contains_key(step) {
                out.extend(merge(live.get(l), None, shape)?);
                l += 1;
                continue;
            }
            if done.contains(step) {
                l += 1;
            }
        }
        if let Some(step) = right.steps.get(r) {
            done.insert(step);
            out.extend(merge(left.items.get(step).copied(), right.items.get(step).copied(), shape)?);
            r += 1;
            if next == Some(step) {
                next = shared.next();
            }
        }
    }
    Ok(out)
}
