//! What a template can call: Go's functions, and kubectl's `exists` and `base64decode`.

use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use listwatch_proto::go_quote::quote;
use serde_json::Value;

/// All of them.
const NAMES: &[&str] = &[
    "and",
    "or",
    "not",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "index",
    "slice",
    "len",
    "print",
    "printf",
    "println",
    "exists",
    "base64decode",
];

/// Whether there is a function of this name.
pub(super) fn is_one(name: &str) -> bool {
    NAMES.contains(&name)
}

/// What a value means where true or false is asked for.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Calls one.
///
/// # Errors
/// Why it cannot be.
pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let need = |count: usize| {
        if arguments.len() < count {
            return Err(format!("wrong number of args for {name}: want at least {count} got {}", arguments.len()));
        }
        Ok(())
    };
    let two = || {
        need(2)?;
        Ok::<_, String>((&arguments[0], &arguments[1]))
    };
    Ok(match name {
        "and" | "or" => {
            need(1)?;
            let stops = |value: &&Value| is_true(value) == (name == "or");
            arguments.iter().find(stops).unwrap_or(&arguments[arguments.len() - 1]).clone()
        }
        "not" => {
            need(1)?;
            Value::Bool(!is_true(&arguments[0]))
        }
        "eq" => {
            let (first, _) = two()?;
            let mut found = false;
            for other in &arguments[1..] {
                found |= equal(first, other)?;
            }
            found.into()
        }
        "ne" => (!equal(two()?.0, two()?.1)?).into(),
        "lt" => (order(two()?)? == Ordering::Less).into(),
        "le" => (order(two()?)? != Ordering::Greater).into(),
        "gt" => (order(two()?)? == Ordering::Greater).into(),
        "ge" => (order(two()?)? != Ordering::Less).into(),
        "index" => {
            need(1)?;
            arguments[1..].iter().try_fold(arguments[0].clone(), |value, key| index(&value, key))?
        }
        "slice" => {
            need(1)?;
            slice(&arguments[0], &arguments[1..])?
        }
        "len" => {
            need(1)?;
            length(&arguments[0])?.into()
        }
        "print" => print(arguments).into(),
        "println" => (arguments.iter().map(text_of).collect::<Vec<_>>().join(" ") + "\n").into(),
        "printf" => {
            need(1)?;
            let Value::String(format) = &arguments[0] else {
                return Err("printf: the format must be a string".to_owned());
            };
            formatted(format, &arguments[1..]).into()
        }
        "exists" => {
            need(1)?;
            arguments[1..]
                .iter()
                .try_fold(arguments[0].clone(), |value, key| index(&value, key))
                .is_ok_and(|v| !v.is_null())
                .into()
        }
        "base64decode" => {
            need(1)?;
            let text = arguments[0].as_str().ok_or("base64decode: the value is no string")?;
            let bytes = STANDARD.decode(text).map_err(|error| format!("base64 decode failed: {error}"))?;
            String::from_utf8_lossy(&bytes).into_owned().into()
        }
        other => return Err(format!("function {} not defined", quote(&other))),
    })
}

/// As Go prints a value.
pub(super) fn text_of(value: &Value) -> String {
    super::super::columns::in_go(value)
}

/// Blanks only between two that are no texts.
fn print(arguments: &[Value]) -> String {
    let mut out = String::new();
    for (index, value) in arguments.iter().enumerate() {
        if index > 0 && !value.is_string() && !arguments[index - 1].is_string() {
            out.push(' ');
        }
        out.push_str(&text_of(value));
    }
    out
}

fn equal(a: &Value, b: &Value) -> Result<bool, String> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Ok(a.as_f64() == b.as_f64()),
        (Value::String(a), Value::String(b)) => Ok(a == b),
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Null, other) | (other, Value::Null) => Ok(other.is_null()),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => {
            Err("non-comparable types for comparison".to_owned())
        }
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

fn order((a, b): (&Value, &Value)) -> Result<Ordering, String> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().partial_cmp(&b.as_f64()).ok_or_else(|| "invalid type for comparison".to_owned())
        }
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Number(_) | Value::String(_), Value::Number(_) | Value::String(_)) => {
            Err("incompatible types for comparison".to_owned())
        }
        _ => Err("invalid type for comparison".to_owned()),
    }
}

fn place(key: &Value) -> Result<usize, String> {
    let number = key.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
    // What is too large is beyond the end of every list.
    number.map(|number| number as usize).ok_or_else(|| format!("cannot index slice/array with {}", text_of(key)))
}

fn index(value: &Value, key: &Value) -> Result<Value, String> {
    match (value, key) {
        (Value::Object(map), Value::String(key)) => Ok(map.get(key).cloned().unwrap_or(Value::Null)),
        (Value::Object(_), key) => Err(format!("value has type {}; should be string", type_of(key))),
        (Value::Array(list), key) => {
            let at = place(key)?;
            list.get(at).cloned().ok_or_else(|| format!("error calling index: index out of range: {at}"))
        }
        (Value::Null, _) => Err("index of untyped nil".to_owned()),
        (other, _) => Err(format!("can't index item of type {}", type_of(other))),
    }
}

fn slice(value: &Value, places: &[Value]) -> Result<Value, String> {
    let places = places.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let end = length(value)?;
    let (from, to) = (places.first().copied().unwrap_or(0), places.get(1).copied().unwrap_or(end));
    if from > to || to > end {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    match value {
        Value::Array(list) => Ok(Value::Array(list[from..to].to_vec())),
        Value::String(text) => text.get(from..to).map(Value::from).ok_or_else(|| "slice cuts a character".to_owned()),
        other => Err(format!("can't slice item of type {}", type_of(other))),
    }
}

fn length(value: &Value) -> Result<usize, String> {
    match value {
        Value::String(text) => Ok(text.len()),
        Value::Array(list) => Ok(list.len()),
        Value::Object(map) => Ok(map.len()),
        other => Err(format!("len of type {}", type_of(other))),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%s`, `%v`, `%d`, `%q`, `%t`, `%f`, `%%`, with a width: `%-10s`, `%05d`, `%.2f`.
fn formatted(format: &str, arguments: &[Value]) -> String {
    let (mut out, mut arguments, mut rest) = (String::new(), arguments.iter(), format);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let flags = rest.len() - rest.trim_start_matches(|c: char| "-+0123456789. ".contains(c)).len();
        let (flags, behind) = rest.split_at(flags);
        let Some(verb) = behind.chars().next() else {
            out.push_str("%!(NOVERB)");
            return out;
        };
        rest = &behind[verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = arguments.next() else {
            out.push_str(&format!("%!{verb}(MISSING)"));
            continue;
        };
        let (width, digits) =
            flags.split_once('.').map_or((flags, None), |(width, digits)| (width, digits.parse().ok()));
        let text = match (verb, value) {
            ('q', value) => quote(&text_of(value)),
            ('f', Value::Number(number)) => format!("{:.*}", digits.unwrap_or(6), number.as_f64().unwrap_or(0.0)),
            ('d', Value::Number(number)) => format!("{}", number.as_f64().unwrap_or(0.0) as i64),
            ('s' | 'v' | 't' | 'g', value) => {
                let text = text_of(value);
                digits.map_or(text.clone(), |most: usize| text.chars().take(most).collect())
            }
            (verb, value) => format!("%!{verb}({}={})", type_of(value), text_of(value)),
        };
        let bare = width.trim_start_matches(['-', '+', ' ']);
        let count = bare.parse().unwrap_or(0_usize).saturating_sub(text.chars().count());
        let pad = if bare.starts_with('0') && !width.starts_with('-') { "0" } else { " " };
        let pad = pad.repeat(count);
        out.push_str(&if width.starts_with('-') { text + &pad } else { pad + &text });
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn functions_are_those_of_go() {
        let value = |name: &str, arguments: Value| call(name, arguments.as_array().expect("arguments"));
        assert_eq!(value("and", json!([1, "", 2])), Ok(json!("")));
        assert_eq!(value("or", json!([0, "x", 2])), Ok(json!("x")));
        assert_eq!(value("eq", json!(["a", "b", "a"])), Ok(json!(true)));
        assert_eq!(value("lt", json!([1, 2])), Ok(json!(true)));
        assert_eq!(value("index", json!([{"a": [7]}, "a", 0])), Ok(json!(7)));
        assert_eq!(value("index", json!([[1], 1])), Err("error calling index: index out of range: 1".to_owned()));
        assert_eq!(value("len", json!([[1, 2]])), Ok(json!(2)));
        assert_eq!(value("slice", json!(["abc", 1])), Ok(json!("bc")));
        assert_eq!(value("exists", json!([{"a": {"b": 1}}, "a", "b"])), Ok(json!(true)));
        assert_eq!(value("exists", json!([{"a": 1}, "a", "b"])), Ok(json!(false)));
        assert_eq!(value("base64decode", json!(["Zm91cg=="])), Ok(json!("four")));
        assert_eq!(value("print", json!(["a", 1, 2, "b"])), Ok(json!("a1 2b")));
        let line = value("printf", json!(["%-4s|%3d|%05d|%q|%.1f|%%|%v", "a", 7, 42, "q", 1.25, [1, "x"]]));
        assert_eq!(line, Ok(json!("a   |  7|00042|\"q\"|1.2|%|[1 x]")));
        assert_eq!(value("printf", json!(["%s"])), Ok(json!("%!s(MISSING)")));
    }
}
