//! What is wrong with a value: types and values against a schema, as kube-openapi's validator judges, in its order and
//! its words.
//!
//! Of a change, what has not changed is not judged: a part of an object that is equal to the same part of the old one
//! may be wrong by a schema that came later (upstream's validation ratcheting). Parts are the same by their field, or by
//! their keys in a list of type `map`.

use serde_json::{Map, Value};

use super::super::kinds::quoted;
use super::super::schema::json::WHOLE_FLOAT_MAX;
use super::formats;
use super::lists::keys_of;
use super::schema::{Additional, Schema};

/// A fault of a value.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Finding {
    /// `.spec.size`, `spec.tags[0]`; empty = the whole value.
    pub(in super::super) path: String,
    /// What kind of fault.
    pub(in super::super) what: What,
    /// The validator's own words.
    pub(in super::super) message: String,
}

/// The kinds of faults that are told each in its own way.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum What {
    /// A value is missing.
    Required,
    /// It is none of the values allowed.
    Enum { value: Value, allowed: Vec<String> },
    /// A text is too long.
    TooLong(i64),
    /// A list or a map has too many items.
    TooMany { count: i64, max: i64 },
    /// It is of another type, or a text of another format.
    Type(Value),
    /// Anything else.
    Invalid(Value),
    /// A fault of the whole that names no part: which of several schemas are not fulfilled.
    Whole,
}

/// What a check has found, and how much has fit: of several alternatives the one that fits best is told.
#[derive(Debug, Default)]
struct Outcome {
    findings: Vec<Finding>,
    fitting: usize,
}

impl Outcome {
    fn add(&mut self, finding: Finding) {
        if !self.findings.iter().any(|known| known.message == finding.message) {
            self.findings.push(finding);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.fitting += other.fitting;
        other.findings.into_iter().for_each(|finding| self.add(finding));
    }

    fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Every fault of a value.
pub(in super::super) fn check(value: &Value, schema: &Schema) -> Vec<Finding> {
    whole(value, schema, "", None).findings
}

/// Every fault of a changed value that the old one did not have in the same place.
pub(in super::super) fn check_change(value: &Value, schema: &Schema, old: &Value) -> Vec<Finding> {
    whole(value, schema, "", Some(old)).findings
}

fn whole(value: &Value, schema: &Schema, path: &str, old: Option<&Value>) -> Outcome {
    let mut all = Outcome::default();
    let mut part = |outcome: Outcome| all.merge(outcome);
    let asks = &schema.asks;
    if value.is_null() {
        part(kind(value, schema, path));
        part(enumeration(value, schema, path));
    } else {
        let mut parts = Vec::with_capacity(5);
        if !schema.types().is_empty() || !asks.format.is_empty() {
            parts.push(kind(value, schema, path));
        }
        parts.push(combined(value, schema, path, old));
        match value {
            Value::String(text) => {
                parts.push(string(text, schema, path));
                if formats::is_known(&asks.format) {
                    parts.push(format(text, schema, path));
                }
            }
            Value::Number(_) => parts.push(number(value, schema, path)),
            Value::Array(items) => parts.push(list(items, schema, path, old)),
            _ => {}
        }
        parts.push(enumeration(value, schema, path));
        if let Value::Object(fields) = value {
            parts.push(object(fields, schema, path, old));
        }
        let applied = parts.len();
        parts.into_iter().for_each(&mut part);
        all.fitting += applied + 1;
    }
    if old == Some(value) {
        all.findings.clear();
    }
    all
}

/// What a value is, and the format that the validator infers for it.
fn nature(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn kind(value: &Value, schema: &Schema, path: &str) -> Outcome {
    let (types, format) = (schema.types(), schema.asks.format.as_str());
    let (is, inferred) = nature(value);
    let wrong = |wanted: &str, is: &str| {
        let message = if is.is_empty() {
            format!("{path} in body must be of type {wanted}: \"\"")
        } else {
            format!("{path} in body must be of type {wanted}: \"{is}\"")
        };
        let what = What::Type(Value::from(is));
        Outcome { findings: vec![Finding { path: path.to_owned(), what, message }], fitting: 0 }
    };
    let fits = Outcome { findings: Vec::new(), fitting: 1 };
    if value.is_null() {
        return if types.is_empty() || schema.nullable { fits } else { wrong(&types.join(","), "null") };
    }
    let wants = |kind: &str| types.contains(&kind);
    let whole_float = is == "number" && value.as_f64().is_some_and(is_whole) && wants("integer");
    let int_as_number = is == "integer" && wants("number");
    let textual = value.is_string() || value.is_array();
    let suits = wants(is) || inferred == format || whole_float || int_as_number;
    if !textual && !format.is_empty() && !suits {
        return wrong(format, inferred);
    }
    let numeric = wants("number") || wants("integer");
    if textual && !format.is_empty() && !numeric {
        return fits;
    }
    if wants(is) || whole_float || int_as_number { fits } else { wrong(&types.join(","), is) }
}

/// Whether a float counts as a whole number: as near to one as it can be told (`swag.IsFloat64AJSONInteger`).
fn is_whole(float: f64) -> bool {
    let whole = float.trunc();
    float.abs() <= WHOLE_FLOAT_MAX && (float == whole || (float - whole).abs() / (float.abs() + whole.abs()) < 1e-9)
}

fn enumeration(value: &Value, schema: &Schema, path: &str) -> Outcome {
    let allowed = &schema.asks.one_of_values;
    if allowed.is_empty() || allowed.iter().any(|one| equal(one, value)) {
        return Outcome::default();
    }
    let shown = |one: &Value| one.as_str().map_or_else(|| one.to_string(), str::to_owned);
    let allowed: Vec<String> = allowed.iter().map(shown).collect();
    let message = format!("{path} in body should be one of [{}]", allowed.join(" "));
    let what = What::Enum { value: value.clone(), allowed };
    Outcome { findings: vec![Finding { path: path.to_owned(), what, message }], fitting: 0 }
}

/// Numbers are equal by what they count.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

fn string(text: &str, schema: &Schema, path: &str) -> Outcome {
    let asks = &schema.asks;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let one = |what: What, message: String| Outcome {
        findings: vec![Finding { path: path.to_owned(), what, message }],
        fitting: 0,
    };
    let invalid = || What::Invalid(Value::from(text));
    if let Some(max) = asks.max_length.filter(|max| length > *max) {
        return one(What::TooLong(max), format!("{path} in body should be at most {max} chars long"));
    }
    if let Some(min) = asks.min_length.filter(|min| length < *min) {
        return one(invalid(), format!("{path} in body should be at least {min} chars long"));
    }
    if let Some(pattern) = &asks.pattern {
        match &pattern.compiled {
            Ok(regex) if regex.is_match(text) => {}
            Ok(_) => return one(invalid(), format!("{path} in body should match '{}'", pattern.text)),
            Err(why) => {
                let wanted = format!("{}, but pattern is invalid: {why}", pattern.text);
                return one(invalid(), format!("{path} in body should match '{wanted}'"));
            }
        }
    }
    Outcome::default()
}

fn format(text: &str, schema: &Schema, path: &str) -> Outcome {
    let wanted = &schema.asks.format;
    if formats::fits(wanted, text) {
        return Outcome::default();
    }
    let message = format!("{path} in body must be of type {wanted}: {}", quoted(text));
    let what = What::Type(Value::from(text));
    Outcome { findings: vec![Finding { path: path.to_owned(), what, message }], fitting: 0 }
}

fn number(value: &Value, schema: &Schema, path: &str) -> Outcome {
    let asks = &schema.asks;
    let mut outcome = Outcome { findings: Vec::new(), fitting: 1 };
    let data = value.as_f64().unwrap_or(0.0);
    let is_int = !value.is_f64();
    // A bound of a whole number is a whole number.
    let bound = |bound: f64| if is_int { bound.trunc() } else { bound };
    let shown = |number: f64| super::super::schema::decode::go_float(number).to_string();
    if let Some(format) = out_of_range(value, schema) {
        let format = if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        let message = format!("Checked value must be of type {} {format} in {path}", schema.kind);
        outcome.add(Finding { path: String::new(), what: What::Whole, message });
    }
    let mut told = |message: String| {
        outcome.add(Finding { path: path.to_owned(), what: What::Invalid(value.clone()), message });
    };
    if let Some(factor) = asks.multiple_of.map(bound) {
        let quotient = if factor < 1.0 { 1.0 / factor * data } else { data / factor };
        if factor <= 0.0 {
            told(format!("factor MultipleOf declared for {path} must be positive: {}", shown(factor)));
        } else if (quotient - quotient.round()).abs() > 1e-9 {
            told(format!("{path} in body should be a multiple of {}", shown(factor)));
        }
    }
    if let Some(min) = asks.minimum.map(bound) {
        if asks.exclusive_minimum && data <= min {
            told(format!("{path} in body should be greater than {}", shown(min)));
        } else if data < min {
            told(format!("{path} in body should be greater than or equal to {}", shown(min)));
        }
    }
    if let Some(max) = asks.maximum.map(bound) {
        if asks.exclusive_maximum && data >= max {
            told(format!("{path} in body should be less than {}", shown(max)));
        } else if data > max {
            told(format!("{path} in body should be less than or equal to {}", shown(max)));
        }
    }
    outcome
}

/// The format whose range a number is out of.
fn out_of_range<'s>(value: &Value, schema: &'s Schema) -> Option<&'s str> {
    let format = schema.asks.format.as_str();
    let fits = match (schema.kind.as_str(), format) {
        ("integer", "int32") => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) || value.is_f64(),
        ("number", "float") => value.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX)),
        _ => true,
    };
    (!fits).then_some(format)
}

fn list(items: &[Value], schema: &Schema, path: &str, old: Option<&Value>) -> Outcome {
    let asks = &schema.asks;
    let mut outcome = Outcome { findings: Vec::new(), fitting: 1 };
    if let Some(of) = &schema.items {
        for (i, item) in items.iter().enumerate() {
            outcome.merge(whole(item, of, &format!("{path}[{i}]"), same_item(item, schema, old)));
        }
    }
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = asks.min_items.filter(|min| count < *min) {
        let message = format!("{path} in body should have at least {min} items");
        outcome.add(Finding { path: path.to_owned(), what: What::Invalid(count.into()), message });
    }
    if let Some(max) = asks.max_items.filter(|max| count > *max) {
        let message = format!("{path} in body should have at most {max} items");
        outcome.add(Finding { path: path.to_owned(), what: What::TooMany { count, max }, message });
    }
    if asks.unique_items && (1..items.len()).any(|i| items[..i].contains(&items[i])) {
        let message = format!("{path} in body shouldn't contain duplicates");
        outcome.add(Finding { path: path.to_owned(), what: What::Invalid(Value::from("")), message });
    }
    outcome
}

/// The item of the old list that is the same one: only keys can tell.
fn same_item<'o>(item: &Value, schema: &Schema, old: Option<&'o Value>) -> Option<&'o Value> {
    if schema.list_type != "map" {
        return None;
    }
    let keys = keys_of(item, &schema.list_keys);
    old?.as_array()?.iter().find(|candidate| keys_of(candidate, &schema.list_keys) == keys)
}

fn object(fields: &Map<String, Value>, schema: &Schema, path: &str, old: Option<&Value>) -> Outcome {
    let asks = &schema.asks;
    let mut outcome = Outcome::default();
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = asks.min_properties.filter(|min| count < *min) {
        let message = format!("{path} in body should have at least {min} properties");
        outcome.add(Finding { path: path.to_owned(), what: What::Invalid(count.into()), message });
    }
    if let Some(max) = asks.max_properties.filter(|max| count > *max) {
        let message = format!("{path} in body should have at most {max} properties");
        outcome.add(Finding { path: path.to_owned(), what: What::TooMany { count, max }, message });
    }
    // An atomic map is one value: only as a whole it is the same or not.
    let old = old.filter(|_| schema.map_type != "atomic");
    let same = |name: &str| {
        let is_type = path.is_empty() && matches!(name, "kind" | "apiVersion");
        old.filter(|_| !is_type).and_then(|old| old.get(name))
    };
    for (name, value) in fields.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
        match &schema.additional {
            Some(Additional::Allowed(false)) => {
                let message = format!("{path}.{name} in body is a forbidden property");
                outcome.add(Finding {
                    path: path.to_owned(),
                    what: What::Invalid(Value::from(name.as_str())),
                    message,
                });
            }
            Some(Additional::Of(of)) => outcome.merge(whole(value, of, &format!("{path}.{name}"), same(name))),
            _ => {}
        }
    }
    for (name, of) in &schema.properties {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(value) = fields.get(name) {
            outcome.merge(whole(value, of, &below, same(name)));
        }
    }
    for name in asks.required.iter().filter(|name| !fields.contains_key(*name)) {
        let below = format!("{path}.{name}");
        let message = format!("{below} in body is required");
        outcome.add(Finding { path: below, what: What::Required, message });
    }
    outcome
}

fn combined(value: &Value, schema: &Schema, path: &str, old: Option<&Value>) -> Outcome {
    let asks = &schema.asks;
    let mut outcome = Outcome { findings: Vec::new(), fitting: 1 };
    let judge = |schema: &Schema| whole(value, schema, path, old);
    let about_all = |message: String| Finding { path: String::new(), what: What::Whole, message };
    if !asks.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut fits = false;
        for one in asks.any_of.iter().map(judge) {
            if one.is_valid() {
                (best, fits) = (Some(one), true);
                break;
            }
            if best.as_ref().is_none_or(|best| one.fitting > best.fitting) {
                best = Some(one);
            }
        }
        if !fits {
            outcome.add(about_all(format!("\"{path}\" must validate at least one schema (anyOf)")));
        }
        outcome.merge(best.unwrap_or_default());
    }
    if !asks.one_of.is_empty() {
        let (mut best, mut first, mut fitting): (Option<Outcome>, Option<Outcome>, usize) = (None, None, 0);
        for one in asks.one_of.iter().map(judge) {
            if one.is_valid() {
                fitting += 1;
                best = None;
                first = first.or(Some(one));
            } else if fitting == 0 && best.as_ref().is_none_or(|best| one.fitting > best.fitting) {
                best = Some(one);
            }
        }
        if fitting == 1 {
            outcome.merge(first.unwrap_or_default());
        } else {
            let how = match fitting {
                0 => "Found none valid".to_owned(),
                several => format!("Found {several} valid alternatives"),
            };
            outcome.add(about_all(format!("\"{path}\" must validate one and only one schema (oneOf). {how}")));
            outcome.merge(best.unwrap_or_default());
        }
    }
    if !asks.all_of.is_empty() {
        let judged: Vec<Outcome> = asks.all_of.iter().map(judge).collect();
        let fitting = judged.iter().filter(|one| one.is_valid()).count();
        let all = judged.len();
        judged.into_iter().for_each(|one| outcome.merge(one));
        if fitting != all {
            let how = if fitting == 0 { ". None validated" } else { "" };
            outcome.add(about_all(format!("\"{path}\" must validate all the schemas (allOf){how}")));
        }
    }
    if asks.not.as_ref().is_some_and(|not| judge(not).is_valid()) {
        outcome.add(about_all(format!("\"{path}\" must not validate the schema (not)")));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: Value, value: Value) -> Vec<String> {
        check(&value, &Schema::read(&schema)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn values_are_judged_in_the_validators_words() {
        let schema = json!({"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10}, "ratio": {"type": "number", "exclusiveMinimum": true,
            "minimum": 0.5}, "color": {"type": "string", "enum": ["red", "blue"]}, "name": {"type": "string", "maxLength": 3,
            "pattern": "^[a-z]+$"}, "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "when": {"type": "string", "format": "date-time"}, "q": {"x-kubernetes-int-or-string": true},
            "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}}}});
        for (value, expected) in [
            (json!({"size": 11}), vec!["size in body should be less than or equal to 10"]),
            (json!({"size": 0}), vec!["size in body should be greater than or equal to 1"]),
            (json!({}), vec![".size in body is required"]),
            (json!({"size": "x"}), vec!["size in body must be of type integer: \"string\""]),
            (json!({"size": null}), vec!["size in body must be of type integer: \"null\""]),
            (json!({"size": 1.5}), vec!["size in body must be of type integer: \"number\""]),
            (json!({"size": 2.0}), vec![]),
            (json!({"size": 2, "ratio": 0.5}), vec!["ratio in body should be greater than 0.5"]),
            (json!({"size": 2, "ratio": 3}), vec![]),
            (json!({"size": 2, "color": "green"}), vec!["color in body should be one of [red blue]"]),
            (json!({"size": 2, "name": "abcd"}), vec!["name in body should be at most 3 chars long"]),
            (json!({"size": 2, "name": "A"}), vec!["name in body should match '^[a-z]+$'"]),
            (
                json!({"size": 2, "tags": ["a", 1, "c"]}),
                vec!["tags[1] in body must be of type string: \"integer\"", "tags in body should have at most 2 items"],
            ),
            (json!({"size": 2, "when": "soon"}), vec!["when in body must be of type date-time: \"soon\""]),
            (json!({"size": 2, "q": true}), vec!["q in body must be of type integer,string: \"boolean\""]),
            (
                json!({"size": 2, "map": {"a": "x", "b": 1}}),
                vec![
                    "map in body should have at most 1 properties",
                    "map.a in body must be of type integer: \"string\"",
                ],
            ),
        ] {
            assert_eq!(told(schema.clone(), value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn of_several_schemas_the_one_that_fits_best_is_told() {
        let one = |how: &str| {
            json!({"type": "object", how: [{"required": ["a"]}, {"properties": {"b": {"minimum": 5}}, "required": ["b"]}],
                   "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
        };
        assert_eq!(told(one("anyOf"), json!({"b": 7})), [""; 0]);
        assert_eq!(
            told(one("anyOf"), json!({"b": 1})),
            ["\"\" must validate at least one schema (anyOf)", "b in body should be greater than or equal to 5"]
        );
        assert_eq!(
            told(one("oneOf"), json!({"a": 1, "b": 7})),
            ["\"\" must validate one and only one schema (oneOf). Found 2 valid alternatives"]
        );
        assert_eq!(
            told(one("allOf"), json!({"a": 1})),
            [".b in body is required", "\"\" must validate all the schemas (allOf)"]
        );
        let not = json!({"type": "object", "not": {"required": ["a"]}, "properties": {"a": {"type": "integer"}}});
        assert_eq!(told(not, json!({"a": 1})), ["\"\" must not validate the schema (not)"]);
    }

    #[test]
    fn what_has_not_changed_is_not_judged_again() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "a": {"type": "integer", "maximum": 1}, "b": {"type": "integer", "maximum": 1},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                     "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer",
                     "maximum": 1}}}},
            "plain": {"type": "array", "items": {"type": "integer", "maximum": 1}}}}));
        let old = json!({"a": 5, "b": 1, "list": [{"n": "x", "v": 9}], "plain": [9]});
        let told = |new: Value| -> Vec<String> {
            check_change(&new, &schema, &old).into_iter().map(|finding| finding.path).collect()
        };
        assert_eq!(
            told(json!({"a": 5, "b": 1, "list": [{"n": "y", "v": 1}, {"n": "x", "v": 9}], "plain": [9]})),
            [""; 0]
        );
        assert_eq!(
            told(json!({"a": 6, "b": 7, "list": [{"n": "x", "v": 8}], "plain": [9, 1]})),
            ["a", "b", "list[0].v", "plain[0]"]
        );
    }
}
