//! YAML bodies, within bounds: a scanner that takes its time for deep nesting, and aliases that stand for far more than they
//! are long, must not cost the server more than a JSON body could.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Brackets that may stand open: YAML's scanner looks at all of them for each word. JSON may nest half as deep.
const DEPTH_MAX: usize = 256;
/// Bytes that a document may stand for, aliases put in: what JSON could have said within the limit of a body, with room for
/// the difference in form.
const BYTES_MAX: usize = 8 << 20;

/// The first document of a text; an empty text is null.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn first_document(text: &[u8]) -> Result<Value, String> {
    check_depth(text)?;
    let says_nothing = |line: &[u8]| matches!(line.trim_ascii(), b"" | b"---") || line.trim_ascii().starts_with(b"#");
    if text.split(|byte| *byte == b'\n').all(says_nothing) {
        return Ok(Value::Null);
    }
    let Some(first) = serde_norway::Deserializer::from_slice(text).next() else { return Ok(Value::Null) };
    let left = Cell::new(BYTES_MAX);
    Bounded(&left).deserialize(first).map_err(|error| error.to_string())
}

fn check_depth(text: &[u8]) -> Result<(), String> {
    let (mut open, mut line) = (0usize, 1usize);
    for byte in text {
        match byte {
            b'\n' => line += 1,
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > DEPTH_MAX {
            return Err(format!("line {line}: more than {DEPTH_MAX} brackets stand open"));
        }
    }
    Ok(())
}

/// Builds a value and takes what it costs from what is left.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a Cell<usize>);

impl Bounded<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        match self.0.get().checked_sub(bytes) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err(E::custom(format!("with its aliases put in, the document is larger than {BYTES_MAX} bytes"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML that JSON can say")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.spend(1).map(|()| value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.spend(8).map(|()| value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.spend(8).map(|()| value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.spend(8).map(|()| value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len() + 2).map(|()| value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(1).map(|()| Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.spend(2)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            self.spend(1)?;
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.spend(2)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(self)? {
            let key = match key {
                Value::String(text) => text,
                other => other.to_string(),
            };
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_is_read_as_json_would_be() {
        let text = b"a: 1\nb: [x, true, null, 1.5]\n2: {c: d}\n---\nsecond: 1\n";
        assert_eq!(first_document(text), Ok(json!({"a": 1, "b": ["x", true, null, 1.5], "2": {"c": "d"}})));
        assert_eq!(first_document(b""), Ok(Value::Null));
        assert!(first_document(b"a: [").is_err());
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_scanned() {
        let deep = "[".repeat(500_000);
        assert_eq!(first_document(deep.as_bytes()), Err("line 1: more than 256 brackets stand open".into()));
    }

    #[test]
    fn aliases_may_not_stand_for_more_than_a_body_could_hold() {
        let mut bomb = format!("a: &a \"{}\"\n", "x".repeat(100_000));
        (0..1000).for_each(|i| bomb.push_str(&format!("k{i}: *a\n")));
        let error = first_document(bomb.as_bytes()).expect_err("too large");
        assert!(error.contains("larger than 8388608 bytes"), "{error}");
    }
}
