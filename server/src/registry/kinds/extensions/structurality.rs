//! Whether a schema is structural: every value has one place in it that says its type, and what stands in `allOf`,
//! `anyOf`, `oneOf` and `not` only judges (apiextensions-apiserver `ValidateStructural`, Kubernetes 1.36).

use regex::Regex;
use serde_json::{Value, json};

use crate::registry::kinds::vocabulary::faults::{Faults, Path};

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// What in a schema cannot stand in a structural one at all.
pub(super) fn unreadable(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return None;
    }
    let said = |key: &str| match &schema[key] {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    const FIELDS: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = FIELDS.iter().find(|(key, _)| said(key)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let of_each = ["allOf", "anyOf", "oneOf"].iter().flat_map(|key| items(&schema[*key]));
    let single = ["items", "additionalProperties", "not"].iter().map(|key| &schema[*key]);
    let properties = fields(&schema["properties"]).map(|(_, below)| below);
    of_each.chain(single).chain(properties).find_map(unreadable)
}

/// Every fault of a schema that keeps it from being structural.
pub(super) fn validate(schema: &Value, path: &Path, faults: &mut Faults) {
    invariants(schema, Level::Root, path, faults);
    complete(schema, Some(schema), path, path, faults);
}

fn invariants(schema: &Value, level: Level, path: &Path, faults: &mut Faults) {
    if !schema.is_object() {
        return;
    }
    let kind = text(schema, "type");
    let flag = |key: &str| schema[key] == true;
    let (embedded, preserves) = (flag("x-kubernetes-embedded-resource"), flag("x-kubernetes-preserve-unknown-fields"));
    let int_or_string = flag("x-kubernetes-int-or-string");
    if kind == "array" && !schema["items"].is_object() {
        faults.required(&path.child("items"), "must be specified");
    }
    invariants(&schema["items"], Level::Item, &path.child("items"), faults);
    for (name, below) in fields(&schema["properties"]) {
        invariants(below, Level::Field, &path.child("properties").key(name), faults);
    }
    let additional = &schema["additionalProperties"];
    if !additional.is_null() {
        if level == Level::Root {
            faults.forbidden(&path.child("additionalProperties"), "must not be used at the root");
        }
        invariants(additional, Level::Field, &path.child("additionalProperties"), faults);
    }
    for (key, set) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", embedded)]
    {
        if int_or_string && set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            faults.invalid(&path.child(key), &Value::Bool(true), why);
        }
    }
    let any = is_int_or_string(&schema["anyOf"]);
    let first = items(&schema["allOf"]).first().is_some_and(|first| is_int_or_string(&first["anyOf"]));
    judging(schema, any, first, level, path, faults);
    type_faults(kind, embedded, int_or_string || preserves, level, path, faults);
    if embedded && !additional.is_null() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        faults.forbidden(&path.child("additionalProperties"), why);
    }
    metadata(schema, level == Level::Root || embedded, level, path, faults);
    if embedded && !preserves && fields(&schema["properties"]).next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        faults.required(&path.child("properties"), why);
    }
}

fn type_faults(kind: &str, embedded: bool, needs_none: bool, level: Level, path: &Path, faults: &mut Faults) {
    let path = path.child("type");
    let why = "must be object if x-kubernetes-embedded-resource is true";
    match kind {
        "" if embedded => faults.required(&path, why),
        kind if embedded && kind != "object" => faults.invalid(&path, kind, why),
        "" if !needs_none => faults.required(
            &path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ),
        _ => {}
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        faults.invalid(&path, kind, "must be object at the root");
    }
}

/// What every object has may not be described otherwise than it is.
fn metadata(schema: &Value, checks: bool, level: Level, path: &Path, faults: &mut Faults) {
    let properties = &schema["properties"];
    let path = path.child("properties");
    for key in ["kind", "apiVersion"] {
        if let Some(own) = properties.get(key).filter(|_| checks)
            && text(own, "type") != "string"
        {
            faults.invalid(&path.key(key).child("type"), text(own, "type"), "must be string");
        }
    }
    let Some(own) = properties.get("metadata") else { return };
    let path = path.key("metadata");
    if checks && text(own, "type") != "object" {
        faults.invalid(&path.child("type"), text(own, "type"), "must be object");
    }
    if level != Level::Root {
        return;
    }
    let names_only = fields(&own["properties"]).all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let rest = fields(own).any(|(key, _)| !matches!(key.as_str(), "type" | "properties" | "default"));
    if !names_only || rest {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        faults.forbidden(&path, why);
    }
}

/// The one pattern in which types may stand in `anyOf`.
fn is_int_or_string(any_of: &Value) -> bool {
    *any_of == json!([{"type": "integer"}, {"type": "string"}])
}

/// What judges values, at the place itself.
fn judging(schema: &Value, skips_any: bool, skips_first: bool, level: Level, path: &Path, faults: &mut Faults) {
    if !skips_any {
        for (i, below) in items(&schema["anyOf"]).iter().enumerate() {
            nested(below, false, level, &path.child("anyOf").index(i), faults);
        }
    }
    for (i, below) in items(&schema["allOf"]).iter().enumerate() {
        nested(below, skips_first && i == 0, level, &path.child("allOf").index(i), faults);
    }
    for (i, below) in items(&schema["oneOf"]).iter().enumerate() {
        nested(below, false, level, &path.child("oneOf").index(i), faults);
    }
    nested(&schema["not"], false, level, &path.child("not"), faults);
    let pattern = text(schema, "pattern");
    if let Err(error) = Regex::new(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        faults.invalid(&path.child("pattern"), pattern, &why);
    }
}

/// A schema that only judges.
fn nested(schema: &Value, skips_any: bool, level: Level, path: &Path, faults: &mut Faults) {
    if !schema.is_object() {
        return;
    }
    judging(schema, skips_any, false, level, path, faults);
    nested(&schema["items"], false, level, &path.child("items"), faults);
    for (name, below) in fields(&schema["properties"]) {
        nested(below, false, Level::Field, &path.child("properties").key(name), faults);
    }
    const FORBIDDEN: [(&str, &str); 12] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
    ];
    for (key, why) in FORBIDDEN {
        if !matches!(schema[key], Value::Null | Value::Bool(false))
            || (key == "additionalProperties" && schema[key] == false)
        {
            faults.forbidden(&path.child(key), why);
        }
    }
    if !items(&schema["x-kubernetes-validations"]).is_empty() {
        faults.forbidden(&path.child("x-kubernetes-validations"), "must be empty to be structural");
    }
    if schema["properties"].get("metadata").is_some() {
        let why = "must not be specified in a nested context";
        faults.forbidden(&path.child("properties").key("metadata"), why);
    }
}

/// What is judged must also stand where the structure is. `judged` is at `judged_path`, the structure at `path`.
fn complete(judged: &Value, structure: Option<&Value>, path: &Path, judged_path: &Path, faults: &mut Faults) {
    let below = |below: &Value, at: Path, faults: &mut Faults| {
        if below.is_object() {
            nested_complete(below, structure, path, &at, faults);
        }
    };
    below(&judged["not"], judged_path.child("not"), faults);
    for key in ["allOf", "anyOf", "oneOf"] {
        for (i, one) in items(&judged[key]).iter().enumerate() {
            below(one, judged_path.child(key).index(i), faults);
        }
    }
}

fn nested_complete(judged: &Value, structure: Option<&Value>, path: &Path, judged_path: &Path, faults: &mut Faults) {
    let because = |at: &Path| format!("because it is defined in {at}");
    let Some(structure) = structure else {
        faults.required(path, &because(judged_path));
        return;
    };
    complete(judged, Some(structure), path, judged_path, faults);
    if judged["items"].is_object() {
        let own = Some(&structure["items"]).filter(|own| own.is_object());
        nested_complete(&judged["items"], own, &path.child("items"), &judged_path.child("items"), faults);
    }
    for (name, below) in fields(&judged["properties"]) {
        let (path, judged_path) = (path.child("properties").key(name), judged_path.child("properties").key(name));
        match structure["properties"].get(name) {
            None => faults.required(&path, &because(&judged_path)),
            own => nested_complete(below, own, &path, &judged_path, faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(schema: Value) -> Vec<String> {
        let mut faults = Faults::new();
        validate(&schema, &Path::new("s"), &mut faults);
        faults.told()
    }

    #[test]
    fn every_value_has_a_type() {
        assert_eq!(
            told(json!({"properties": {"a": {"type": "string"}}})),
            ["s.type: Required value: must not be empty at the root"]
        );
        assert_eq!(
            told(json!({"type": "object", "properties": {"a": {}, "b": {"type": "array", "items": {}}}})),
            [
                "s.properties[a].type: Required value: must not be empty for specified object fields",
                "s.properties[b].items.type: Required value: must not be empty for specified array items"
            ]
        );
        let fine = json!({"type": "object", "properties": {"q": {"x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}]}, "p": {"x-kubernetes-preserve-unknown-fields": true}}});
        assert_eq!(told(fine), [""; 0]);
    }

    #[test]
    fn what_only_judges_has_no_structure_of_its_own() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "anyOf": [{"properties": {"a": {"type": "string", "pattern": "["}, "b": {"minimum": 1}}}]});
        let told = told(schema);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("s.anyOf[0].properties[a].pattern: Invalid value: \"[\": must be a valid regular"));
        assert_eq!(told[1], "s.anyOf[0].properties[a].type: Forbidden: must be empty to be structural");
        assert_eq!(told[2], "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]");
    }

    #[test]
    fn metadata_is_what_it_is() {
        let of = |metadata: Value| told(json!({"type": "object", "properties": {"metadata": metadata}}));
        assert_eq!(of(json!({"type": "object", "properties": {"name": {"type": "string"}}})), [""; 0]);
        assert_eq!(
            of(json!({"type": "object", "properties": {"labels": {"type": "object"}}})),
            [
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata \
             is implicitly specified"
            ]
        );
    }
}
