//! `--sort-by`: objects in the order of one field.

use std::cmp::Ordering;

use listwatch_proto::resource::Quantity;
use serde_json::Value;

use super::jsonpath::{Template, relaxed};

/// A field to sort by.
#[derive(Debug, Clone)]
pub(crate) struct SortKey {
    path: String,
    template: Template,
}

impl SortKey {
    /// Reads `.metadata.name`, `{.metadata.name}` or `metadata.name`.
    ///
    /// # Errors
    /// kubectl's words for what is wrong with the path.
    pub(crate) fn parse(path: &str) -> Result<SortKey, String> {
        let (path, template) = relaxed(path)?;
        Ok(SortKey { path, template })
    }

    /// Sorts items whose objects `object` gives; those without the field come first, equals keep their order.
    ///
    /// # Errors
    /// If no object has the field, or it cannot be compared.
    pub(crate) fn sort<T>(&self, items: &mut Vec<T>, object: impl Fn(&T) -> Value) -> Result<(), String> {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            let value = object(&item);
            let found = self.template.find(&value)?;
            let key = found.into_iter().next().and_then(|part| part.into_iter().next()).map(|f| f.into_value());
            keyed.push((key, item));
        }
        let is_known = keyed.is_empty() || keyed.iter().any(|(key, _)| key.is_some());
        let unsortable = keyed.iter().find(|(key, _)| matches!(key, Some(Value::Object(_))));
        if unsortable.is_some() {
            return Err(format!("field {} is of a type that cannot be sorted", self.path));
        }
        keyed.sort_by(|(a, _), (b, _)| match (a, b) {
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        items.extend(keyed.into_iter().map(|(_, item)| item));
        if is_known {
            return Ok(());
        }
        Err(format!("couldn't find any field with path \"{}\" in the list of objects", self.path))
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        // Texts that are both quantities are compared as such: 900m before 1, 2 before 10.
        (Value::String(a), Value::String(b)) => match (a.parse::<Quantity>(), b.parse::<Quantity>()) {
            (Ok(a), Ok(b)) => a.nanos().cmp(&b.nanos()),
            _ => a.cmp(b),
        },
        (Value::Array(a), Value::Array(b)) => {
            let unequal = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        // Of different types: only an order that does not depend on where they stood.
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sorted(path: &str, values: &[Value]) -> Result<Vec<Value>, String> {
        let mut items: Vec<Value> = values.to_vec();
        SortKey::parse(path).expect("a path").sort(&mut items, Clone::clone).map(|()| items)
    }

    #[test]
    fn numbers_quantities_and_texts_have_their_own_orders() {
        let of = |values: &[Value]| values.iter().map(|v| json!({"a": v})).collect::<Vec<_>>();
        for (before, after) in [
            (vec![json!(10), json!(9), json!(-1)], vec![json!(-1), json!(9), json!(10)]),
            (vec![json!("10"), json!("2"), json!("1500m")], vec![json!("1500m"), json!("2"), json!("10")]),
            (vec![json!("b"), json!("a10"), json!("a2")], vec![json!("a10"), json!("a2"), json!("b")]),
            (vec![json!([2]), json!([1, 5])], vec![json!([1, 5]), json!([2])]),
        ] {
            assert_eq!(sorted(".a", &of(&before)), Ok(of(&after)));
        }
    }

    #[test]
    fn what_lacks_the_field_comes_first_and_a_field_that_nobody_has_is_told() {
        let items = [json!({"n": 1, "a": 1}), json!({"n": 2}), json!({"n": 3, "a": 0})];
        let order = |items: Vec<Value>| items.iter().map(|v| v["n"].as_i64().unwrap_or(0)).collect::<Vec<_>>();
        assert_eq!(sorted("a", &items).map(order), Ok(vec![2, 3, 1]));
        assert_eq!(
            sorted("{.b}", &items),
            Err("couldn't find any field with path \"{.b}\" in the list of objects".to_owned())
        );
        assert_eq!(sorted(".b", &[]), Ok(Vec::new()));
    }
}
