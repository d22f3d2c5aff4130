//! What Go says of a map that does not fit a struct when it is not read as JSON: the words of a strategic merge patch
//! with a wrong type in it (apimachinery's `runtime.DefaultUnstructuredConverter`).

use serde_json::{Map, Value};

use super::schema::decode_value;
use super::schema::json::Node;
use super::schema::table::{Type, schema};

/// The first place where a value is not of the declared type, in the order in which the fields are declared; `None` if
/// there is none.
pub(super) fn misfit(value: &Value, schema_name: &str) -> Option<String> {
    let place = schema().find(schema_name)?;
    of_type(value, &Type::Struct(place)).err()
}

fn of_type(value: &Value, wanted: &Type) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match wanted.plain() {
        Type::String | Type::Bool | Type::Int32 | Type::Int64 | Type::Float64 => scalar(value, wanted),
        Type::Struct(place) => match value {
            Value::Object(map) => structure(map, *place),
            other => Err(format!("cannot restore struct from: {}", kind_of(other))),
        },
        Type::Map(values) => match value {
            Value::Object(map) => map.values().try_for_each(|value| of_type(value, values)),
            other => Err(format!("cannot restore map from {}", kind_of(other))),
        },
        Type::List(items) => match value {
            Value::Array(list) => list.iter().try_for_each(|value| of_type(value, items)),
            other => Err(format!("cannot restore slice from {}", kind_of(other))),
        },
        Type::Bytes => match value {
            Value::String(_) => {
                decode_value(wanted, &Node::of(value)).map_err(|why| format!("error decoding from json: {why}"))
            }
            Value::Array(_) => Ok(()),
            other => Err(format!("cannot restore slice from {}", kind_of(other))),
        },
        // These read themselves from JSON.
        _ => decode_value(wanted, &Node::of(value)),
    }
}

fn structure(map: &Map<String, Value>, place: usize) -> Result<(), String> {
    for field in &schema().get(place).fields {
        if let Some(value) = map.get(field.name) {
            of_type(value, &field.holds)?;
        }
    }
    Ok(())
}

fn scalar(value: &Value, wanted: &Type) -> Result<(), String> {
    let kind = match wanted.plain() {
        Type::String => "string",
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        _ => "float64",
    };
    let whole = |number: &serde_json::Number| number.as_f64().is_some_and(|n| n == n.trunc());
    match (value, kind) {
        (Value::String(_), "string") | (Value::Bool(_), "bool") | (Value::Number(_), "float64") => Ok(()),
        (Value::Number(number), "int32" | "int64") if !number.is_f64() || whole(number) => Ok(()),
        // Go would make a letter of a number.
        (Value::Number(number), "string") if !number.is_f64() => {
            Err(format!("cannot convert int64 to {}", wanted.go_name()))
        }
        (Value::Number(number), "int32" | "int64") if number.is_f64() => {
            Err(format!("cannot convert float64 to {}", wanted.go_name()))
        }
        _ => Err(format!("unrecognized type: {kind}")),
    }
}

/// Makes the numbers of a value that fits those that its fields can hold, as Go's conversions do: too large ones lose their
/// upper half.
pub(super) fn narrow(value: &mut Value, schema_name: &str) {
    if let Some(place) = schema().find(schema_name) {
        narrow_to(value, &Type::Struct(place));
    }
}

fn narrow_to(value: &mut Value, wanted: &Type) {
    match (wanted.plain(), value) {
        (own @ (Type::Int32 | Type::Int64), value @ Value::Number(_)) => {
            let number = whole(value).unwrap_or(i64::MIN);
            // The lower half, which is what is wanted.
            #[allow(clippy::cast_possible_truncation)]
            let number = if *own == Type::Int32 { i64::from(number as i32) } else { number };
            *value = number.into();
        }
        (Type::Struct(place), Value::Object(map)) => {
            for field in &schema().get(*place).fields {
                if let Some(value) = map.get_mut(field.name) {
                    narrow_to(value, &field.holds);
                }
            }
        }
        (Type::Map(values), Value::Object(map)) => map.values_mut().for_each(|value| narrow_to(value, values)),
        (Type::List(items), Value::Array(list)) => list.iter_mut().for_each(|value| narrow_to(value, items)),
        _ => {}
    }
}

/// A number without its fraction; `None` = it is beyond all that fits.
fn whole(value: &Value) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let float = value.as_f64().filter(|float| (-BEYOND..BEYOND).contains(float));
    #[allow(clippy::cast_possible_truncation)]
    value.as_i64().or_else(|| float.map(|float| float as i64))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_that_are_too_large_lose_their_upper_half() {
        for (sent, kept) in [
            (json!(2_147_483_648_i64), -2_147_483_648_i64),
            (json!(-2_147_483_649_i64), 2_147_483_647),
            (json!(9_223_372_036_854_775_808_u64), 0),
            (json!(2.0), 2),
            (json!(7), 7),
        ] {
            let mut value =
                json!({"spec": {"replicas": sent, "template": {"spec": {"terminationGracePeriodSeconds": 5}}}});
            narrow(&mut value, "apps/v1.Deployment");
            assert_eq!(value["spec"]["replicas"], kept, "{sent}");
            assert_eq!(value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 5);
        }
    }

    #[test]
    fn what_does_not_fit_is_told_in_gos_words() {
        for (spec, expected) in [
            (json!({"replicas": "x"}), Some("unrecognized type: int32")),
            (json!({"replicas": true}), Some("unrecognized type: int32")),
            (json!({"replicas": 1.5}), Some("cannot convert float64 to int32")),
            (json!({"replicas": 2.0, "paused": null}), None),
            (json!({"paused": "yes"}), Some("unrecognized type: bool")),
            (json!({"selector": []}), Some("cannot restore struct from: slice")),
            (json!({"selector": {"matchLabels": "x"}}), Some("cannot restore map from string")),
            (json!({"selector": {"matchLabels": {"a": 5}}}), Some("cannot convert int64 to string")),
            (json!({"template": {"spec": {"containers": {}}}}), Some("cannot restore slice from map")),
            (json!({"template": {"spec": {"restartPolicy": 1}}}), Some("cannot convert int64 to v1.RestartPolicy")),
            (json!({"template": {"spec": {"unknown": 1}}}), None),
        ] {
            let found = misfit(&json!({"spec": spec}), "apps/v1.Deployment");
            assert_eq!(found.as_deref(), expected, "{spec}");
        }
        let lease = json!({"spec": {"renewTime": "2024-01-01T00:00:00Z"}});
        assert_eq!(
            misfit(&lease, "coordination/v1.Lease").as_deref(),
            Some(
                "parsing time \"2024-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \
                 \".000000\""
            )
        );
        let secret = json!({"data": {"k": "!"}});
        assert_eq!(
            misfit(&secret, "core/v1.Secret").as_deref(),
            Some("error decoding from json: illegal base64 data at input byte 0")
        );
    }
}
