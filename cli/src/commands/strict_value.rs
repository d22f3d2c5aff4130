//! Reads a value as a manifest must be: no key twice in one map.
//!
//! Parsers of JSON and of YAML let the last of equal keys win, so that a slip in a manifest would go unseen; here it is
//! refused (kubectl 1.36 with strict validation does so, too). The parser adds where the key stands.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Nesting at which both parsers refuse; deeper documents are refused before they are parsed.
const DEPTH_MAX: usize = 128;

/// A value none of whose maps names a key twice.
pub(super) struct StrictValue(pub(super) Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(StrictValue)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            let StrictValue(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// The line, counted from zero, at which a document in braces or brackets (JSON, or YAML's flow style) is nested deeper
/// than any parser takes; `None`: nowhere, or it is in block style. A YAML parser would need minutes to find out.
pub(super) fn too_deep(document: &str) -> Option<usize> {
    let begins = document.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    if !begins.starts_with(['{', '[']) {
        return None;
    }
    let (mut depth, mut line) = (0_usize, 0);
    // What a character means depends on the one before, and on that before but for spaces.
    let (mut before, mut token_before) = (' ', ' ');
    let mut chars = document.chars();
    while let Some(c) = chars.next() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            '#' if before.is_whitespace() => {
                chars.find(|c| *c == '\n');
                line += 1;
                before = '\n';
                continue;
            }
            '"' | '\'' if "{[,: ".contains(token_before) => line += skip_quoted(c, &mut chars),
            '\n' => line += 1,
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Some(line);
        }
        before = c;
        if !c.is_whitespace() {
            token_before = c;
        }
    }
    None
}

/// Goes behind the closing quote; the line breaks on the way.
fn skip_quoted(quote: char, chars: &mut std::str::Chars<'_>) -> usize {
    let mut lines = 0;
    while let Some(c) = chars.next() {
        match c {
            '\\' if quote == '"' => {
                chars.next();
            }
            '\n' => lines += 1,
            c if c == quote => break,
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_serde_json_reads_them() {
        let text = r#"{"a": [1, -2, 3.5, true, null, "x", {}], "b": {"c": [], "d": 18446744073709551615}}"#;
        let plain: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(serde_json::from_str::<StrictValue>(text).expect("JSON").0, plain);
        assert_eq!(serde_norway::from_str::<StrictValue>(text).expect("YAML").0, plain);
    }

    #[test]
    fn a_key_named_twice_is_refused() {
        let text = "{\"a\": {\"n\": 1, \"n\": 1}}";
        let error = serde_json::from_str::<StrictValue>(text).err().expect("refused").to_string();
        assert!(error.contains("duplicate key \"n\""), "{error}");
        let error = serde_norway::from_str::<StrictValue>(text).err().expect("refused").to_string();
        assert!(error.contains("duplicate key \"n\""), "{error}");
        // In different maps it is no duplicate.
        assert!(serde_norway::from_str::<StrictValue>("a: {n: 1}\nb: {n: 1}\nn: 1\n").is_ok());
    }

    #[test]
    fn depth_is_found_without_parsing() {
        let nested = |n: usize| format!("# c\n{}1{}", "{\"a\":\n".repeat(n), "}".repeat(n));
        assert_eq!(too_deep(&nested(DEPTH_MAX)), None);
        assert_eq!(too_deep(&nested(DEPTH_MAX + 1)), Some(DEPTH_MAX + 1));
        assert!(too_deep(&"[".repeat(100_000)).is_some());
        // Brackets in texts and comments, and those of block style, are none.
        let brackets = "[".repeat(200);
        let text = format!("{{a: \"\\\"{brackets}\", b: '{brackets}', # {brackets}\n c: don't}}");
        assert_eq!(too_deep(&text), None);
        assert_eq!(too_deep(&format!("a: |\n  {brackets}\n")), None);
    }
}
