//! The tables as OpenAPI v3 schemas, under upstream's names.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::{Field, Omission, Type, schema};

/// `io.k8s.api.core.v1.Pod` of `core/v1.Pod`.
pub(crate) fn name_of(struct_name: &str) -> String {
    let (package, rest) = struct_name.split_once('/').unwrap_or(("", struct_name));
    match package {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.{rest}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{rest}"),
        _ => format!("io.k8s.api.{package}.{rest}"),
    }
}

/// The schemas of these structs and of all that they hold.
pub(crate) fn schemas(roots: &[&str]) -> Map<String, Value> {
    let mut waiting: Vec<usize> = roots.iter().filter_map(|root| schema().find(root)).collect();
    let (mut seen, mut schemas) = (BTreeSet::new(), Map::new());
    while let Some(place) = waiting.pop() {
        if !seen.insert(place) {
            continue;
        }
        let found = schema().get(place);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &found.fields {
            note(&field.holds, &mut waiting);
            properties.insert(field.name.to_owned(), property(field));
            if field.omission == Omission::Never && !field.pointer && !matches!(field.name, "apiVersion" | "kind") {
                required.push(field.name);
            }
        }
        let mut object = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            object["required"] = json!(required);
        }
        schemas.insert(name_of(found.name), object);
    }
    schemas
}

fn note(holds: &Type, waiting: &mut Vec<usize>) {
    match holds {
        Type::Struct(place) => waiting.push(*place),
        Type::SchemaOr(_) => note(&schema().json_schema(), waiting),
        Type::Named(_, of) | Type::List(of) | Type::Map(of) => note(of, waiting),
        _ => {}
    }
}

fn property(field: &Field) -> Value {
    let mut property = of(&field.holds);
    let is_reference = property.get("$ref").is_some();
    let extensions = extensions(field);
    if is_reference && (!extensions.is_empty() || !field.default.is_empty()) {
        // Nothing may stand beside a reference.
        property = json!({"allOf": [property]});
    }
    let Value::Object(map) = &mut property else { return property };
    map.extend(extensions);
    if let Ok(default) = serde_json::from_str::<Value>(field.default) {
        map.insert("default".to_owned(), default);
    }
    property
}

fn extensions(field: &Field) -> Map<String, Value> {
    let mut extensions = Map::new();
    let (list, keys) = field.list.split_once(':').unwrap_or((field.list, ""));
    if !list.is_empty() {
        extensions.insert("x-kubernetes-list-type".to_owned(), list.into());
    }
    if !keys.is_empty() {
        extensions.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys.split(',').collect::<Vec<_>>()));
    }
    if field.atomic {
        extensions.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    let (strategy, key) = field.patch.split_once(':').unwrap_or((field.patch, ""));
    if !strategy.is_empty() {
        extensions.insert("x-kubernetes-patch-strategy".to_owned(), strategy.into());
    }
    if !key.is_empty() {
        extensions.insert("x-kubernetes-patch-merge-key".to_owned(), key.into());
    }
    extensions
}

fn of(holds: &Type) -> Value {
    match holds.plain() {
        Type::String => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Float64 => json!({"type": "number", "format": "double"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::Duration => json!({"type": "string"}),
        Type::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Type::IntOrString => json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
        Type::Any => json!({"type": "object"}),
        // A schema, a boolean or a list: no type says that.
        Type::SchemaOr(_) => json!({}),
        Type::List(items) => json!({"type": "array", "items": of(items)}),
        Type::Map(values) => json!({"type": "object", "additionalProperties": of(values)}),
        Type::Struct(place) => {
            json!({"$ref": format!("#/components/schemas/{}", name_of(schema().get(*place).name))})
        }
        Type::Named(_, inner) => of(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_brings_all_that_it_holds() {
        let schemas = schemas(&["apps/v1.Deployment"]);
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["items"]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Container");
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"], json!(["containers"]));
        assert!(schemas.contains_key("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
        let text = Value::Object(schemas.clone()).to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().expect("quoted");
            assert!(schemas.contains_key(name), "{name} is referred to and not there");
        }
    }
}
