//! A document's schemas as text, laid out as kubectl 1.36 does.

use std::collections::BTreeSet;

use serde_json::Value;

use super::wrap::{indent, wrap};

/// How many values of a field are listed behind its name.
const VALUES_MAX: usize = 4;

/// An OpenAPI v3 document.
pub(super) struct Document(pub(super) Value);

impl Document {
    /// The schema of a kind.
    pub(super) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Value> {
        let is_it = |known: &Value| known["group"] == group && known["version"] == version && known["kind"] == kind;
        let is_of_kind = |schema: &&Value| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|list| list.iter().any(is_it))
        };
        self.0["components"]["schemas"].as_object()?.values().find(is_of_kind)
    }

    /// The schema that a reference leads to, or the schema itself.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/components/schemas/"));
        name.map_or(schema, |name| &self.0["components"]["schemas"][name])
    }

    /// What is said of the field at this path; `None`: there is no such field.
    pub(super) fn explain(&self, schema: &Value, path: &[String], recursive: bool) -> Option<String> {
        self.output(schema, path, recursive, &mut BTreeSet::new())
    }

    fn output(&self, schema: &Value, path: &[String], recursive: bool, seen: &mut BTreeSet<String>) -> Option<String> {
        let resolved = self.resolved(schema);
        let Some((first, rest)) = path.split_first() else { return Some(self.whole(resolved, recursive)) };
        if let Some(reference) = schema["$ref"].as_str()
            && !seen.insert(reference.to_owned())
        {
            return None;
        }
        let below = &resolved["properties"][first.as_str()];
        if !below.is_null() {
            let mut text = String::new();
            if rest.is_empty() {
                text = format!("FIELD: {first} <{}>\n{}\n\n", self.type_of(below), values(below, None));
            }
            return Some(text + &self.output(below, rest, recursive, &mut BTreeSet::new())?);
        }
        // What is in a list or a map is spoken of as if it stood there itself.
        let inner = [&resolved["items"], &resolved["additionalProperties"]];
        if let Some(inner) = inner.into_iter().find(|inner| inner.is_object()) {
            return self.output(inner, path, recursive, seen);
        }
        let parts = resolved["allOf"].as_array().into_iter().flatten();
        parts.into_iter().find_map(|part| self.output(part, path, recursive, seen))
    }

    /// The description and the fields.
    fn whole(&self, schema: &Value, recursive: bool) -> String {
        let said = self.description(schema);
        let said = if said.is_empty() { "<empty>" } else { &said };
        let mut text = format!("DESCRIPTION:\n{}\n", indent(&wrap(said, 76), 4));
        let fields = self.fields(schema, recursive, 1, &BTreeSet::new());
        if !fields.is_empty() {
            text.push_str("FIELDS:\n");
            text.push_str(&fields);
        }
        text
    }

    /// All that is said, of the field and of what it refers to.
    fn description(&self, schema: &Value) -> String {
        let schema = self.resolved(schema);
        let mut text = String::new();
        if let Some(said) = schema["description"].as_str().filter(|said| !said.is_empty()) {
            text = format!("{said}\n");
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            text.push_str(&self.description(part));
        }
        for inner in [&schema["items"], &schema["additionalProperties"]] {
            if inner.is_object() {
                text.push_str(&self.description(inner));
            }
        }
        text
    }

    fn fields(&self, schema: &Value, recursive: bool, level: usize, seen: &BTreeSet<String>) -> String {
        let mut seen = seen.clone();
        if let Some(reference) = schema["$ref"].as_str()
            && !seen.insert(reference.to_owned())
        {
            return String::new();
        }
        let resolved = self.resolved(schema);
        let mut text = String::new();
        for (name, field) in resolved["properties"].as_object().into_iter().flatten() {
            text.push_str(&self.field(resolved, name, field, recursive, level));
            if recursive {
                text.push_str(&self.fields(field, true, level + 1, &seen));
            }
        }
        let parts = resolved["allOf"].as_array().into_iter().flatten();
        let inner = [&resolved["items"], &resolved["additionalProperties"]];
        for part in parts.chain(inner.into_iter().filter(|inner| inner.is_object())) {
            text.push_str(&self.fields(part, recursive, level, &seen));
        }
        text
    }

    fn field(&self, parent: &Value, name: &str, field: &Value, short: bool, level: usize) -> String {
        let at = level * 2;
        let is_required = parent["required"].as_array().is_some_and(|list| list.iter().any(|other| *other == *name));
        let required = if is_required { " -required-" } else { "" };
        let mut text =
            format!("{}\t<{}>{required}{}\n", indent(name, at), self.type_of(field), values(field, Some(at)));
        if !short {
            let said = field["description"].as_str().filter(|said| !said.is_empty()).unwrap_or("<no description>");
            text.push_str(&format!("{}\n\n", indent(&wrap(said, 78 - at), at + 2)));
        }
        text
    }

    /// `string`, `Object`, `[]Container`, `map[string]string`.
    fn type_of(&self, schema: &Value) -> String {
        if schema["items"].is_object() {
            return format!("[]{}", self.type_of(&schema["items"]));
        }
        if schema["additionalProperties"].is_object() {
            return format!("map[string]{}", self.type_of(&schema["additionalProperties"]));
        }
        if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice)
            && schema["properties"].is_null()
        {
            return self.type_of(only);
        }
        let named = |schema: &Value| schema["type"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(reference) = schema["$ref"].as_str() {
            let target = named(self.resolved(schema)).filter(|name| name != "object");
            let name = || reference.rsplit(['/', '.']).next().unwrap_or("Object").to_owned();
            return target.unwrap_or_else(name);
        }
        named(schema).filter(|name| name != "object").unwrap_or_else(|| "Object".to_owned())
    }
}

/// The values that a field may have: one below the other, or the first ones in a line of their own behind blanks.
fn values(schema: &Value, in_line: Option<usize>) -> String {
    let Some(all) = schema["enum"].as_array().filter(|all| !all.is_empty()) else { return String::new() };
    let shown = |value: &Value| match value.as_str() {
        Some("") => "\"\"".to_owned(),
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    match in_line {
        None => format!("ENUM:{}", all.iter().map(|value| format!("\n    {}", shown(value))).collect::<String>()),
        Some(at) => {
            let first = all.iter().take(VALUES_MAX).map(shown).collect::<Vec<_>>().join(", ");
            let more = if all.len() > VALUES_MAX { ", ...." } else { "" };
            format!("\n{}enum: {first}{more}", " ".repeat(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Document {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        Document(json!({"components": {"schemas": {
            "io.k8s.Pod": {
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
                "description": "Pod is a collection of containers.", "type": "object",
                "properties": {"spec": {"allOf": [reference("io.k8s.PodSpec")], "description": "What is wanted."}},
            },
            "io.k8s.PodSpec": {
                "description": "PodSpec is a description of a pod.", "type": "object", "required": ["containers"],
                "properties": {
                    "containers": {"type": "array", "items": reference("io.k8s.PodSpec"), "description": "The containers."},
                    "policy": {"type": "string", "enum": ["", "A", "B", "C", "D"]},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
        }}}))
    }

    fn explained(path: &str, recursive: bool) -> Option<String> {
        let document = document();
        let pod = document.of_kind("", "v1", "Pod").expect("there");
        let path: Vec<String> = path.split('.').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        document.explain(pod, &path, recursive)
    }

    #[test]
    fn fields_are_explained_as_kubectl_explains_them() {
        assert_eq!(
            explained("spec", false).expect("there"),
            "FIELD: spec <PodSpec>\n\n\nDESCRIPTION:\n    What is wanted.\n    PodSpec is a description of a pod.\n    \n\
             FIELDS:\n  containers\t<[]PodSpec> -required-\n    The containers.\n\n  labels\t<map[string]string>\n    <no \
             description>\n\n  policy\t<string>\n  enum: \"\", A, B, C, ....\n    <no description>\n\n"
        );
        assert_eq!(
            explained("spec.policy", false).expect("there"),
            "FIELD: policy <string>\nENUM:\n    \"\"\n    A\n    B\n    C\n    D\n\nDESCRIPTION:\n    <empty>\n"
        );
        // A kind that holds itself is gone into once.
        let all = explained("", true).expect("there");
        assert_eq!(all.matches("containers\t").count(), 1, "{all}");
        assert_eq!(
            explained("spec.containers.containers.policy", false).map(|text| text.contains("ENUM:")),
            Some(true)
        );
        assert_eq!(explained("spec.nope", false), None);
    }
}
