//! OpenAPI v2: the parts of version 3 in the words of the older one.
//!
//! Invariant: the two say the same; what version 2 cannot say (a value that is of one of two types, a default) is left out,
//! as kube-apiserver does.

use serde_json::{Map, Value, json};

/// The document of these paths and schemas.
pub(super) fn document(paths: &Map<String, Value>, schemas: &Map<String, Value>) -> Value {
    let paths: Map<String, Value> = paths.iter().map(|(path, item)| (path.clone(), path_item(item))).collect();
    let definitions: Map<String, Value> = schemas.iter().map(|(name, found)| (name.clone(), schema(found))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", super::super::KUBERNETES_VERSION)},
        "paths": paths,
        "definitions": definitions,
    })
}

fn path_item(item: &Value) -> Value {
    let map = item.as_object().into_iter().flatten();
    map.map(|(key, value)| {
        let value = if key == "parameters" { parameters(value).into() } else { operation(value) };
        (key.clone(), value)
    })
    .collect::<Map<_, _>>()
    .into()
}

fn operation(found: &Value) -> Value {
    let mut operation = found.clone();
    let content = &found["requestBody"]["content"];
    let mut all = parameters(&found["parameters"]);
    if let Some((_, form)) = content.as_object().and_then(|content| content.iter().next()) {
        let mut body = json!({"name": "body", "in": "body", "schema": schema(&form["schema"])});
        if found["requestBody"]["required"] == true {
            body["required"] = true.into();
        }
        all.insert(0, body);
    }
    let forms = |content: &Value| content.as_object().map(|forms| forms.keys().cloned().collect::<Vec<_>>());
    operation["consumes"] = forms(content).unwrap_or_else(|| vec!["*/*".to_owned()]).into();
    operation["produces"] = forms(&found["responses"]["200"]["content"]).unwrap_or_default().into();
    operation["schemes"] = json!(["https"]);
    operation["parameters"] = all.into();
    let mut responses = Map::new();
    for (code, response) in found["responses"].as_object().into_iter().flatten() {
        let mut told = json!({"description": response["description"]});
        let form = &response["content"]["application/json"]["schema"];
        if form.is_object() {
            told["schema"] = schema(form);
        }
        responses.insert(code.clone(), told);
    }
    operation["responses"] = responses.into();
    if let Value::Object(map) = &mut operation {
        map.remove("requestBody");
    }
    operation
}

fn parameters(found: &Value) -> Vec<Value> {
    let all = found.as_array().into_iter().flatten();
    all.map(|parameter| {
        let mut told = parameter.clone();
        if let Value::Object(map) = &mut told
            && let Some(Value::Object(schema)) = map.remove("schema")
        {
            map.extend(schema);
        }
        told
    })
    .collect()
}

/// A schema in the words of version 2.
fn schema(found: &Value) -> Value {
    let Value::Object(map) = found else { return found.clone() };
    let mut told = Map::new();
    for (key, value) in map {
        match key.as_str() {
            "default" | "nullable" | "anyOf" | "not" => {}
            // What is of two types is written as text.
            "oneOf" => drop(told.insert("type".to_owned(), "string".into())),
            "$ref" => {
                let name = value.as_str().unwrap_or_default().replace("#/components/schemas/", "#/definitions/");
                told.insert(key.clone(), name.into());
            }
            // A reference may have a description beside it here.
            "allOf" => match value.as_array().map(Vec::as_slice) {
                Some([one]) => {
                    if let Value::Object(inner) = schema(one) {
                        told.extend(inner);
                    }
                }
                _ => drop(told.insert(key.clone(), value.clone())),
            },
            "items" | "additionalProperties" => drop(told.insert(key.clone(), schema(value))),
            "properties" => {
                let all = value.as_object().into_iter().flatten();
                let all: Map<String, Value> = all.map(|(name, value)| (name.clone(), schema(value))).collect();
                told.insert(key.clone(), all.into());
            }
            _ => drop(told.insert(key.clone(), value.clone())),
        }
    }
    if told.contains_key("$ref") {
        // Nothing that judges may stand beside a reference.
        told.retain(|key, _| matches!(key.as_str(), "$ref" | "description") || key.starts_with("x-"));
    }
    told.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_told_in_the_older_words() {
        let found = json!({
            "type": "object", "required": ["port"], "description": "A port.",
            "properties": {
                "port": {"allOf": [{"$ref": "#/components/schemas/IntOrString"}], "description": "Which.", "default": 1},
                "tags": {"type": "array", "items": {"type": "string", "default": ""}},
                "of": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/X"}},
            },
        });
        let expected = json!({
            "type": "object", "required": ["port"], "description": "A port.",
            "properties": {
                "port": {"$ref": "#/definitions/IntOrString", "description": "Which."},
                "tags": {"type": "array", "items": {"type": "string"}},
                "of": {"type": "object", "additionalProperties": {"$ref": "#/definitions/X"}},
            },
        });
        assert_eq!(schema(&found), expected);
        let two = json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"});
        assert_eq!(schema(&two), json!({"type": "string", "format": "int-or-string"}));
    }

    #[test]
    fn a_body_becomes_a_parameter() {
        let form = json!({"schema": {"$ref": "#/components/schemas/Pod"}});
        let found = json!({
            "operationId": "x", "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string"}}],
            "requestBody": {"content": {"*/*": form}, "required": true},
            "responses": {"200": {"description": "OK", "content": {"application/json": form}}},
        });
        let told = operation(&found);
        assert_eq!(told["parameters"][0]["in"], "body");
        assert_eq!(told["parameters"][0]["schema"]["$ref"], "#/definitions/Pod");
        assert_eq!(told["parameters"][1], json!({"name": "dryRun", "in": "query", "type": "string"}));
        assert_eq!(told["responses"]["200"]["schema"]["$ref"], "#/definitions/Pod");
        assert_eq!((&told["consumes"], &told["produces"]), (&json!(["*/*"]), &json!(["application/json"])));
        assert!(told.get("requestBody").is_none());
    }
}
