//! What is wrong with the schema of a definition: it must be structural, its defaults must be values of it, and what
//! Kubernetes adds to OpenAPI must make sense (apiextensions-apiserver, Kubernetes 1.36).

use serde_json::{Map, Value};

use super::structurality;
use crate::registry::custom::tell;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::structural;
use crate::registry::structural::{
    RULE_COST_MAX, Rules, SCHEMA_COST_MAX, Schema, cardinality, check, coerce_embedded, elements_max, expression_cost,
    is_supported_format, over_budget, validate_embedded,
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// What may stand at the root of a schema whose kind has a status of its own, by upstream's names.
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Every schema that stands in one, the schema itself first.
fn visit<'v>(schema: &'v Value, see: &mut impl FnMut(&'v Value)) {
    if !schema.is_object() {
        return;
    }
    see(schema);
    for key in ["items", "additionalProperties", "additionalItems", "not"] {
        match &schema[key] {
            Value::Array(several) => several.iter().for_each(|below| visit(below, see)),
            below => visit(below, see),
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        items(&schema[key]).iter().for_each(|below| visit(below, see));
    }
    for key in ["properties", "patternProperties", "definitions", "dependencies"] {
        fields(&schema[key]).for_each(|(_, below)| visit(below, see));
    }
}

/// Whether the schema of any version has a default.
pub(super) fn any_default(versions: &[Value]) -> bool {
    let mut found = false;
    for version in versions {
        visit(&version["schema"]["openAPIV3Schema"], &mut |schema| found |= schema.get("default").is_some());
    }
    found
}

/// Formats that mean nothing, of all versions.
pub(super) fn unknown_formats(versions: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for version in versions {
        visit(&version["schema"]["openAPIV3Schema"], &mut |schema| {
            let format = text(schema, "format");
            if !format.is_empty() && !is_supported_format(text(schema, "type"), format) {
                found.push(format.to_owned());
            }
        });
    }
    found
}

/// Every fault of a schema; `validation` is what a version's `schema` holds.
pub(super) fn validate(validation: &Value, has_status: bool, path: &Path, faults: &mut Faults) {
    let schema = &validation["openAPIV3Schema"];
    if !schema.is_object() {
        return;
    }
    let path = path.child("openAPIV3Schema");
    let before = faults.len();
    if has_status {
        at_root(schema, &path, faults);
    }
    if schema["nullable"] == true {
        faults.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    let unreadable = structurality::unreadable(schema);
    let mut is_structural = false;
    if unreadable.is_none() {
        let mut structure = Faults::new();
        structurality::validate(schema, &path, &mut structure);
        if structure.is_empty() {
            let structural = Schema::read(schema);
            let mut defaults = Faults::new();
            default_faults(&structural, schema, &path, true, &mut defaults);
            is_structural = defaults.is_empty();
            faults.append(defaults);
        } else {
            structure.sort();
            faults.append(structure);
        }
    }
    let place =
        Place { forbids_defaults: None, in_metadata: false, uncorrelated: None, is_root: true, within: Some(1) };
    let mut judge = Judge { faults, rules: Faults::new(), costs: Costs::default(), is_structural };
    judge.schema(schema, &path, &place);
    let Judge { rules, costs, .. } = judge;
    faults.append(rules);
    costs.judge(&path, faults);
    if let Some(why) = unreadable.filter(|_| faults.len() == before) {
        faults.invalid(&path, "", &why);
    }
}

fn at_root(schema: &Value, path: &Path, faults: &mut Faults) {
    if text(schema, "type") != "object" && schema.get("type").is_some() {
        let why =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        faults.invalid(&path.child("type"), text(schema, "type"), why);
        return;
    }
    if fields(schema).any(|(key, _)| !AT_ROOT.iter().any(|(allowed, _)| key == allowed)) {
        let names: Vec<&str> = AT_ROOT.iter().map(|(_, name)| *name).collect();
        let why = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        faults.invalid(path, schema, &why);
    }
}

/// Where a schema stands.
#[derive(Clone)]
struct Place {
    /// Why there may be no default.
    forbids_defaults: Option<String>,
    /// Whether it is about the metadata of an object.
    in_metadata: bool,
    /// The place above which old and new values cannot be told to be the same.
    uncorrelated: Option<Path>,
    is_root: bool,
    /// How often it is in an object at most, by the bounds of the lists and maps above; `None` = one of them has none.
    within: Option<u64>,
}

/// What the rules of a schema cost together.
#[derive(Default)]
struct Costs {
    total: u64,
    /// Those that have a part in it worth telling, the dearest first.
    dearest: Vec<(u64, Path)>,
}

impl Costs {
    /// So many of the dearest are told.
    const TOLD_MAX: usize = 4;

    fn add(&mut self, path: Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_MAX / 100 {
            let at = self.dearest.partition_point(|(other, _)| *other >= cost);
            self.dearest.insert(at, (cost, path));
            self.dearest.truncate(Self::TOLD_MAX);
        }
    }

    fn judge(&self, root: &Path, faults: &mut Faults) {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let Some(why) = over_budget(what, self.total, SCHEMA_COST_MAX) else { return };
        for (_, path) in &self.dearest {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            faults.forbidden(path, why);
        }
        faults.forbidden(root, &why);
    }
}

struct Judge<'f> {
    faults: &'f mut Faults,
    /// Told behind all others.
    rules: Faults,
    costs: Costs,
    is_structural: bool,
}

impl Judge<'_> {
    fn schema(&mut self, schema: &Value, path: &Path, place: &Place) {
        if !schema.is_object() {
            return;
        }
        let before = self.faults.len();
        self.openapi(schema, path, place);
        if schema["uniqueItems"] == true {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.faults.forbidden(&path.child("uniqueItems"), why);
        }
        self.below(schema, path, place);
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.faults.invalid(&path, &Value::Bool(false), "must be true or undefined");
        }
        self.map_type(schema, path);
        self.list_type(schema, path);
        self.rule_texts(schema, path);
        if self.faults.len() == before && self.is_structural && !items(&schema["x-kubernetes-validations"]).is_empty() {
            self.rules(schema, path, place);
        }
    }

    /// What of OpenAPI is not served.
    fn openapi(&mut self, schema: &Value, path: &Path, place: &Place) {
        let kind = text(schema, "type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.faults.not_supported(&path.child("type"), kind, &TYPES);
        }
        if let Some(why) = place.forbids_defaults.as_ref().filter(|_| schema.get("default").is_some()) {
            self.faults.forbidden(&path.child("default"), &format!("must not be set {why}"));
        }
        for (key, is_there) in [
            ("id", !text(schema, "id").is_empty()),
            ("additionalItems", !schema["additionalItems"].is_null()),
            ("patternProperties", fields(&schema["patternProperties"]).next().is_some()),
            ("definitions", fields(&schema["definitions"]).next().is_some()),
            ("dependencies", schema["dependencies"].is_object()),
            ("$ref", schema["$ref"].is_string()),
        ] {
            if is_there {
                self.faults.forbidden(&path.child(key), &format!("{key} is not supported"));
            }
        }
        if kind == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            self.faults.forbidden(&path.child("type"), why);
        }
        if !items(&schema["items"]).is_empty() {
            self.faults.forbidden(&path.child("items"), "items must be a schema object and not an array");
        }
        if place.in_metadata && schema["x-kubernetes-embedded-resource"] == true {
            let path = path.child("x-kubernetes-embedded-resource");
            self.faults.forbidden(&path, "must not be used inside of resource meta");
        }
    }

    fn below(&mut self, schema: &Value, path: &Path, place: &Place) {
        let within = place.within.zip(elements_max(schema)).map(|(above, own)| above.saturating_mul(own));
        let inner = Place { is_root: false, within, ..place.clone() };
        let additional = &schema["additionalProperties"];
        if !additional.is_null() {
            let has_properties = fields(&schema["properties"]).next().is_some();
            if has_properties && *additional != true {
                let why = "additionalProperties and properties are mutual exclusive";
                self.faults.forbidden(&path.child("additionalProperties"), why);
            }
            let mut inner = inner.clone();
            if place.in_metadata {
                let why = "inside additionalProperties applying to object metadata";
                inner.forbids_defaults = Some(why.to_owned());
            }
            self.schema(additional, &path.child("additionalProperties"), &inner);
        }
        let is_object = place.is_root || schema["x-kubernetes-embedded-resource"] == true;
        for (name, below) in fields(&schema["properties"]) {
            let mut inner = inner.clone();
            if text(schema, "x-kubernetes-map-type") == "atomic" {
                inner.uncorrelated = inner.uncorrelated.or_else(|| Some(path.clone()));
            }
            if is_object && META.contains(&name.as_str()) {
                inner.in_metadata = true;
                if place.is_root {
                    inner.forbids_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.schema(below, &path.child("properties").key(name), &inner);
        }
        self.schema(&schema["not"], &path.child("not"), &inner);
        for key in ["allOf", "oneOf", "anyOf"] {
            for (i, below) in items(&schema[key]).iter().enumerate() {
                self.nested(below, &path.child(key).index(i), &inner);
            }
        }
        for (name, below) in fields(&schema["definitions"]) {
            self.nested(below, &path.child("definitions").key(name), &inner);
        }
        let mut of_items = inner.clone();
        if text(schema, "x-kubernetes-list-type") != "map" {
            of_items.uncorrelated = of_items.uncorrelated.or_else(|| Some(path.clone()));
        }
        self.schema(&schema["items"], &path.child("items"), &of_items);
        for (i, below) in items(&schema["items"]).iter().enumerate() {
            self.schema(below, &path.child("items").index(i), &of_items);
        }
        for (name, below) in fields(&schema["dependencies"]) {
            self.nested(below, &path.child("dependencies").key(name), &inner);
        }
    }

    /// Rules are judged only where there is structure.
    fn nested(&mut self, schema: &Value, path: &Path, place: &Place) {
        let is_structural = std::mem::replace(&mut self.is_structural, false);
        self.schema(schema, path, place);
        self.is_structural = is_structural;
    }

    fn map_type(&mut self, schema: &Value, path: &Path) {
        let Some(map_type) = schema["x-kubernetes-map-type"].as_str() else { return };
        let why = "must be object if x-kubernetes-map-type is specified";
        match text(schema, "type") {
            "object" => {}
            "" => self.faults.required(&path.child("type"), why),
            kind => self.faults.invalid(&path.child("type"), kind, why),
        }
        if !matches!(map_type, "atomic" | "granular") {
            self.faults.not_supported(&path.child("x-kubernetes-map-type"), map_type, &["atomic", "granular"]);
        }
    }

    fn list_type(&mut self, schema: &Value, path: &Path) {
        let list_type = schema["x-kubernetes-list-type"].as_str();
        let kind = text(schema, "type");
        let of = &schema["items"];
        if let Some(own) = list_type {
            let why = "must be array if x-kubernetes-list-type is specified";
            match kind {
                "array" => {}
                "" => self.faults.required(&path.child("type"), why),
                kind => self.faults.invalid(&path.child("type"), kind, why),
            }
            if own == "set" && kind == "array" {
                self.set_items(of, &path.child("items"));
            }
            if !matches!(own, "atomic" | "set" | "map") {
                let path = path.child("x-kubernetes-list-type");
                self.faults.not_supported(&path, own, &["atomic", "set", "map"]);
            }
        }
        let keys = items(&schema["x-kubernetes-list-map-keys"]);
        if !keys.is_empty() && list_type != Some("map") {
            let (path, why) =
                (path.child("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
            match list_type {
                None => self.faults.required(&path, why),
                Some(own) => self.faults.invalid(&path, own, why),
            }
        }
        if list_type == Some("map") {
            self.map_keys(schema, keys, path);
        }
        if matches!(list_type, Some("set" | "map")) && of.is_object() {
            self.keyed_items(of, list_type.unwrap_or_default(), keys, &path.child("items"));
        }
    }

    fn set_items(&mut self, of: &Value, path: &Path) {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let list = of["x-kubernetes-list-type"].as_str();
        match text(of, "type") {
            "array" if list.is_some_and(|list| list != "atomic") => {
                self.faults.invalid(&path.child("x-kubernetes-list-type"), list.unwrap_or_default(), why);
            }
            "object" if text(of, "x-kubernetes-map-type") != "atomic" => {
                self.faults.invalid(&path.child("x-kubernetes-map-type"), &of["x-kubernetes-list-type"], why);
            }
            _ => {}
        }
    }

    fn map_keys(&mut self, schema: &Value, keys: &[Value], path: &Path) {
        let of = &schema["items"];
        let keys_path = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.faults.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
        }
        if of.is_null() {
            let why = "must have a schema if x-kubernetes-list-type is map";
            self.faults.required(&path.child("items"), why);
            return;
        }
        if !of.is_object() {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            self.faults.invalid(&path.child("items"), of, why);
            return;
        }
        if text(of, "type") != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.faults.invalid(&path.child("items").child("type"), text(of, "type"), why);
            return;
        }
        let all = Value::Array(keys.to_vec());
        for (i, key) in keys.iter().enumerate() {
            match of["properties"].get(key.as_str().unwrap_or_default()) {
                Some(property) if matches!(text(property, "type"), "array" | "object") => {
                    let path = path.child("items").child("properties").key(key.as_str().unwrap_or_default());
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.faults.invalid(&path.child("type"), text(of, "type"), why);
                }
                Some(_) => {}
                None => self.faults.invalid(&keys_path, &all, "entries must all be names of item properties"),
            }
            if keys[..i].contains(key) {
                self.faults.invalid(&keys_path, &all, "must not contain duplicate entries");
            }
        }
    }

    /// Items that are told apart are never null, nor are their keys ever missing.
    fn keyed_items(&mut self, of: &Value, list_type: &str, keys: &[Value], path: &Path) {
        if of["nullable"] == true {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.faults.forbidden(&path.child("nullable"), &why);
        }
        for key in keys.iter().filter(|_| list_type == "map") {
            let Some(property) = of["properties"].get(key.as_str().unwrap_or_default()) else { continue };
            let path = path.child("properties").key(key.as_str().unwrap_or_default());
            if !items(&of["required"]).contains(key) && property.get("default").is_none() {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                           property";
                self.faults.required(&path.child("default"), why);
            }
            if property["nullable"] == true {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.faults.forbidden(&path.child("nullable"), why);
            }
        }
    }

    fn rule_texts(&mut self, schema: &Value, path: &Path) {
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let breaks = |text: &str| text.contains(['\n', '\r']);
        for (i, rule) in items(&schema["x-kubernetes-validations"]).iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(i);
            let (own, message) = (text(rule, "rule"), text(rule, "message"));
            if own.trim().is_empty() {
                self.faults.required(&path.child("rule"), "rule is not specified");
            } else if !message.is_empty() && message.trim().is_empty() {
                self.faults.invalid(&path.child("message"), message, "must be non-empty if specified");
            } else if breaks(message.trim()) {
                self.faults.invalid(&path.child("message"), message, "must not contain line breaks");
            } else if breaks(own.trim()) && message.trim().is_empty() {
                let why = "message must be specified if rule contains line breaks";
                self.faults.required(&path.child("message"), why);
            }
            let expression = text(rule, "messageExpression");
            if !expression.is_empty() && expression.trim().is_empty() {
                let why = "messageExpression must be non-empty if specified";
                self.faults.required(&path.child("messageExpression"), why);
            }
            if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
                self.faults.not_supported(&path.child("reason"), reason, &REASONS);
            }
            let field = text(rule, "fieldPath");
            if field.is_empty() {
                continue;
            }
            let path = path.child("fieldPath");
            if field.trim().is_empty() {
                self.faults.invalid(&path, field, "must be non-empty if specified");
            }
            if breaks(field) {
                self.faults.invalid(&path, field, "must not contain line breaks");
            }
            if at_path(field, schema, true).is_err() {
                self.faults.invalid(&path, field, "must be a valid path");
            }
        }
    }

    fn spend(&mut self, what: &str, cost: u64, path: Path) {
        if let Some(why) = over_budget(what, cost, RULE_COST_MAX) {
            self.rules.forbidden(&path, &why);
        }
        self.costs.add(path, cost);
    }

    fn rules(&mut self, schema: &Value, path: &Path, place: &Place) {
        let all = path.child("x-kubernetes-validations");
        let rules = items(&schema["x-kubernetes-validations"]);
        for fault in Rules::faults_of(schema) {
            let path = all.index(fault.index).child(if fault.in_message { "messageExpression" } else { "rule" });
            self.rules.invalid(&path, &rules[fault.index], &fault.why);
        }
        for (i, rule) in rules.iter().enumerate() {
            let cost = expression_cost(text(rule, "rule"), schema);
            let cost = cost.saturating_mul(cardinality(place.within, schema));
            self.spend("estimated rule cost", cost, all.index(i).child("rule"));
            // A message is made once, whatever is wrong with how many.
            let cost = expression_cost(text(rule, "messageExpression"), schema);
            self.spend("estimated messageExpression cost", cost, all.index(i).child("messageExpression"));
            let uses_old = text(rule, "rule").contains("oldSelf");
            if let Some(above) = place.uncorrelated.as_ref().filter(|_| uses_old) {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
                self.rules.invalid(&all.index(i).child("rule"), text(rule, "rule"), &why);
            }
            if !uses_old && !rule["optionalOldSelf"].is_null() {
                let path = all.index(i).child("optionalOldSelf");
                self.rules.invalid(&path, &rule["optionalOldSelf"], "may not be set if oldSelf is not used in rule");
            }
        }
    }
}

/// Every fault of the defaults of a schema: they must be values of it.
fn default_faults(schema: &Schema, json: &Value, path: &Path, is_root: bool, faults: &mut Faults) {
    if let Some(default) = &schema.default {
        let path = path.child("default");
        let mut pruned = default.clone();
        structural::prune(&mut pruned, schema, schema.embedded);
        if pruned != *default {
            faults.invalid(&path, default, "must not have unknown fields");
        }
        let mut coerced = default.clone();
        match coerce_embedded(&mut coerced, schema, &path, false) {
            Err((path, why)) => faults.invalid(&path, default, &why),
            Ok(_) => {
                let before = faults.len();
                validate_embedded(&coerced, schema, &path, faults);
                if faults.len() == before {
                    let base = path.to_string();
                    check(default, schema).iter().for_each(|finding| tell(finding, Some(&base), faults));
                }
                if faults.len() == before
                    && let Some(rules) = Rules::read(json)
                {
                    rules.validate(default, None, &path, faults);
                }
            }
        }
    }
    if let Some(of) = &schema.items {
        default_faults(of, &json["items"], &path.child("items"), false, faults);
    }
    for (name, below) in &schema.properties {
        // What every object has is judged by the object's own rules, not by a part of them.
        if (is_root || schema.embedded) && META.contains(&name.as_str()) {
            continue;
        }
        let path = path.child("properties").key(name);
        default_faults(below, &json["properties"][name.as_str()], &path, false, faults);
    }
}

/// The schema that a path of fields leads to: `.spec.color`, and `['key']` if `brackets` may stand in it.
///
/// # Errors
/// Why there is none.
pub(super) fn at_path<'v>(path: &str, schema: &'v Value, brackets: bool) -> Result<&'v Value, String> {
    let mut found = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(tail) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let inside =
                tail.strip_prefix('\'').ok_or_else(|| format!("expected single quoted string but got {tail}"))?;
            let (quoted, tail) = inside.split_once('\'').ok_or("unexpected end of JSON path")?;
            name = quoted;
            rest = tail.strip_prefix(']').ok_or_else(|| format!("expected ] but got {tail}"))?;
        } else if let Some(tail) = rest.strip_prefix('.') {
            if tail.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            (name, rest) = tail.split_at(tail.find(['.', '[', ']']).unwrap_or(tail.len()));
        } else {
            return Err(format!("expected [ or . but got: {}", rest.split(['.', '[', ']']).next().unwrap_or(rest)));
        }
        let nowhere = || "does not refer to a valid field".to_owned();
        let empty = Map::new();
        let properties = found["properties"].as_object().unwrap_or(&empty);
        found = if !properties.is_empty() {
            found["properties"].get(name).ok_or_else(nowhere)?
        } else if found["additionalProperties"].is_object() {
            &found["additionalProperties"]
        } else {
            return Err(nowhere());
        };
    }
    Ok(found)
}
