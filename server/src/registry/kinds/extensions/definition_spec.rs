//! What is wrong with a definition: names, versions, columns, subresources, conversion (apiextensions-apiserver
//! `validation.go`, Kubernetes 1.36).
//!
//! Upstream judges an older form, in which what all versions have alike stands once beside them: so do the paths of the
//! faults (`spec.validation`, `spec.subresources`).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::definition_schema;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::names;

/// Fields that a selector may name at most.
const SELECTABLE_MAX: usize = 8;
/// What says that a kind of Kubernetes' own groups is approved.
const APPROVED: &str = "api-approved.kubernetes.io";

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Parts of a version that stand once if all versions have them alike.
const SHARED: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

/// The spec in the older form: the versions, and what they have alike.
struct Internal {
    versions: Vec<Value>,
    shared: Value,
    /// No list was sent, not even an empty one.
    is_missing: bool,
}

impl Internal {
    fn of(spec: &Value) -> Internal {
        let mut versions = items(&spec["versions"]).to_vec();
        let mut shared = json!({});
        for key in SHARED {
            let Some(first) = versions.first().map(|version| version[key].clone()) else { continue };
            if versions.iter().all(|version| version[key] == first) {
                versions.iter_mut().for_each(|version| version[key] = Value::Null);
                shared[key] = first;
            }
        }
        Internal { versions, shared, is_missing: spec["versions"].is_null() }
    }

    /// The versions as Go prints them.
    fn shown(&self) -> Shown {
        if self.is_missing {
            return Shown("null".to_owned());
        }
        let part = |value: &Value| if value.is_null() { "null".to_owned() } else { value.to_string() };
        let one = |version: &Value| {
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\
                 \"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                json!(text(version, "name")),
                version["served"] == true,
                version["storage"] == true,
                version["deprecated"] == true,
                part(&version["deprecationWarning"]),
                part(&version["schema"]),
                part(&version["subresources"]),
                part(&version["additionalPrinterColumns"]),
                part(&version["selectableFields"]),
            )
        };
        Shown(format!("[{}]", self.versions.iter().map(one).collect::<Vec<_>>().join(",")))
    }
}

/// Every fault of a definition; `old` is what it replaces.
pub(super) fn validate(object: &Object, old: Option<&Object>, faults: &mut Faults) {
    let spec = object.0.get("spec").cloned().unwrap_or_default();
    if old.is_none() {
        let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(&spec, "group"));
        if !object.name().is_empty() && object.name() != wanted {
            faults.invalid(&Path::new("metadata.name"), object.name(), "must be spec.names.plural+\".\"+spec.group");
        }
    }
    let before = faults.len();
    spec_faults(&spec, faults);
    if let Some(old) = old {
        immutable(&spec, old, faults);
    }
    status(object, faults);
    stored_versions(object, faults);
    approval(object, old, text(&spec, "group"), faults);
    let preserved = old.is_some_and(|old| old.flag(&["spec", "preserveUnknownFields"]));
    if spec["preserveUnknownFields"] == true && !preserved {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        faults.invalid(&Path::new("spec.preserveUnknownFields"), &Value::Bool(true), why);
    }
    if faults.len() == before && text(&spec["conversion"], "strategy") == "Webhook" {
        let why =
            "conversion by webhooks is not served; use None, with which versions differ in nothing but their name";
        faults.forbidden(&Path::new("spec.conversion.strategy"), why);
    }
}

fn spec_faults(spec: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    group(text(spec, "group"), &path.child("group"), faults);
    match text(spec, "scope") {
        "" => faults.required(&path.child("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => faults.not_supported(&path.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    let internal = Internal::of(spec);
    let shared = &internal.shared;
    if !shared["schema"]["openAPIV3Schema"].is_object() {
        for (i, version) in internal.versions.iter().enumerate() {
            if !version["schema"]["openAPIV3Schema"].is_object() {
                faults.required(&path.child("versions").index(i).child("schema").child("openAPIV3Schema"), "");
            }
        }
    }
    if spec["preserveUnknownFields"] == true && definition_schema::any_default(items(&spec["versions"])) {
        let why = "must be false in order to use defaults in the schema";
        faults.invalid(&path.child("preserveUnknownFields"), &Value::Bool(true), why);
    }
    versions(&internal, &path, faults);
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], key).is_empty() {
            faults.required(&path.child("names").child(key), "");
        }
    }
    names_faults(&spec["names"], &path.child("names"), faults);
    let has_status = items(&spec["versions"]).iter().any(|version| version["subresources"]["status"].is_object());
    definition_schema::validate(&shared["schema"], has_status, &path.child("validation"), faults);
    subresources(&shared["subresources"], &path.child("subresources"), faults);
    columns(&shared["additionalPrinterColumns"], &path.child("additionalPrinterColumns"), faults);
    selectable(&shared["selectableFields"], &shared["schema"], &path.child("selectableFields"), faults);
    conversion(spec, &path.child("conversion"), faults);
}

fn group(group: &str, path: &Path, faults: &mut Faults) {
    let why = names::subdomain(group, false);
    match () {
        () if group.is_empty() => faults.required(path, ""),
        () if !why.is_empty() => faults.invalid(path, group, &why.join(",")),
        () if !group.contains('.') => faults.invalid(path, group, "should be a domain with at least one dot"),
        () => {}
    }
}

fn versions(internal: &Internal, path: &Path, faults: &mut Faults) {
    let all = path.child("versions");
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in internal.versions.iter().enumerate() {
        let own = all.index(i);
        let name = text(version, "name");
        let why = names::label_1035(name);
        if !why.is_empty() {
            faults.invalid(&own.child("name"), name, &why.join(","));
        }
        seen.push(name);
        deprecation(version, &own.child("deprecationWarning"), faults);
        let parts = if version["subresources"].is_null() { &internal.shared } else { version };
        let has_status = parts["subresources"]["status"].is_object();
        definition_schema::validate(&version["schema"], has_status, &own.child("schema"), faults);
        subresources(&version["subresources"], &own.child("subresources"), faults);
        columns(&version["additionalPrinterColumns"], &own.child("additionalPrinterColumns"), faults);
        selectable(&version["selectableFields"], &version["schema"], &own.child("selectableFields"), faults);
    }
    let repeated = seen.iter().enumerate().any(|(i, name)| seen[..i].contains(name));
    if repeated {
        faults.invalid(&all, internal.shown(), "must contain unique version names");
    }
    if internal.versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        faults.invalid(&all, internal.shown(), "must have exactly one version marked as storage version");
    }
    let first = seen.first().copied().unwrap_or_default();
    let why = names::label_1035(first);
    if !first.is_empty() && !why.is_empty() {
        faults.invalid(&path.child("version"), first, &why.join(","));
    }
}

fn deprecation(version: &Value, path: &Path, faults: &mut Faults) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let mut told = |why: &str| faults.invalid(path, warning, why);
    if version["deprecated"] != true {
        told("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        told("must be <= 256 characters long");
    }
    if warning.is_empty() {
        told("must not be an empty string");
    }
    let hidden = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some(at) = warning.find(hidden) {
        told(&format!("must only contain printable UTF-8 characters; non-printable character found at index {at}"));
    }
}

/// The names of a kind, wanted or accepted.
fn names_faults(wanted: &Value, path: &Path, faults: &mut Faults) {
    for (key, mixed) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = text(wanted, key);
        let why = names::label_1035(&if mixed { name.to_lowercase() } else { name.to_owned() });
        if !name.is_empty() && !why.is_empty() {
            let why = why.join(",");
            let why = if mixed { format!("may have mixed case, but should otherwise match: {why}") } else { why };
            faults.invalid(&path.child(key), name, &why);
        }
    }
    labels(&wanted["shortNames"], &path.child("shortNames"), faults);
    let kind = text(wanted, "kind");
    if !kind.is_empty() && kind == text(wanted, "listKind") {
        faults.invalid(&path.child("listKind"), kind, "kind and listKind may not be the same");
    }
    labels(&wanted["categories"], &path.child("categories"), faults);
}

/// Further names, each a label.
fn labels(list: &Value, path: &Path, faults: &mut Faults) {
    for (i, name) in items(list).iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let why = names::label_1035(name);
        if !why.is_empty() {
            faults.invalid(&path.index(i), name, &why.join(","));
        }
    }
}

/// A path in the dot notation. True = it may be looked at further.
fn simple_path(text: &str, path: &Path, faults: &mut Faults) -> bool {
    if text.starts_with('.') {
        return true;
    }
    faults.invalid(path, text, "must be a simple json path starting with .");
    false
}

fn subresources(parts: &Value, path: &Path, faults: &mut Faults) {
    let scale = &parts["scale"];
    if !scale.is_object() {
        return;
    }
    for (key, below) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let (own, path) = (text(scale, key), path.child(&format!("scale.{key}")));
        if own.is_empty() {
            faults.required(&path, "");
        } else if simple_path(own, &path, faults) && !own.starts_with(below) {
            faults.invalid(&path, own, &format!("should be a json path under {}", below.trim_end_matches('.')));
        }
    }
    let own = text(scale, "labelSelectorPath");
    let path = path.child("scale.labelSelectorPath");
    if !own.is_empty() && simple_path(own, &path, faults) && !own.starts_with(".spec.") && !own.starts_with(".status.")
    {
        faults.invalid(&path, own, "should be a json path under either .spec or .status");
    }
}

fn columns(columns: &Value, path: &Path, faults: &mut Faults) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (i, column) in items(columns).iter().enumerate() {
        let path = path.index(i);
        if text(column, "name").is_empty() {
            faults.required(&path.child("name"), "");
        }
        let one_of = |list: &[&str]| format!("must be one of {}", list.join(","));
        match text(column, "type") {
            "" => faults.required(&path.child("type"), &one_of(&TYPES)),
            own if !TYPES.contains(&own) => faults.invalid(&path.child("type"), own, &one_of(&TYPES)),
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            faults.invalid(&path.child("format"), format, &one_of(&FORMATS));
        }
        match text(column, "jsonPath") {
            "" => faults.required(&path.child("JSONPath"), ""),
            own => drop(simple_path(own, &path.child("JSONPath"), faults)),
        }
    }
}

fn selectable(fields: &Value, schema: &Value, path: &Path, faults: &mut Faults) {
    let fields = items(fields);
    if fields.is_empty() {
        return;
    }
    let schema = &schema["openAPIV3Schema"];
    if !schema.is_object() {
        faults.invalid(path, "", "may only be set when validations.schema is included");
        return;
    }
    let mut seen: Vec<String> = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let (own, path) = (text(field, "jsonPath"), path.index(i).child("jsonPath"));
        if own.is_empty() {
            faults.required(&path, "");
            continue;
        }
        let found = match definition_schema::at_path(own, schema, false) {
            Ok(found) => found,
            Err(why) => {
                faults.invalid(&path, own, &format!("is an invalid path: {why}"));
                continue;
            }
        };
        if own == ".metadata" || own.starts_with(".metadata.") {
            faults.invalid(&path, own, "must not point to fields in metadata");
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            faults.invalid(&path, own, why);
        }
        if seen.iter().any(|known| known == own) {
            faults.duplicate(&path, own);
        } else {
            seen.push(own.to_owned());
        }
    }
    if seen.len() > SELECTABLE_MAX {
        faults.too_many(path, seen.len(), SELECTABLE_MAX);
    }
}

fn conversion(spec: &Value, path: &Path, faults: &mut Faults) {
    let conversion = &spec["conversion"];
    if !conversion.is_object() {
        return;
    }
    let strategy = text(conversion, "strategy");
    let strategy_path = path.child("strategy");
    if !matches!(strategy, "None") && spec["preserveUnknownFields"] == true {
        faults.invalid(&strategy_path, strategy, "must be None if spec.preserveUnknownFields is true");
    }
    match strategy {
        "" => faults.required(&strategy_path, ""),
        "None" | "Webhook" => {}
        other => faults.not_supported(&strategy_path, other, &["None", "Webhook"]),
    }
    let webhook = &conversion["webhook"];
    let versions = items(&webhook["conversionReviewVersions"]);
    if strategy != "Webhook" {
        if webhook["clientConfig"].is_object() {
            let why = "should not be set when strategy is not set to Webhook";
            faults.forbidden(&path.child("webhookClientConfig"), why);
        }
        if !versions.is_empty() {
            let why = "should not be set when strategy is not set to Webhook";
            faults.forbidden(&path.child("conversionReviewVersions"), why);
        }
        return;
    }
    let config = &webhook["clientConfig"];
    let config_path = path.child("webhookClientConfig");
    if !config.is_object() {
        faults.required(&config_path, "required when strategy is set to Webhook");
    } else if config["url"].is_null() == config["service"].is_null() {
        faults.required(&config_path, "exactly one of url or service is required");
    }
    review_versions(versions, &path.child("conversionReviewVersions"), faults);
}

fn review_versions(versions: &[Value], path: &Path, faults: &mut Faults) {
    if versions.is_empty() {
        faults.required(path, "");
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        if seen.contains(&version) {
            faults.invalid(&path.index(i), version, "duplicate version");
            continue;
        }
        seen.push(version);
        faults.invalid_all(&path.index(i), version, names::label_1035(version));
    }
    if !seen.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        faults.invalid(path, &Value::Array(versions.to_vec()), "must include at least one of v1, v1beta1");
    }
}

/// What a change may not touch.
fn immutable(spec: &Value, old: &Object, faults: &mut Faults) {
    let was = old.0.get("spec").cloned().unwrap_or_default();
    let established = old.condition("Established").is_some_and(|condition| condition["status"] == "True");
    let mut same = |new: &Value, old: &Value, path: &str| {
        if new != old {
            faults.invalid(&Path::new(path), new, "field is immutable");
        }
    };
    if established {
        same(&spec["scope"], &was["scope"], "spec.scope");
        same(&spec["names"]["kind"], &was["names"]["kind"], "spec.names.kind");
    }
    same(&spec["group"], &was["group"], "spec.group");
    same(&spec["names"]["plural"], &was["names"]["plural"], "spec.names.plural");
}

/// Every fault of the status.
pub(super) fn status(object: &Object, faults: &mut Faults) {
    let accepted = object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    names_faults(&accepted, &Path::new("status.acceptedNames"), faults);
}

/// Versions in which objects are stored must be known as long as there may be some.
fn stored_versions(object: &Object, faults: &mut Faults) {
    let path = Path::new("status.storedVersions");
    let stored = object.at(&["status", "storedVersions"]).cloned().unwrap_or_default();
    if items(&stored).is_empty() {
        faults.invalid(&path, &Value::Null, "must have at least one stored version");
        return;
    }
    let versions = object.at(&["spec", "versions"]).cloned().unwrap_or_default();
    for version in items(&versions).iter().filter(|version| version["storage"] == true) {
        if !items(&stored).contains(&version["name"]) {
            faults.invalid(&path, &stored, &format!("must have the storage version {}", text(version, "name")));
        }
    }
    for (i, name) in items(&stored).iter().enumerate() {
        if !items(&versions).iter().any(|version| version["name"] == *name) {
            let own = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {own} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {own} and removes {own} from \
                 status.storedVersions"
            );
            faults.invalid(&path.index(i), own, &why);
        }
    }
}

/// Kinds in Kubernetes' own groups say who has approved of them.
fn approval(object: &Object, old: Option<&Object>, group: &str, faults: &mut Faults) {
    let is_protected = |suffix: &str| group == suffix || group.ends_with(&format!(".{suffix}"));
    if !is_protected("k8s.io") && !is_protected("kubernetes.io") {
        return;
    }
    let said = |object: &Object| object.annotation(APPROVED).unwrap_or_default().to_owned();
    let state = |text: &str| match text {
        "" => 0,
        text if text.starts_with("unapproved") => 1,
        text if text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) => 2,
        _ => 3,
    };
    let own = said(object);
    if old.is_some_and(|old| state(&said(old)) == state(&own)) {
        return;
    }
    let path = Path::new("metadata.annotations").key(APPROVED);
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state(&own) {
        0 => {
            let why = format!("protected groups must have approval annotation {APPROVED:?}, {SEE}");
            faults.required(&path, &why);
        }
        3 => {
            let why = format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \
                 \"unapproved\", {SEE}"
            );
            faults.invalid(&path, &own, &why);
        }
        _ => {}
    }
}
