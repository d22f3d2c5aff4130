//! Pruning: what a schema does not name goes.

use serde_json::Value;

use super::schema::{Additional, Schema};

/// Fields that every object has, whatever its schema says.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Takes away what the schema does not name and answers the paths of what went, sorted. The root is a whole object if
/// `is_resource`: its apiVersion, kind and metadata stay.
pub(in super::super) fn prune(value: &mut Value, schema: &Schema, is_resource: bool) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), gone: Vec::new() };
    pruner.prune(value, Some(schema), is_resource || schema.embedded);
    pruner.gone.sort_unstable();
    pruner.gone
}

struct Pruner {
    path: String,
    gone: Vec<String>,
}

impl Pruner {
    fn at(&mut self, step: &str, go: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        go(self);
        self.path.truncate(length);
    }

    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, embedded: bool) {
        let preserves = schema.is_some_and(|schema| schema.preserves);
        self.go(value, schema, embedded, preserves);
    }

    /// Where the value is preserved, only what the schema names below it is looked at.
    fn go(&mut self, value: &mut Value, schema: Option<&Schema>, embedded: bool, preserves: bool) {
        match value {
            Value::Object(fields) => {
                let names: Vec<String> = fields.keys().cloned().collect();
                for name in names {
                    if embedded && META.contains(&name.as_str()) {
                        continue;
                    }
                    let property = schema.and_then(|schema| schema.properties.get(&name));
                    match (property, schema.and_then(|schema| schema.additional.as_ref())) {
                        (Some(property), _) => self.below(fields, &name, Some(property)),
                        (None, Some(Additional::Of(of))) => self.below(fields, &name, Some(of)),
                        (None, Some(Additional::Allowed(_))) => self.below(fields, &name, None),
                        (None, None) if preserves => {}
                        (None, None) => {
                            fields.remove(&name);
                            // At the root these are told by whoever reads the metadata.
                            if !META.contains(&name.as_str()) || !self.path.is_empty() {
                                self.at(&name, |this| this.gone.push(this.path.clone()));
                            }
                        }
                    }
                }
            }
            Value::Array(items) => {
                let of = schema.and_then(|schema| schema.items.as_deref());
                for (i, item) in items.iter_mut().enumerate() {
                    self.at(&format!("[{i}]"), |this| match (of, preserves) {
                        // A preserved list without a schema of items is kept whole.
                        (None, true) => {}
                        (Some(of), true) => this.go(item, Some(of), of.embedded, true),
                        (of, false) => this.prune(item, of, of.is_some_and(|of| of.embedded)),
                    });
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, fields: &mut serde_json::Map<String, Value>, name: &str, schema: Option<&Schema>) {
        let Some(value) = fields.get_mut(name) else { return };
        self.at(name, |this| this.prune(value, schema, schema.is_some_and(|schema| schema.embedded)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pruned(schema: Value, mut value: Value) -> (Value, Vec<String>) {
        let gone = prune(&mut value, &Schema::read(&schema), true);
        (value, gone)
    }

    #[test]
    fn what_is_not_named_goes_and_is_told() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "integer"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"c": {}}}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"d": {"type": "object"}}}}}}});
        let value = json!({"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "z": 1, "spec": {
            "a": 1, "b": 2, "list": [{"b": "x", "c": 1}], "map": {"k": {"c": 1, "d": 2}},
            "any": {"x": {"y": 1}, "d": {"e": 1}}}});
        let (value, gone) = pruned(schema, value);
        assert_eq!(gone, ["spec.any.d.e", "spec.b", "spec.list[0].c", "spec.map.k.d", "z"]);
        assert_eq!(
            value,
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {
                "a": 1, "list": [{"b": "x"}], "map": {"k": {"c": 1}}, "any": {"x": {"y": 1}, "d": {}}}})
        );
    }

    #[test]
    fn an_embedded_object_keeps_what_every_object_has() {
        let schema = json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}}});
        let (value, gone) = pruned(schema, json!({"t": {"kind": "X", "metadata": {"q": 1}, "spec": {"a": 1}, "b": 2}}));
        assert_eq!(gone, ["t.b", "t.spec.a"]);
        assert_eq!(value, json!({"t": {"kind": "X", "metadata": {"q": 1}, "spec": {}}}));
    }

    #[test]
    fn a_schema_that_says_nothing_of_the_root_keeps_only_what_every_object_has() {
        let (value, gone) = pruned(json!({"type": "object"}), json!({"kind": "K", "spec": {"a": 1}, "x": 1}));
        assert_eq!((value, gone), (json!({"kind": "K"}), vec!["spec".to_owned(), "x".to_owned()]));
    }
}
