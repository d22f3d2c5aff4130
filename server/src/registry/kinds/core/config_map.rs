//! ConfigMap: settings for pods.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::keyed;
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::entries;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ConfigMapStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Data",
        "string",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values \
         with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the \
         keys in the BinaryData field, this is enforced during validation process.",
        0,
    ),
    AGE,
];

impl Strategy for ConfigMapStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.ConfigMap"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let (data, binary) = (part(object, "data"), part(object, "binaryData"));
        let mut bytes = 0;
        for (key, value) in entries(data) {
            let path = keyed::key("data", key, faults);
            if binary.get(key).is_some() {
                faults.invalid(&path, key, "duplicate of key present in binaryData");
            }
            bytes += value.as_str().map_or(0, str::len);
        }
        for (key, value) in entries(binary) {
            keyed::key("binaryData", key, faults);
            bytes += value.as_str().map_or(0, base64_bytes);
        }
        keyed::size(bytes, &Path::new(""), faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        keyed::immutable(new, old, &["data", "binaryData"], faults);
        self.validate_create(new, faults);
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let keys = ["data", "binaryData"].iter().map(|key| entries(part(object, key)).count()).sum::<usize>();
        vec![text(object.name()), Cell::Int(i64::try_from(keys).unwrap_or(i64::MAX)), age(object, now)]
    }
}

fn part<'a>(object: &'a Object, key: &str) -> &'a Value {
    object.at(&[key]).unwrap_or(&Value::Null)
}

/// How many bytes a base64 text stands for.
fn base64_bytes(text: &str) -> usize {
    let digits = text.bytes().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')).count();
    digits * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::keyed::BYTES_MAX;
    use super::*;
    use crate::registry::kinds::strategy;
    use serde_json::json;

    fn told(new: Value, old: Option<Value>) -> Vec<String> {
        strategy::told(&ConfigMapStrategy, new, old)
    }

    #[test]
    fn keys_and_size_are_checked() {
        assert!(told(json!({"data": {"a": "1"}, "binaryData": {"b": "AAAA"}}), None).is_empty());
        let doubled = told(json!({"data": {"a": "1"}, "binaryData": {"a": "AAAA"}}), None);
        assert_eq!(doubled, ["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"]);
        let big = told(json!({"data": {"a": "x".repeat(BYTES_MAX + 1)}}), None);
        assert_eq!(big, [": Too long: may not be more than 1048576 bytes"]);
        assert!(told(json!({"data": {"a": "x".repeat(BYTES_MAX)}}), None).is_empty());
        assert_eq!((base64_bytes("AA=="), base64_bytes("AAA="), base64_bytes("AAAA")), (1, 2, 3));
    }

    #[test]
    fn what_is_immutable_stays_so() {
        let old = json!({"data": {"a": "1"}, "immutable": true});
        assert!(told(old.clone(), Some(old.clone())).is_empty());
        let why = "Forbidden: field is immutable when `immutable` is set";
        assert_eq!(told(json!({"data": {"a": "2"}}), Some(old)), [format!("immutable: {why}"), format!("data: {why}")]);
    }
}
