//! Whether a value has its declared shape, in the words of structured-merge-diff.

use listwatch_proto::go_quote::quote;
use serde_json::Value;

use super::element;
use super::shape::{Items, Scalar, Shape};

/// Every place where a configuration is not what is declared, as one text. Items of one key are refused.
///
/// # Errors
/// That text.
pub(super) fn check(value: &Value, shape: Shape) -> Result<(), String> {
    let mut faults = Vec::new();
    walk(value, shape, &mut String::new(), &mut faults);
    match faults.as_slice() {
        [] => Ok(()),
        [fault] => Err(fault.clone()),
        faults => Err(format!("errors:\n  {}", faults.join("\n  "))),
    }
}

fn walk(value: &Value, shape: Shape, path: &mut String, faults: &mut Vec<String>) {
    let mut refuse = |why: String| faults.push(if path.is_empty() { why } else { format!("{path}: {why}") });
    if value.is_null() {
        return;
    }
    match shape {
        Shape::Scalar(scalar) => {
            if let Some(why) = misfit(value, scalar) {
                refuse(why);
            }
        }
        Shape::Any => {}
        Shape::Atomic(of) => match value {
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    below(item, of.shape(), &format!("[{i}]"), path, faults);
                }
            }
            other => refuse(format!("expected list, got {}", wrapped(other))),
        },
        Shape::List(items) => match value {
            Value::Array(list) => keyed(list, items, path, faults),
            other => refuse(format!("expected list, got {}", wrapped(other))),
        },
        shape => match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match shape.under(key) {
                        Some(inner) => below(value, inner, &format!(".{key}"), path, faults),
                        None => {
                            faults.push(format!("{path}.{key}: field not declared in schema"));
                            return;
                        }
                    }
                }
            }
            other => refuse(format!("expected map, got {}", wrapped(other))),
        },
    }
}

fn below(value: &Value, shape: Shape, step: &str, path: &mut String, faults: &mut Vec<String>) {
    let length = path.len();
    path.push_str(step);
    walk(value, shape, path, faults);
    path.truncate(length);
}

fn keyed(list: &[Value], items: Items, path: &mut String, faults: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    let told = |why: String, path: &str| if path.is_empty() { why } else { format!("{path}: {why}") };
    for (i, item) in list.iter().enumerate() {
        let step = match items.step(item) {
            Ok(step) => step,
            Err(why) => {
                // Without a step nothing below it can be named.
                faults.push(told(format!("element {i}: {why}"), path));
                return;
            }
        };
        let shown = element::shown(&step);
        if !seen.insert(step) {
            faults.push(told(format!("duplicate entries for key {shown}"), path));
        }
        below(item, items.of.shape(), &shown, path, faults);
    }
}

fn misfit(value: &Value, scalar: Scalar) -> Option<String> {
    let is_scalar = matches!(value, Value::String(_) | Value::Bool(_) | Value::Number(_));
    match scalar {
        Scalar::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", type_name(value)))
        }
        Scalar::Text if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", literal(value)))
        }
        Scalar::Flag if !value.is_boolean() => Some(format!("expected boolean, got {}", wrapped(value))),
        Scalar::Any if !is_scalar => Some(format!("expected any scalar, got {}", wrapped(value))),
        _ => None,
    }
}

/// Go's `%v` of the value in its wrapper.
fn wrapped(value: &Value) -> String {
    format!("&{{{}}}", super::super::patches::strategic_merge::bare(value))
}

/// Go's `%T`.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%#v`.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().map(|(key, value)| format!("{key}:{}", literal(value), key = quote(&key))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}
