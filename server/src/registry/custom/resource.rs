//! The rules of a custom resource: those of every kind, answered from its definition.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::super::kinds::{Faults, Habits, OwnMetadata, Part, Path, Reset, Shown, Strategy, qualified_name_faults};
use super::super::structural::{self, Finding, Rules, Schema, What};
use super::super::table::{Cell, Column};
use super::JsonPath;
use super::columns::Columns;
use super::scaling::ScalePaths;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// One served version of a definition.
#[derive(Debug)]
pub(in super::super) struct CustomResource {
    /// `stable.example.com/v1`.
    pub(in super::super) api_version: &'static str,
    /// `CronTab`.
    pub(in super::super) kind: &'static str,
    /// The version in which objects are stored.
    pub(in super::super) storage_api_version: &'static str,
    /// The name of the definition: `crontabs.stable.example.com`.
    pub(in super::super) definition: &'static str,
    /// What its objects are.
    pub(in super::super) schema: Schema,
    /// The same as JSON, for OpenAPI.
    pub(in super::super) schema_json: Value,
    pub(super) rules: Option<Rules>,
    pub(super) has_status: bool,
    /// Where the numbers of its Scale stand, if it has one.
    pub(in super::super) scale: Option<ScalePaths>,
    pub(super) columns: Columns,
    /// `spec.color`.
    pub(super) fields: &'static [&'static str],
    pub(super) field_paths: Vec<JsonPath>,
    /// What a client that uses this version is told, if it is going away.
    pub(in super::super) deprecation: Option<String>,
}

/// The rules hung on the row of a custom resource; `None` for a kind of the table.
pub(in super::super) fn custom(kind: &'static Kind) -> Option<&'static CustomResource> {
    kind.extension.and_then(|extension| extension.get())
}

impl CustomResource {
    /// All but the metadata and what only a change can make wrong.
    fn validate(&self, part: Part, object: &Object, old: Option<&Object>, faults: &mut Faults) {
        let wrong_type = self.type_faults(&object.0);
        if !wrong_type.is_empty() {
            for (key, own, why) in wrong_type {
                faults.invalid(&Path::new(key), own.as_str(), &why);
            }
            return;
        }
        let whole = Value::Object(object.0.clone());
        let old_whole = old.map(|old| Value::Object(old.0.clone()));
        self.validate_schema(part, &whole, old_whole.as_ref(), faults);
        if let Some(scale) = &self.scale {
            for (path, value, why) in scale.faults(object, part != Part::Status) {
                faults.invalid(&Path::new(&path), &value, &why);
            }
        }
        let root = Path::new("");
        if part != Part::Status {
            structural::validate_embedded(&whole, &self.schema, &root, faults);
        }
        let mut before = Faults::new();
        if let Some(old) = &old_whole {
            structural::validate_lists(old, &self.schema, &root, &mut before);
        }
        // What was wrong before may stay so.
        if before.is_empty() {
            structural::validate_lists(&whole, &self.schema, &root, faults);
        }
        if let Some(rules) = &self.rules {
            if faults.block_rules() {
                faults.invalid(
                    &Path::new("<nil>"),
                    &Value::Null,
                    "some validation rules were not checked because the object was invalid; correct the existing errors \
                     to complete validation",
                );
            } else {
                rules.validate(&whole, old_whole.as_ref(), &root, faults);
            }
        }
    }

    /// The schema for clients: what every object has is named as well.
    pub(in super::super) fn openapi(&self) -> Value {
        let mut schema =
            if self.schema_json.is_object() { self.schema_json.clone() } else { json!({"type": "object"}) };
        let reference = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let about = |text: &str| json!({"type": "string", "description": text});
        let properties = &mut schema["properties"];
        if !properties.is_object() {
            *properties = json!({});
        }
        properties["apiVersion"] = about(
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
             recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        );
        properties["kind"] = about(
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
             the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        );
        properties["metadata"] = json!({
            "description": "Standard object's metadata. More info: \
                https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
            "allOf": [{"$ref": reference}],
        });
        schema
    }

    fn validate_schema(&self, part: Part, whole: &Value, old: Option<&Value>, faults: &mut Faults) {
        if part != Part::Status {
            let found = match old {
                Some(old) => structural::check_change(whole, &self.schema, old),
                None => structural::check(whole, &self.schema),
            };
            found.iter().for_each(|finding| tell(finding, None, faults));
            return;
        }
        let (Some(status), Some(schema)) = (whole.get("status"), self.schema.properties.get("status")) else { return };
        let found = match old.and_then(|old| old.get("status")) {
            Some(old) => structural::check_change(status, schema, old),
            None => structural::check(status, schema),
        };
        found.iter().for_each(|finding| tell(finding, Some("status"), faults));
    }
}

/// A finding as a fault of the object; `below` = the field that was checked.
pub(in super::super) fn tell(finding: &Finding, below: Option<&str>, faults: &mut Faults) {
    let base = below.map_or(Path::new(""), Path::new);
    let path = match (finding.path.trim_start_matches('.'), below) {
        // Upstream has no path there, and Go prints that so.
        ("", None) => Path::new("<nil>"),
        ("", Some(_)) => base,
        (rest, _) => base.child(rest),
    };
    match &finding.what {
        What::Required => faults.required(&path, ""),
        What::Enum { value, allowed } => {
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            faults.not_supported(&path, value, &allowed);
        }
        What::TooLong(max) => faults.too_long(&path, usize::try_from(*max).unwrap_or(0)),
        What::TooMany { count, max } => {
            faults.too_many(&path, usize::try_from(*count).unwrap_or(0), usize::try_from(*max).unwrap_or(0));
        }
        What::Type(value) => faults.type_invalid(&path, value, &finding.message),
        What::Invalid(value) => faults.invalid(&path, value, &finding.message),
        What::Whole => faults.invalid(&path, Shown::from(""), &finding.message),
    }
}

impl Strategy for CustomResource {
    fn schema(&self) -> &'static str {
        // Its objects are no struct of the tables; whoever decodes them asks for the schema of the definition.
        "meta/v1.PartialObjectMetadata"
    }

    fn default(&self, object: &mut Object) {
        let mut whole = Value::Object(std::mem::take(&mut object.0));
        structural::default(&mut whole, &self.schema);
        if let Value::Object(map) = whole {
            object.0 = map;
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        if self.has_status {
            object.0.remove("status");
        }
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        if part == Part::Status {
            let status = new.0.remove("status");
            *new = old.clone();
            match status {
                Some(status) => drop(new.0.insert("status".to_owned(), status)),
                None => drop(new.0.remove("status")),
            }
        } else if self.has_status {
            match old.0.get("status") {
                Some(status) => drop(new.0.insert("status".to_owned(), status.clone())),
                None => drop(new.0.remove("status")),
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        self.validate(Part::Main, object, None, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate(part, new, Some(old), faults);
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let mut warnings: Vec<String> = self.deprecation.iter().cloned().collect();
        object.finalizers().for_each(|finalizer| warnings.extend(finalizer_warnings(finalizer)));
        warnings
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        let mut warnings: Vec<String> = self.deprecation.iter().cloned().collect();
        if part != Part::Status {
            let added = new.finalizers().filter(|finalizer| !old.finalizers().any(|known| known == *finalizer));
            added.for_each(|finalizer| warnings.extend(finalizer_warnings(finalizer)));
        }
        warnings
    }

    fn reset_fields(&self, part: Part) -> Reset {
        match part {
            Part::Status => Reset::These(&[&["metadata"], &["spec"]]),
            _ if self.has_status => Reset::These(&[&["status"]]),
            _ => Reset::These(&[]),
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Plain, allows_unconditional_update: false, ..Habits::USUAL }
    }

    fn is_new_generation(&self, new: &Object, old: &Object) -> bool {
        let rest = |object: &Object| {
            object
                .0
                .iter()
                .filter(|(key, _)| *key != "metadata" && !(self.has_status && *key == "status"))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect::<serde_json::Map<_, _>>()
        };
        rest(new) != rest(old)
    }

    fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    fn field(&self, object: &Object, path: &str) -> Option<String> {
        let at = self.fields.iter().position(|own| *own == path)?;
        let whole = Value::Object(object.0.clone());
        let found = self.field_paths.get(at)?.find(&whole).first().copied()?;
        match found {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    fn unknown_field(&self, path: &str) -> String {
        format!("field label not supported: {path}")
    }

    fn columns(&self) -> &'static [Column] {
        self.columns.headers
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        self.columns.cells(object, now)
    }
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let mut warnings: Vec<String> = qualified_name_faults(finalizer)
        .into_iter()
        .map(|why| format!("metadata.finalizers: {finalizer}: {why}", finalizer = quote(&finalizer)))
        .collect();
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let what = if finalizer.contains('.') { "including a path (/) " } else { "" };
        warnings.push(format!(
            "metadata.finalizers: {finalizer}: prefer a domain-qualified finalizer name {what}to avoid accidental \
             conflicts with other finalizer writers",
            finalizer = quote(&finalizer)
        ));
    }
    warnings
}
