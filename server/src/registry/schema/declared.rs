//! JSON in the order in which the fields are declared, as Go writes its structs.
//!
//! Objects are kept and served with their keys sorted, which says the same. Where a text itself is what people see, a
//! Status that kubectl prints as it came or a message that quotes an object, the order is upstream's.

use serde_json::{Map, Value};

use super::table::{Type, schema};

/// The text of a value of a declared struct. Keys that it does not declare follow, sorted.
pub(crate) fn text(value: &Value, schema_name: &str) -> String {
    patched_text(value, schema_name, &Value::Null)
}

/// The text of a value that a patch of JSON has changed: the maps on the way to what was changed have their keys
/// sorted, since upstream's library takes only these apart. `touched` is a tree of those keys.
pub(crate) fn patched_text(value: &Value, schema_name: &str, touched: &Value) -> String {
    let mut out = String::new();
    put(&mut out, value, schema().find(schema_name).map(Type::Struct).as_ref(), touched);
    out
}

fn put(out: &mut String, value: &Value, holds: Option<&Type>, touched: &Value) {
    let holds = holds.map(Type::plain);
    match value {
        Value::Object(map) => put_map(out, map, holds, touched),
        Value::Array(items) => {
            let of = match holds {
                Some(Type::List(of)) => Some(&**of),
                _ => None,
            };
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                put(out, item, of, &touched[i.to_string()]);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn put_map(out: &mut String, map: &Map<String, Value>, holds: Option<&Type>, touched: &Value) {
    let fields = match holds {
        Some(Type::Struct(place)) => &schema().get(*place).fields[..],
        _ => &[],
    };
    let of = |key: &str| match holds {
        Some(Type::Map(of)) => Some(&**of),
        _ => fields.iter().find(|field| field.name == key).map(|field| &field.holds),
    };
    let declared = fields.iter().map(|field| field.name).filter(|_| !touched.is_object());
    let first: Vec<&str> = declared.filter(|name| map.contains_key(*name)).collect();
    let rest = map.keys().map(String::as_str).filter(|key| !first.contains(key));
    out.push('{');
    for (i, key) in first.iter().copied().chain(rest).enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&Value::from(key).to_string());
        out.push(':');
        put(out, &map[key], of(key), &touched[key]);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_is_laid_out_as_go_does() {
        let status = json!({
            "apiVersion": "v1", "code": 404, "details": {"kind": "pods", "name": "a"}, "kind": "Status",
            "message": "pods \"a\" not found", "metadata": {}, "reason": "NotFound", "status": "Failure",
        });
        assert_eq!(
            text(&status, "meta/v1.Status"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}"#
        );
    }

    #[test]
    fn what_a_patch_has_taken_apart_is_sorted() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"uid": "u", "name": "a", "labels": {"b": "1", "a": "2"}},
            "spec": {"containers": [{"image": "i", "name": "c"}]}});
        let whole = text(&object, "core/v1.Pod");
        assert_eq!(
            whole,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"a":"2","b":"1"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#
        );
        let touched = json!({"spec": {"containers": 1}});
        assert_eq!(
            patched_text(&object, "core/v1.Pod", &touched),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","labels":{"a":"2","b":"1"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#
        );
    }
}
