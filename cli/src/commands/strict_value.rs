//! Reads a value as a manifest must be: no key twice in one map.
//!
//! Parsers of JSON and of YAML let the last of equal keys win, so that a slip in a manifest would go unseen; here it is
//! refused (kubectl 1.36 with strict validation does so, too). The parser adds where the key stands.
//!
//! Invariant: a small file costs little. Aliases of YAML let a line stand for megabytes, so what is built has a budget; a
//! YAML parser needs minutes for brackets that are never closed, so they are counted before (`listwatch_proto::yaml`).

use std::cell::Cell;
use std::fmt;

use listwatch_proto::go_quote::quote;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What a document may come to when it is built: far more than a server takes, and nothing to a machine.
const BYTES_MAX: usize = 64 << 20;

/// A value none of whose maps names a key twice.
pub(super) struct StrictValue(pub(super) Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(BYTES_MAX);
        StrictVisitor { left: &left }.deserialize(deserializer).map(StrictValue)
    }
}

/// Builds one value, and what is in it, from one budget.
#[derive(Clone, Copy)]
struct StrictVisitor<'a> {
    /// Bytes that may still be built.
    left: &'a Cell<usize>,
}

impl StrictVisitor<'_> {
    /// Takes bytes from the budget before they are built.
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(format!("the document comes to more than {} MiB", BYTES_MAX >> 20))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.spend(size_of::<Value>())?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor<'_> {
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
        self.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.spend(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key {}", quote(&key))));
            }
            self.spend(key.len() + size_of::<String>())?;
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
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
    fn aliases_do_not_multiply_without_end() {
        let bomb = format!("a: &a \"{}\"\nb:\n{}", "x".repeat(1 << 20), "- *a\n".repeat(100));
        let error = serde_norway::from_str::<StrictValue>(&bomb).err().expect("refused").to_string();
        assert!(error.contains("the document comes to more than 64 MiB"), "{error}");
        let few = format!("a: &a \"{}\"\nb:\n{}", "x".repeat(1 << 20), "- *a\n".repeat(10));
        assert!(serde_norway::from_str::<StrictValue>(&few).is_ok());
        // Many small values cost, too.
        let empty = "- &a [[], [], [], [], [], [], [], []]\n".to_owned() + &"- *a\n".repeat(1 << 10);
        assert!(serde_norway::from_str::<StrictValue>(&empty).is_ok());
        let keys = format!("- &a {{{}: 1}}\n{}", "k".repeat(1 << 16), "- *a\n".repeat(1100));
        assert!(serde_norway::from_str::<StrictValue>(&keys).is_err());
    }
}
