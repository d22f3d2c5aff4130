//! From the body of a request to a custom resource: what its schema does not name is dropped and told.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;
use serde_json::{Map, Value};

use super::super::kinds::Path;
use super::super::schema::decode;
use super::super::schema::json::Node;
use super::super::structural;
use super::CustomResource;

/// Fields that stand outside of what the schema judges.
const TYPE: [&str; 2] = ["apiVersion", "kind"];

/// An object, and what strict validation says of it.
pub(in super::super) struct Taken {
    pub(in super::super) object: Map<String, Value>,
    pub(in super::super) strict: Vec<String>,
}

/// Why a body is no object of the kind.
pub(in super::super) enum Unfit {
    /// It does not even say what it is.
    Unrecognized(String),
    /// In the words of the decoder.
    Malformed(String),
}

impl CustomResource {
    /// Reads a body.
    ///
    /// # Errors
    /// For what is no object, says no kind or version, or has parts of a wrong type where all objects are alike.
    pub(in super::super) fn read_body(&self, node: &Node<'_>) -> Result<Taken, Unfit> {
        if let (Node::Object(_), Some(number)) = (node, node.too_large()) {
            return Err(Unfit::Malformed(format!(
                "json: cannot unmarshal number {number} into Go value of type float64"
            )));
        }
        let mut strict = Vec::new();
        duplicates(node, &mut String::new(), &mut strict);
        let Value::Object(mut object) = node.to_value() else {
            return Err(Unfit::Malformed(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                node.go_kind()
            )));
        };
        for (key, named) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
            if object.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let shown = Value::Object(object);
                return Err(Unfit::Unrecognized(format!("Object '{named}' is missing in '{shown}'")));
            }
        }
        let unknown = self.bring_into_form(&mut object, false).map_err(Unfit::Malformed)?;
        strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
        Ok(Taken { object, strict })
    }

    /// Metadata in Kubernetes' own form, what the schema does not name taken away; answers the paths of what went.
    ///
    /// # Errors
    /// For parts of a wrong type, unless `drops`: then they are dropped as well.
    pub(super) fn bring_into_form(&self, object: &mut Map<String, Value>, drops: bool) -> Result<Vec<String>, String> {
        let mut unknown = metadata(object, drops)?;
        let mut whole = Value::Object(std::mem::take(object));
        unknown.extend(structural::prune(&mut whole, &self.schema, true));
        structural::drop_nulls(&mut whole, Some(&self.schema));
        match structural::coerce_embedded(&mut whole, &self.schema, &Path::new(""), drops) {
            Ok(paths) => unknown.extend(paths),
            Err((path, why)) => return Err(format!("{path}: Invalid value: {why}")),
        }
        if let Value::Object(map) = whole {
            *object = map;
        }
        Ok(unknown)
    }

    /// Whether the object is of this kind, in upstream's words.
    pub(super) fn type_faults(&self, object: &Map<String, Value>) -> Vec<(&'static str, String, String)> {
        let wanted = [self.api_version, self.kind];
        let mut faults = Vec::new();
        for (key, wanted) in TYPE.into_iter().zip(wanted) {
            let own = object.get(key).and_then(Value::as_str).unwrap_or_default();
            if own != wanted {
                faults.push((key, own.to_owned(), format!("must be {wanted}")));
            }
        }
        faults
    }
}

/// Brings the metadata into form; answers the paths of fields that metadata does not have.
fn metadata(object: &mut Map<String, Value>, drops: bool) -> Result<Vec<String>, String> {
    let Some(own) = object.get("metadata") else { return Ok(Vec::new()) };
    let decoded = match decode("meta/v1.ObjectMeta", &Node::of(own)) {
        Ok(decoded) => decoded,
        Err(wrong) if !drops => return Err(wrong.message),
        Err(_) => return Ok(Vec::new()),
    };
    let unknown = decoded.strict.iter().filter_map(|told| told.split('"').nth(1));
    let unknown = unknown.map(|name| format!("metadata.{name}")).collect();
    object.insert("metadata".to_owned(), Value::Object(decoded.object));
    Ok(unknown)
}

/// `duplicate field "spec.x"`, in the order written.
fn duplicates(node: &Node<'_>, path: &mut String, told: &mut Vec<String>) {
    let length = path.len();
    match node {
        Node::Object(fields) => {
            let mut seen = std::collections::HashSet::with_capacity(fields.len());
            for (key, below) in fields {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                if !seen.insert(key.as_ref()) {
                    told.push(format!("duplicate field \"{path}\""));
                }
                duplicates(below, path, told);
                path.truncate(length);
            }
        }
        Node::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                path.push_str(&format!("[{i}]"));
                duplicates(item, path, told);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// 400: the body is not one of the kind.
pub(in super::super) fn refuse(unfit: Unfit, kind: &str, version: &str, said: &str, summary: &str) -> Status {
    Status::bad_request(match unfit {
        Unfit::Unrecognized(why) => {
            format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})")
        }
        Unfit::Malformed(why) => {
            format!("{said} in version {version} cannot be handled as a {kind}: {why}", version = quote(&version))
        }
    })
}
