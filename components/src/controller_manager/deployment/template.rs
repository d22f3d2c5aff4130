//! When two pod templates are the same, and the hash that names a set.
//!
//! Invariant: the hash depends on the template's content alone, not on the order of its fields, so every instance of the
//! controller makes the same name and a set is never created twice.

use serde_json::Value;

/// The label that tells the sets of a deployment, and their pods, apart.
pub const HASH_LABEL: &str = "pod-template-hash";
/// What hashes are written with (upstream's safe alphabet).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// Whether two templates differ in nothing but the hash label. Fields that are null are as good as missing.
pub fn same(a: &Value, b: &Value) -> bool {
    normal(a) == normal(b)
}

/// The hash of a template, as it stands in names and labels. The number of collisions is hashed too, so that another name
/// can be had.
pub fn hash(template: &Value, collisions: i64) -> String {
    let mut hash = FNV_OFFSET;
    feed(&mut hash, normal(template).to_string().as_bytes());
    if collisions > 0 {
        feed(&mut hash, &collisions.to_le_bytes());
    }
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

fn feed(hash: &mut u32, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME);
    }
}

/// The template without the hash label and without nulls, its fields in order of name.
fn normal(template: &Value) -> Value {
    let mut normal = sorted(template);
    if let Some(labels) = normal.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    normal
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            Value::Object(fields.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_content_counts() {
        let plain = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1, "b": [1, 2]}});
        let marked = json!({"spec": {"b": [1, 2], "a": 1}, "metadata": {"creationTimestamp": null,
            "labels": {"pod-template-hash": "x", "app": "web"}}});
        assert!(same(&plain, &marked));
        assert_eq!(hash(&plain, 0), hash(&marked, 0));
        let other = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1, "b": [2, 1]}});
        assert!(!same(&plain, &other));
        assert_ne!(hash(&plain, 0), hash(&other, 0));
        assert_ne!(hash(&plain, 0), hash(&plain, 1));
        assert!(hash(&plain, 0).bytes().all(|b| ALPHABET.contains(&b)));
    }

    #[test]
    fn the_hash_never_changes() {
        // A running cluster's sets are known by it.
        assert_eq!(hash(&json!({"spec": {"a": 1}}), 0), hash(&json!({"spec": {"a": 1}}), 0));
        let mut probe = FNV_OFFSET;
        feed(&mut probe, b"foobar");
        assert_eq!(probe, 0xbf9c_f968, "FNV-1a as published");
    }
}
