//! Defaulting: what was left out is filled in, from the outside in.

use serde_json::Value;

use super::schema::Schema;

/// Fills in what was left out, and nulls that are no values.
pub(in super::super) fn default(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                if fields.get(name).is_none_or(|own| own.is_null() && !property.nullable) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, own) in fields.iter_mut() {
                if let Some(of) = schema.field(name) {
                    fill(own, of);
                    default(own, of);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = &schema.items else { return };
            for item in items {
                fill(item, of);
                default(item, of);
            }
        }
        _ => {}
    }
}

/// A null that is no value becomes the default.
fn fill(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

/// Takes away nulls that are no values and have no default to stand for them.
pub(in super::super) fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, own| {
                let of = schema.and_then(|schema| schema.field(name));
                let is_nothing = own.is_null() && of.is_some_and(|of| !of.nullable && of.default.is_none());
                if !is_nothing {
                    drop_nulls(own, of);
                }
                !is_nothing
            });
        }
        Value::Array(items) => {
            let of = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(item, of));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_left_out_is_filled_in_from_the_outside_in() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "color": {"type": "string", "default": "red"},
                "none": {"type": "string", "nullable": true, "default": "x"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "nullable": false,
                    "properties": {"m": {"type": "integer", "default": 2}}}}}}));
        let mut value = json!({"list": [{}, {"n": 5}], "map": {"a": {}}});
        default(&mut value, &schema);
        assert_eq!(
            value,
            json!({"spec": {"color": "red", "none": "x"}, "list": [{"n": 1}, {"n": 5}], "map": {"a": {"m": 2}}})
        );
        let mut nulls = json!({"spec": {"color": null, "none": null}});
        default(&mut nulls, &schema);
        assert_eq!(nulls, json!({"spec": {"color": "red", "none": null}}));
    }

    #[test]
    fn nulls_that_are_no_values_go() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "nullable": true}, "c": {"type": "string", "default": "x"}}}));
        let mut value = json!({"a": null, "b": null, "c": null, "d": null});
        drop_nulls(&mut value, Some(&schema));
        assert_eq!(value, json!({"b": null, "c": null, "d": null}));
    }
}
