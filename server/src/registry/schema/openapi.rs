//! The tables as OpenAPI v3 schemas, under upstream's names and with upstream's words.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::{Field, Other, Struct, Type, schema};
use super::words::Words;

/// `io.k8s.api.core.v1.Pod` of `core/v1.Pod`.
pub(crate) fn name_of(struct_name: &str) -> String {
    let (package, rest) = struct_name.split_once('/').unwrap_or(("", struct_name));
    match package {
        "meta" => format!("{META}{rest}"),
        "apiextensions" => format!("{EXTENSIONS}{rest}"),
        _ => format!("io.k8s.api.{package}.{rest}"),
    }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.";
/// What every document of a group version refers to, whatever its kinds.
const ALWAYS: [&str; 4] = ["meta/v1.DeleteOptions", "meta/v1.ListMeta", "meta/v1.ObjectMeta", "meta/v1.Status"];
/// The schema of a patch, which is said to be an object and no more.
pub(crate) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// The schemas of these structs, and of all that they hold.
pub(crate) fn schemas(roots: &[&str], words: &Words) -> Map<String, Value> {
    let mut made = Made { words, waiting: Vec::new(), scalars: BTreeSet::new() };
    let all = roots.iter().chain(&ALWAYS).filter_map(|root| schema().find(root));
    made.waiting.extend(all);
    let (mut seen, mut schemas) = (BTreeSet::new(), Map::new());
    while let Some(place) = made.waiting.pop() {
        if seen.insert(place) {
            let found = schema().get(place);
            schemas.insert(name_of(found.name), made.structure(found));
        }
    }
    let about = "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.";
    schemas.insert(PATCH.to_owned(), json!({"description": about, "type": "object"}));
    for name in std::mem::take(&mut made.scalars) {
        let mut scalar = scalar_schema(name);
        describe(&mut scalar, words.of(name).map_or("", |told| &told.description));
        schemas.insert(name.to_owned(), scalar);
    }
    schemas
}

/// The list of objects of a schema, in the words of the list of a struct, if there are any.
pub(crate) fn list(schema: &str, struct_name: &str, words: &Words) -> Value {
    let name = format!("{struct_name}List");
    let kind = schema.rsplit('.').next().unwrap_or_default();
    let mut properties = Map::new();
    for (field, mut property) in [
        ("apiVersion", json!({"type": "string"})),
        ("kind", json!({"type": "string"})),
        ("metadata", json!({"default": {}, "allOf": [reference(&format!("{META}v1.ListMeta"))]})),
        ("items", json!({"type": "array", "items": {"default": {}, "allOf": [reference(schema)]}})),
    ] {
        describe(&mut property, words.field(&name, field).map_or("", |told| &told.description));
        properties.insert(field.to_owned(), property);
    }
    let mut list = json!({"type": "object", "properties": properties, "required": ["items"]});
    let about = format!("{kind}List is a list of {kind}");
    describe(&mut list, words.of(&name).map_or(&about, |told| &told.description));
    list
}

/// Schemas in the making.
struct Made<'a> {
    words: &'a Words,
    /// Structs that are referred to.
    waiting: Vec<usize>,
    /// Scalars with a form of their own that are referred to.
    scalars: BTreeSet<&'static str>,
}

impl Made<'_> {
    fn structure(&mut self, found: &Struct) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &found.fields {
            properties.insert(field.name.to_owned(), self.property(found.name, field));
            if field.required {
                required.push(field.name);
            }
        }
        let mut object = json!({"type": "object"});
        if !properties.is_empty() {
            object["properties"] = properties.into();
        }
        if !required.is_empty() {
            object["required"] = json!(required);
        }
        if found.atomic {
            object["x-kubernetes-map-type"] = "atomic".into();
        }
        describe(&mut object, self.words.of(found.name).map_or("", |told| &told.description));
        object
    }

    fn property(&mut self, of: &str, field: &Field) -> Value {
        let told = self.words.field(of, field.name);
        let mut property = self.of(&field.holds, told.and_then(|told| told.refers));
        let default = field.unsaid();
        let mut beside = extensions(field);
        if let Some(told) = told {
            if !told.description.is_empty() {
                beside.insert("description".to_owned(), told.description.as_str().into());
            }
            if !told.values.is_empty() {
                let held = match field.holds.plain() {
                    Type::List(_) => property.get_mut("items"),
                    Type::Map(_) => property.get_mut("additionalProperties"),
                    _ => None,
                };
                match held {
                    Some(held) => held["enum"] = json!(told.values),
                    None => drop(beside.insert("enum".to_owned(), json!(told.values))),
                }
            }
        }
        if let Some(default) = default {
            beside.insert("default".to_owned(), default);
        }
        if property.get("$ref").is_some() && !beside.is_empty() {
            // Nothing may stand beside a reference.
            property = json!({"allOf": [property]});
        }
        if let Value::Object(map) = &mut property {
            map.extend(beside);
        }
        property
    }

    /// A type; `any` is the schema of what may hold any JSON.
    fn of(&mut self, holds: &Type, any: Option<&'static str>) -> Value {
        match holds.plain() {
            Type::String => json!({"type": "string"}),
            Type::Bool => json!({"type": "boolean"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Float64 => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Duration => json!({"type": "string"}),
            Type::List(items) => json!({"type": "array", "items": self.inner(items, any)}),
            Type::Map(values) => json!({"type": "object", "additionalProperties": self.inner(values, any)}),
            Type::Struct(place) => {
                self.waiting.push(*place);
                reference(&name_of(schema().get(*place).name))
            }
            other => match scalar_name(other).or(any) {
                Some(name) => {
                    self.scalars.insert(name);
                    if matches!(other, Type::SchemaOr(_)) {
                        self.waiting.extend(schema().find(super::table::JSON_SCHEMA));
                    }
                    reference(name)
                }
                None => json!({"type": "object"}),
            },
        }
    }

    /// What a list or a map holds.
    fn inner(&mut self, holds: &Type, any: Option<&'static str>) -> Value {
        let mut inner = self.of(holds, any);
        if let Some(default) = holds.empty() {
            if inner.get("$ref").is_some() {
                inner = json!({"allOf": [inner]});
            }
            inner["default"] = default;
        }
        inner
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn describe(schema: &mut Value, description: &str) {
    if !description.is_empty() {
        schema["description"] = description.into();
    }
}

/// The schema of a scalar that has a name.
fn scalar_name(holds: &Type) -> Option<&'static str> {
    Some(match holds {
        Type::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        Type::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        Type::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
        Type::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        Type::SchemaOr(Other::Bool) => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        Type::SchemaOr(Other::Schemas) => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
        }
        Type::SchemaOr(Other::Strings) => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
        }
        _ => return None,
    })
}

fn scalar_schema(name: &str) -> Value {
    match name.rsplit('.').next().unwrap_or_default() {
        "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
        "Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "IntOrString" => json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
        "FieldsV1" | "RawExtension" => json!({"type": "object"}),
        // Any JSON; a schema or another form of one: no type says that.
        _ => json!({}),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_brings_all_that_it_holds() {
        let schemas = schemas(&["apps/v1.Deployment"], &Words::read());
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["items"]["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Container");
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
