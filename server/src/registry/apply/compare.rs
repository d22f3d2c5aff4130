//! What differs between two objects: the fields taken away, changed and added.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::set::FieldSet;
use super::shape::{Items, Shape};

/// The fields that differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Compares two objects of a shape.
    ///
    /// # Errors
    /// Which item of a list has no key.
    pub(super) fn of(old: &Value, new: &Value, shape: Shape) -> Result<Self, String> {
        let mut walker = Walker { found: Comparison::default(), path: Vec::new() };
        walker.compare(Some(old), Some(new), shape)?;
        Ok(walker.found)
    }

    /// The same of two objects at hand as maps; their managedFields are not looked at.
    ///
    /// # Errors
    /// As [`Comparison::of`].
    pub(super) fn of_maps(old: &Map<String, Value>, new: &Map<String, Value>, shape: Shape) -> Result<Self, String> {
        let mut walker = Walker { found: Comparison::default(), path: Vec::new() };
        walker.maps(Some(old), Some(new), shape)?;
        Ok(walker.found)
    }

    /// What is left when something is left out of each of its sets.
    pub(super) fn without(mut self, leave_out: impl Fn(&mut FieldSet)) -> Self {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            leave_out(set);
        }
        self
    }

    /// Nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// What the new object has set: changed and added.
    pub(super) fn written(&self) -> FieldSet {
        let mut written = self.modified.clone();
        written.add(&self.added);
        written
    }
}

struct Walker {
    found: Comparison,
    path: Vec<String>,
}

/// `None` for a list or map that is none: null, or of another type.
pub(super) fn as_list(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}

pub(super) fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

impl Walker {
    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>, shape: Shape) -> Result<(), String> {
        if old == new {
            return Ok(());
        }
        let leaf = match shape {
            Shape::Scalar(_) | Shape::Atomic(_) => true,
            Shape::List(items) => self.lists(as_list(old), as_list(new), items)?,
            Shape::Any => self.anything(old, new)?,
            shape if shape.is_atomic() => true,
            shape => self.maps(as_map(old), as_map(new), shape)?,
        };
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            _ if leaf => self.found.modified.insert(&self.path),
            _ => {}
        }
        Ok(())
    }

    /// A value of no declared type: maps by their keys, all else as one.
    fn anything(&mut self, old: Option<&Value>, new: Option<&Value>) -> Result<bool, String> {
        let is_leaf = |value: Option<&Value>| value.is_some_and(|value| !value.is_object() && !value.is_null());
        let leaf = self.maps(as_map(old), as_map(new), Shape::Any)?;
        Ok(leaf || is_leaf(old) || is_leaf(new))
    }

    /// Whether both are empty, so that they are one value.
    fn maps(
        &mut self,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        shape: Shape,
    ) -> Result<bool, String> {
        if old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty) {
            return Ok(true);
        }
        let empty = Map::new();
        let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
        let all = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
        for key in all {
            let (old, new) = (old.get(key), new.get(key));
            // Entries of managers are not owned, and are most of the metadata.
            if old == new || (key == "managedFields" && self.path.len() == 1 && self.path[0] == "f:metadata") {
                continue;
            }
            self.path.push(super::element::field(key));
            self.compare(old, new, shape.under(key).unwrap_or(Shape::Any))?;
            self.path.pop();
        }
        Ok(false)
    }

    fn lists(&mut self, old: Option<&Vec<Value>>, new: Option<&Vec<Value>>, items: Items) -> Result<bool, String> {
        if old.is_none_or(Vec::is_empty) && new.is_none_or(Vec::is_empty) {
            return Ok(true);
        }
        let shape = items.of.shape();
        let (old, new) = (ByStep::of(old, items)?, ByStep::of(new, items)?);
        let added = new.steps.iter().filter(|step| !old.values.contains_key(*step));
        for step in old.steps.iter().chain(added) {
            let (old, new) = (old.get(step), new.get(step));
            self.path.push(step.clone());
            match (old, new) {
                ([] | [_], [] | [_]) => self.compare(old.first().copied(), new.first().copied(), shape)?,
                // Items of one key are one value as long as there are several.
                ([_, _, ..], [_, _, ..]) if old != new => self.found.modified.insert(&self.path),
                ([_, _, ..], [_, _, ..]) => {}
                ([_, _, ..], _) => {
                    if let Some(new) = new.first() {
                        self.compare(None, Some(new), shape)?;
                    }
                    self.found.removed.insert(&self.path);
                }
                (_, _) => {
                    if let Some(old) = old.first() {
                        self.compare(Some(old), None, shape)?;
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
        Ok(false)
    }
}

/// The items of a list under their steps.
struct ByStep<'a> {
    /// In order of the first item of each.
    steps: Vec<String>,
    values: HashMap<String, Vec<&'a Value>>,
}

impl<'a> ByStep<'a> {
    fn of(list: Option<&'a Vec<Value>>, items: Items) -> Result<Self, String> {
        let mut found = ByStep { steps: Vec::new(), values: HashMap::new() };
        for (i, item) in list.into_iter().flatten().enumerate() {
            let step = items.step(item).map_err(|why| format!("element {i}: {why}"))?;
            match found.values.get_mut(&step) {
                Some(values) => values.push(item),
                None => {
                    found.steps.push(step.clone());
                    found.values.insert(step, vec![item]);
                }
            }
        }
        Ok(found)
    }

    fn get(&self, step: &str) -> &[&'a Value] {
        self.values.get(step).map_or(&[], Vec::as_slice)
    }
}
