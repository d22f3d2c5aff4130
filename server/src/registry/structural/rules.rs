//! Rules in CEL (`x-kubernetes-validations`), evaluated by the kube-cel crate.
//!
//! Each place of the schema that has rules is compiled for itself, without the rules below it; who walks the value is this
//! file, so that items of lists are told apart by their keys, not by where they stand.
//!
//! Invariant: a rule that cannot be compiled or evaluated refuses; none is ever passed over.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::{CompilationError, CompiledSchema, ErrorKind, ValidationError, Validator};
use serde_json::Value;

use super::super::kinds::{Faults, Path, Shown};
use super::lists::keys_of;

/// The rules of a schema, compiled.
#[derive(Debug, Default)]
pub(in super::super) struct Rules {
    own: Option<CompiledSchema>,
    properties: Vec<(String, Rules)>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
    list_type: String,
    list_keys: Vec<String>,
    is_atomic: bool,
    /// What a value is called in a refusal: the type.
    kind: String,
}

/// A rule that does not compile.
#[derive(Debug)]
pub(in super::super) struct RulesFault {
    /// Which of the rules of its place.
    pub(in super::super) index: usize,
    /// Whether it is the `messageExpression` that does not.
    pub(in super::super) in_message: bool,
    /// Why.
    pub(in super::super) why: String,
}

impl Rules {
    /// Compiles all rules of a schema; `None` if there are none.
    pub(in super::super) fn read(schema: &Value) -> Option<Rules> {
        let own =
            schema.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        let properties: Vec<(String, Rules)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, below)| Some((name.clone(), Rules::read(below)?)))
            .collect();
        let below = |key: &str| schema.get(key).filter(|below| below.is_object()).and_then(Rules::read).map(Box::new);
        let (items, additional) = (below("items"), below("additionalProperties"));
        if !own && properties.is_empty() && items.is_none() && additional.is_none() {
            return None;
        }
        let text = |key: &str| schema[key].as_str().unwrap_or_default().to_owned();
        let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
        Some(Rules {
            own: own.then(|| kube_cel::compile_schema(&without_rules_below(schema))),
            properties,
            items,
            additional,
            list_type: text("x-kubernetes-list-type"),
            list_keys: keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            is_atomic: text("x-kubernetes-map-type") == "atomic",
            kind: text("type"),
        })
    }

    /// What is wrong with the rules of the place that the schema itself is (not with those below it).
    pub(in super::super) fn faults_of(schema: &Value) -> Vec<RulesFault> {
        let compiled = kube_cel::compile_schema(&without_rules_below(schema));
        let told = |(index, result): (usize, &Result<_, CompilationError>)| {
            let error = result.as_ref().err()?;
            let in_message = matches!(error, CompilationError::MessageExpressionParse { .. });
            let why = match error {
                CompilationError::Parse { source, .. } => format!("compilation failed: {source}"),
                CompilationError::MessageExpressionParse { source, .. } => {
                    format!("messageExpression compilation failed: {source}")
                }
                other => other.to_string(),
            };
            Some(RulesFault { index, in_message, why })
        };
        compiled.validations.iter().enumerate().filter_map(told).collect()
    }

    /// Every rule that a value does not keep; `old` is what it was before, if it was there.
    pub(in super::super) fn validate(&self, value: &Value, old: Option<&Value>, path: &Path, faults: &mut Faults) {
        let validator = Validator::new();
        // The rules are a stranger's, and so is what evaluates them: a panic in there is a refusal.
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let mut told = Faults::new();
            self.walk(&validator, value, old, path, &mut told);
            told
        }));
        match judged {
            Ok(told) => faults.append(told),
            Err(_) => faults.invalid(path, Shown::of_type(value), "the rules could not be evaluated"),
        }
    }

    fn walk(&self, validator: &Validator, value: &Value, old: Option<&Value>, path: &Path, faults: &mut Faults) {
        if let Some(own) = self.own.as_ref().filter(|_| !value.is_null())
            && let Err(errors) = validator.validate_compiled(own, value, old)
        {
            // Nothing has changed: a rule that came later may not make it wrong, but one about changes may.
            let unchanged = old == Some(value);
            let counts = |error: &&ValidationError| !unchanged || error.rule.contains("oldSelf");
            errors.as_slice().iter().filter(counts).for_each(|error| self.tell(error, value, path, faults));
        }
        match value {
            Value::Object(fields) => {
                let old = old.filter(|_| !self.is_atomic);
                for (name, rules) in &self.properties {
                    if let Some(own) = fields.get(name) {
                        rules.walk(validator, own, old.and_then(|old| old.get(name)), &path.child(name), faults);
                    }
                }
                let Some(rules) = &self.additional else { return };
                for (name, own) in fields {
                    rules.walk(validator, own, old.and_then(|old| old.get(name)), &path.key(name), faults);
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return };
                for (i, item) in items.iter().enumerate() {
                    rules.walk(validator, item, self.same_item(item, old), &path.index(i), faults);
                }
            }
            _ => {}
        }
    }

    fn tell(&self, error: &ValidationError, value: &Value, path: &Path, faults: &mut Faults) {
        let at = below(path, &error.field_path);
        if error.kind != ErrorKind::ValidationFailure {
            let kind = if self.kind.is_empty() { Shown::of_type(value) } else { Shown::from(&self.kind) };
            faults.invalid(&at, kind, &error.message);
            return;
        }
        let is_big = matches!(self.kind.as_str(), "object" | "array");
        match error.reason.as_deref() {
            Some("FieldValueForbidden") => faults.forbidden(&at, &error.message),
            Some("FieldValueRequired") => faults.required(&at, &error.message),
            Some("FieldValueDuplicate") => faults.duplicate(&at, value),
            _ if is_big => faults.invalid_unshown(&at, &error.message),
            _ => faults.invalid(&at, value, &error.message),
        }
    }

    fn same_item<'o>(&self, item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
        if self.list_type != "map" {
            return None;
        }
        let keys = keys_of(item, &self.list_keys);
        old?.as_array()?.iter().find(|candidate| keys_of(candidate, &self.list_keys) == keys)
    }
}

/// A path below another one: `a.b[0]`.
fn below(path: &Path, rest: &str) -> Path {
    match rest.trim_start_matches('.') {
        "" => path.clone(),
        rest => path.child(rest),
    }
}

/// The schema with its own rules, but none of those below.
fn without_rules_below(schema: &Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("x-kubernetes-validations");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut stripped = schema.clone();
    let own = schema.get("x-kubernetes-validations").cloned();
    strip(&mut stripped);
    if let (Some(own), Some(fields)) = (own, stripped.as_object_mut()) {
        fields.insert("x-kubernetes-validations".to_owned(), own);
    }
    stripped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: &Value, value: Value, old: Option<Value>) -> Vec<String> {
        let mut faults = Faults::new();
        let rules = Rules::read(schema).expect("there are rules");
        rules.validate(&value, old.as_ref(), &Path::new(""), &mut faults);
        faults.into_causes().into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    #[test]
    fn rules_are_kept_or_told() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min above max"},
                {"rule": "self.min >= 0", "reason": "FieldValueForbidden", "messageExpression": "'min is ' + string(self.min)"}],
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
                "name": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}});
        let spec = |min: i64, max: i64, name: &str| json!({"spec": {"min": min, "max": max, "name": name}});
        assert_eq!(told(&schema, spec(1, 2, "a"), None), [""; 0]);
        assert_eq!(told(&schema, spec(3, 2, "a"), None), ["spec: Invalid value: min above max"]);
        assert_eq!(told(&schema, spec(-3, 2, "a"), None), ["spec: Forbidden: min is -3"]);
        assert_eq!(
            told(&schema, spec(1, 2, "b"), Some(spec(1, 2, "a"))),
            ["spec.name: Invalid value: \"b\": failed rule: self == oldSelf"]
        );
    }

    #[test]
    fn items_are_the_same_by_their_keys() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}},
                      "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}]}});
        let old = json!([{"n": "a", "v": 5}, {"n": "b", "v": 1}]);
        let new = json!([{"n": "b", "v": 2}, {"n": "c", "v": 0}, {"n": "a", "v": 4}]);
        assert_eq!(told(&schema, new, Some(old)), ["[2]: Invalid value: failed rule: self.v >= oldSelf.v"]);
    }

    #[test]
    fn a_rule_that_does_not_compile_is_told() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}, {"rule": "self."}]});
        let faults = Rules::faults_of(&schema);
        assert_eq!(faults.iter().map(|f| (f.index, f.in_message)).collect::<Vec<_>>(), [(1, false)]);
        assert!(faults[0].why.starts_with("compilation failed: "), "{}", faults[0].why);
    }
}
