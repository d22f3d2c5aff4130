//! Objects with nothing in them, as Go writes a struct that nobody has filled in.

use serde_json::{Map, Value};

use super::table::{Omission, Type, schema};

/// The blank object of a struct such as `core/v1.Pod`: what is left out when empty is left out.
pub(crate) fn of(name: &str) -> Value {
    schema().find(name).map_or(Value::Null, blank)
}

fn blank(place: usize) -> Value {
    let mut object = Map::new();
    for field in &schema().get(place).fields {
        let is_struct = !field.pointer
            && matches!(
                field.holds.plain(),
                Type::Struct(_) | Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString | Type::Any
            );
        // Go leaves no struct out for being empty, only one that says so.
        let written = match field.omission {
            Omission::Never => true,
            Omission::Empty => is_struct,
            Omission::Zero => false,
        };
        if written {
            let value = if field.pointer { Value::Null } else { zero(field.holds.plain()) };
            object.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(object)
}

fn zero(holds: &Type) -> Value {
    match holds {
        Type::String => "".into(),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::IntOrString | Type::Float64 => 0.into(),
        Type::Quantity => "0".into(),
        Type::Duration => "0s".into(),
        Type::Struct(place) => blank(*place),
        Type::Named(_, of) => zero(of),
        Type::Bytes | Type::Time | Type::MicroTime | Type::Any | Type::List(_) | Type::Map(_) | Type::SchemaOr(_) => {
            Value::Null
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_never_left_out_is_there() {
        let mut pod = of("core/v1.Pod");
        pod.as_object_mut().expect("a map").remove("metadata");
        assert_eq!(pod, json!({"spec": {"containers": null}, "status": {}}));
    }
}
