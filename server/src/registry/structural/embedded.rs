//! Whole objects inside of objects (`x-kubernetes-embedded-resource`): they have an apiVersion, a kind and metadata, which
//! no schema needs to name.

use serde_json::{Map, Value};

use super::super::kinds::{Faults, Path, validate_object_metadata};
use super::super::schema::decode;
use super::super::schema::json::Node;
use super::schema::{Additional, Schema};

/// Brings the metadata of embedded objects into Kubernetes' own form and answers the paths of fields that metadata does
/// not have. What is of a wrong type is told, or dropped if `drops`: what lies in the store was once taken.
///
/// # Errors
/// Where what is of a wrong type, and why.
pub(in super::super) fn coerce(
    value: &mut Value,
    schema: &Schema,
    path: &Path,
    drops: bool,
) -> Result<Vec<String>, (Path, String)> {
    let mut unknown = Vec::new();
    go(value, schema, path, drops, &mut unknown)?;
    unknown.sort_unstable();
    Ok(unknown)
}

fn go(
    value: &mut Value,
    schema: &Schema,
    path: &Path,
    drops: bool,
    unknown: &mut Vec<String>,
) -> Result<(), (Path, String)> {
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                embedded(fields, path, drops, unknown)?;
            }
            for (name, own) in fields.iter_mut() {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(of), _) => go(own, of, &path.child(name), drops, unknown)?,
                    (None, Some(Additional::Of(of))) => go(own, of, &path.key(name), drops, unknown)?,
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = &schema.items else { return Ok(()) };
            for (i, item) in items.iter_mut().enumerate() {
                go(item, of, &path.index(i), drops, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn embedded(
    fields: &mut Map<String, Value>,
    path: &Path,
    drops: bool,
    unknown: &mut Vec<String>,
) -> Result<(), (Path, String)> {
    for key in ["apiVersion", "kind"] {
        if fields.get(key).is_some_and(|value| !value.is_string()) {
            if !drops {
                return Err((path.child(key), "must be a string".to_owned()));
            }
            fields.remove(key);
        }
    }
    let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
    let path = path.child("metadata");
    match read_metadata(metadata) {
        Ok((read, strict)) => {
            // `unknown field "x"`, with the path to the metadata before the name.
            let names = strict.iter().filter_map(|told| told.split('"').nth(1));
            unknown.extend(names.map(|name| format!("{path}.{name}")));
            *metadata = Value::Object(read);
        }
        Err(why) if !drops => return Err((path, why)),
        Err(_) => *metadata = Value::Object(readable_metadata(metadata)),
    }
    Ok(())
}

/// Metadata in Kubernetes' own form, and what strict validation says of it.
pub(in super::super) fn read_metadata(metadata: &Value) -> Result<(Map<String, Value>, Vec<String>), String> {
    let decoded = decode("meta/v1.ObjectMeta", &Node::of(metadata)).map_err(|wrong| wrong.message)?;
    Ok((decoded.object, decoded.strict))
}

/// The fields of metadata that are of the right type.
fn readable_metadata(metadata: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in metadata.as_object().into_iter().flatten() {
        let mut one = Map::new();
        one.insert(key.clone(), value.clone());
        if let Ok((read, _)) = read_metadata(&Value::Object(one)) {
            all.extend(read);
        }
    }
    all
}

/// Every fault of embedded objects' own parts.
pub(in super::super) fn validate(value: &Value, schema: &Schema, path: &Path, faults: &mut Faults) {
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                validate_one(fields, path, faults);
            }
            for (name, own) in fields {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(of), _) => validate(own, of, &path.child(name), faults),
                    (None, Some(Additional::Of(of))) => validate(own, of, &path.key(name), faults),
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = &schema.items else { return };
            items.iter().enumerate().for_each(|(i, item)| validate(item, of, &path.index(i), faults));
        }
        _ => {}
    }
}

fn validate_one(fields: &Map<String, Value>, path: &Path, faults: &mut Faults) {
    for key in ["apiVersion", "kind"] {
        if !fields.contains_key(key) {
            faults.required(&path.child(key), "");
        }
    }
    if let Some(version) = fields.get("apiVersion") {
        let path = path.child("apiVersion");
        match version.as_str() {
            None => faults.invalid(&path, version, "must be a string"),
            Some("") => faults.invalid(&path, "", "must not be empty"),
            Some(text) if text.matches('/').count() > 1 => {
                faults.invalid(&path, text, &format!("unexpected GroupVersion string: {text}"));
            }
            Some(_) => {}
        }
    }
    if let Some(kind) = fields.get("kind") {
        let path = path.child("kind");
        match kind.as_str() {
            None => faults.invalid(&path, kind, "must be a string"),
            Some("") => faults.invalid(&path, "", "must not be empty"),
            Some(text) => {
                let why = super::super::kinds::label_1035_faults(&text.to_lowercase());
                if !why.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", why.join(","));
                    faults.invalid(&path, text, &detail);
                }
            }
        }
    }
    let Some(metadata) = fields.get("metadata") else { return };
    let path = path.child("metadata");
    match read_metadata(metadata) {
        Err(why) => faults.invalid(&path, metadata, &why),
        Ok((read, _)) => validate_object_metadata(&read, &path, faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::read(&json!({"type": "object", "properties": {"template": {"type": "object",
            "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}))
    }

    #[test]
    fn metadata_of_embedded_objects_is_brought_into_form() {
        let mut value = json!({"template": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "x": 1}}});
        let unknown = coerce(&mut value, &schema(), &Path::new(""), false).expect("well-formed");
        assert_eq!(unknown, ["template.metadata.x"]);
        assert_eq!(value["template"]["metadata"], json!({"name": "a"}));
        let mut wrong = json!({"template": {"kind": 1, "metadata": {"name": 5, "labels": {"a": "b"}}}});
        let (path, why) = coerce(&mut wrong.clone(), &schema(), &Path::new(""), false).expect_err("refused");
        assert_eq!((path.to_string().as_str(), why.as_str()), ("template.kind", "must be a string"));
        coerce(&mut wrong, &schema(), &Path::new(""), true).expect("dropped");
        assert_eq!(wrong, json!({"template": {"metadata": {"labels": {"a": "b"}}}}));
    }

    #[test]
    fn embedded_objects_say_what_they_are() {
        let mut faults = Faults::new();
        let value = json!({"template": {"kind": "a_b", "metadata": {"name": "a/b"}}});
        validate(&value, &schema(), &Path::new(""), &mut faults);
        let told: Vec<_> = faults.into_causes().into_iter().map(|c| c.field).collect();
        assert_eq!(told, ["template.apiVersion", "template.kind", "template.metadata.name"]);
    }
}
