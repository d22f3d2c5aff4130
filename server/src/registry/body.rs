//! From the body of a request to an object of a kind.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, KINDS, Kind, Object, Reason, Status};
use serde_json::Value;

use super::FieldValidation;
use super::apply::Sent;
use super::custom::{CustomResource, custom, refuse};
use super::kinds::strategy;
use super::schema::decode;
use super::schema::json::Node;

/// The largest body taken, in bytes (Kubernetes 1.36).
pub(super) const BODY_BYTES_MAX: usize = 3 << 20;

/// What a body must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// `apps/v1`.
    pub(super) api_version: &'a str,
    /// `Deployment`.
    pub(super) kind: &'a str,
    /// The schema's name: `apps/v1.Deployment`.
    pub(super) schema: &'a str,
    /// The rules of a custom resource, which has no schema of a name.
    pub(super) custom: Option<&'static CustomResource>,
}

/// A decoded body.
#[derive(Debug)]
pub(super) struct Body {
    /// In canonical form, with apiVersion and kind, without managedFields.
    pub(super) object: Object,
    /// What was sent as managedFields.
    pub(super) managed: Sent,
    /// What strict validation would have refused.
    pub(super) warnings: Vec<String>,
}

impl<'a> Expected<'a> {
    /// An object of a kind, in the version `api_version`.
    pub(super) fn of(kind: &'static Kind, api_version: &'a str) -> Self {
        Expected { api_version, kind: kind.kind, schema: strategy(kind).schema(), custom: custom(kind) }
    }

    fn refuse(&self, found: &str, why: &str) -> Status {
        let version = self.api_version.rsplit('/').next().unwrap_or(self.api_version);
        Status::bad_request(format!(
            "{found} in version {version} cannot be handled as a {}: {why}",
            self.kind,
            version = quote(&version)
        ))
    }
}

/// Decodes a body. An empty apiVersion or kind stands for the expected one.
///
/// # Errors
/// `BadRequest` for what is no JSON, another kind, wrong types and, under strict validation, unknown fields;
/// `RequestEntityTooLarge` above the limit.
pub(super) fn read(expected: Expected<'_>, body: &[u8], validation: FieldValidation) -> Result<Body, Status> {
    if body.len() > BODY_BYTES_MAX {
        let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
        return Err(Status::new(Reason::RequestEntityTooLarge, message));
    }
    let unrecognized = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why} \
             ({})",
            expected.kind,
            summary(body)
        ))
    };
    let node = Node::parse(body).map_err(unrecognized)?;
    for key in ["apiVersion", "kind"] {
        match node.get(key) {
            None | Some(Node::Null | Node::String(_)) => {}
            Some(other) => return Err(unrecognized(no_text(other, key))),
        }
    }
    let decoded = read_node(expected, &node)?;
    match validation {
        FieldValidation::Strict if !decoded.strict.is_empty() => {
            let why = format!("strict decoding error: {}", decoded.strict.join(", "));
            Err(expected.refuse(expected.kind, &why))
        }
        FieldValidation::Ignore => Ok(Body { object: decoded.object, managed: decoded.managed, warnings: Vec::new() }),
        FieldValidation::Strict | FieldValidation::Warn => {
            Ok(Body { object: decoded.object, managed: decoded.managed, warnings: decoded.strict })
        }
    }
}

/// Whether Kubernetes has a kind of this name in the group, served here or not.
fn is_registered(group: &str, kind: &str) -> bool {
    let unserved: &[&str] = match group {
        "apps" | "autoscaling" => &["Scale"],
        _ => &[],
    };
    KINDS.iter().any(|own| own.group == group && own.kind == kind) || unserved.contains(&kind)
}

/// The versions of a group that Kubernetes has, served here or not.
fn versions(group: &str) -> &'static [&'static str] {
    match group {
        "apps" => &["v1", "v1beta1", "v1beta2"],
        "coordination.k8s.io" => &["v1", "v1beta1", "v1alpha2"],
        "scheduling.k8s.io" => &["v1", "v1beta1", "v1alpha1"],
        "autoscaling" => &["v1", "v2"],
        "batch" | "discovery.k8s.io" | "events.k8s.io" | "networking.k8s.io" | "policy" => &["v1", "v1beta1"],
        "node.k8s.io" | "rbac.authorization.k8s.io" | "storage.k8s.io" => &["v1", "v1beta1", "v1alpha1"],
        "resource.k8s.io" => &["v1", "v1beta1", "v1beta2", "v1alpha3"],
        _ => &["v1"],
    }
}

/// A version of the group, or a kind of its version, that there is not.
fn unregistered(expected: Expected<'_>, api_version: &str, kind: &str) -> Option<Status> {
    let split = |text: &'_ str| match text.split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text.to_owned()),
    };
    let (group, version) = split(expected.api_version);
    let (own_group, own_version) =
        if api_version.is_empty() { (group.clone(), version.clone()) } else { split(api_version) };
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let known =
        versions(&group).contains(&own_version.as_str()) && (kind == expected.kind || is_registered(&group, kind));
    if own_group != group || known {
        return None;
    }
    let shown = if group.is_empty() { own_version.clone() } else { format!("{group}/{own_version}") };
    let why = format!(
        "no kind {kind} is registered for version {shown} in scheme \"pkg/runtime/scheme.go:111\"",
        kind = quote(&kind),
        shown = quote(&shown)
    );
    Some(Status::bad_request(format!(
        "{kind} in version {own_version} cannot be handled as a {}: {why}",
        expected.kind,
        own_version = quote(&own_version)
    )))
}

/// The beginning of a body that could not be read.
fn summary(body: &[u8]) -> String {
    const LENGTH: usize = 30;
    let (head, more) = if body.len() > LENGTH { (&body[..LENGTH], " ...") } else { (body, "") };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => head.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

/// What a node decodes to, before strict validation has its say.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) object: Object,
    /// What was sent as managedFields, which are no longer in the object.
    pub(super) managed: Sent,
    pub(super) strict: Vec<String>,
}

/// Decodes a value.
pub(super) fn read_node(expected: Expected<'_>, node: &Node<'_>) -> Result<Read, Status> {
    let text = |key: &str| match node.get(key) {
        Some(Node::String(text)) => text.to_string(),
        _ => String::new(),
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if let Some(rules) = expected.custom {
        return read_custom(expected, rules, node, &api_version, &kind);
    }
    if let Some(status) = unregistered(expected, &api_version, &kind) {
        return Err(status);
    }
    if !api_version.is_empty() && api_version != expected.api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    if !kind.is_empty() && kind != expected.kind {
        // Upstream reads it as what it says it is before it finds that this is not what was expected.
        if let Some(other) = Kind::by_api_version(expected.api_version, &kind)
            && let Err(wrong) = decode(super::kinds::strategy(other).schema(), node)
        {
            return Err(expected.refuse(&kind, &wrong.message));
        }
        let (found, wanted) = (format!("v1.{kind}"), expected.schema.replace("/v1", ""));
        return Err(expected.refuse(&kind, &format!("converting ({found}) to ({wanted}): unknown conversion")));
    }
    let decoded = decode(expected.schema, node).map_err(|wrong| {
        let mut status = expected.refuse(expected.kind, &wrong.message);
        if !wrong.field.is_empty() {
            let reason = "FieldValueInvalid".to_owned();
            status.causes = vec![Cause { reason, message: wrong.message, field: wrong.field }];
        }
        status
    })?;
    let mut object = Object(decoded.object);
    object.0.insert("apiVersion".to_owned(), Value::from(expected.api_version));
    object.0.insert("kind".to_owned(), Value::from(expected.kind));
    let managed = take_managed(&mut object, node);
    Ok(Read { object, managed, strict: decoded.strict })
}

/// Takes the managedFields out. Decoding leaves an empty list out, which says something here.
fn take_managed(object: &mut Object, node: &Node<'_>) -> Sent {
    let given = object.remove(&["metadata", "managedFields"]);
    if given.is_some() {
        return Sent::of(given.as_ref());
    }
    match node.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
        Some(Node::Array(_)) => Sent::Reset,
        _ => Sent::Nothing,
    }
}

/// Decodes what a patch has made of an object.
///
/// # Errors
/// Why it is no object of the kind, in the words of upstream's decoder.
pub(super) fn read_patched(expected: Expected<'_>, node: &Node<'_>) -> Result<Read, String> {
    if !matches!(node, Node::Object(_)) {
        return Err(format!("couldn't get version/kind; json parse error: {}", no_object(node)));
    }
    if let Some(rules) = expected.custom {
        let text = |key: &str| match node.get(key) {
            Some(Node::String(text)) => text.to_string(),
            _ => String::new(),
        };
        return read_custom(expected, rules, node, &text("apiVersion"), &text("kind")).map_err(|status| status.message);
    }
    let mut said = [expected.api_version.to_owned(), expected.kind.to_owned()];
    for (key, said) in ["apiVersion", "kind"].iter().zip(&mut said) {
        match node.get(key) {
            None | Some(Node::Null) => {}
            Some(Node::String(text)) if text.is_empty() => {}
            Some(Node::String(text)) => *said = text.to_string(),
            Some(other) => {
                return Err(format!("couldn't get version/kind; json parse error: {}", no_text(other, key)));
            }
        }
    }
    let [api_version, kind] = said;
    if (api_version.as_str(), kind.as_str()) != (expected.api_version, expected.kind) {
        let Some(other) = Kind::by_api_version(&api_version, &kind) else {
            return Err(format!(
                "no kind {kind} is registered for version {api_version} in scheme \"pkg/runtime/scheme.go:111\"",
                kind = quote(&kind),
                api_version = quote(&api_version)
            ));
        };
        // It is read as what it says it is, and then is not what was asked for.
        decode(strategy(other).schema(), node).map_err(|wrong| wrong.message)?;
        let wanted = expected.schema.replace("/v1", "");
        return Err(format!("converting (v1.{kind}) to ({wanted}): unknown conversion"));
    }
    let decoded = decode(expected.schema, node).map_err(|wrong| wrong.message)?;
    let mut object = Object(decoded.object);
    object.0.insert("apiVersion".to_owned(), Value::from(expected.api_version));
    object.0.insert("kind".to_owned(), Value::from(expected.kind));
    let managed = take_managed(&mut object, node);
    Ok(Read { object, managed, strict: decoded.strict })
}

/// Decodes a custom resource.
fn read_custom(
    expected: Expected<'_>,
    rules: &'static CustomResource,
    node: &Node<'_>,
    api_version: &str,
    kind: &str,
) -> Result<Read, Status> {
    let taken = rules.read_body(node).map_err(|unfit| {
        let version = expected.api_version.rsplit('/').next().unwrap_or(expected.api_version);
        refuse(unfit, expected.kind, version, kind, &summary(node.to_value().to_string().as_bytes()))
    })?;
    if api_version != expected.api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    let mut object = Object(taken.object);
    let managed = take_managed(&mut object, node);
    Ok(Read { object, managed, strict: taken.strict })
}

/// Decodes the body of a delete: a `DeleteOptions`, of whatever group's version the client writes.
///
/// # Errors
/// `BadRequest` for what is no JSON, another kind, or fields of a wrong type.
pub(super) fn read_delete_options(body: &[u8]) -> Result<Object, Status> {
    let no_kind = |why: String| Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let node = Node::parse(body).map_err(no_kind)?;
    if node == Node::Null {
        return Ok(Object::default());
    }
    if !matches!(node, Node::Object(_)) {
        return Err(no_kind(no_object(&node)));
    }
    let mut said = ["meta.k8s.io/v1", "DeleteOptions"];
    for (key, said) in ["apiVersion", "kind"].iter().zip(&mut said) {
        match node.get(key) {
            None | Some(Node::Null) => {}
            Some(Node::String(text)) if text.is_empty() => {}
            Some(Node::String(text)) => *said = text,
            Some(other) => return Err(no_kind(no_text(other, key))),
        }
    }
    if said[1] != "DeleteOptions" {
        let [version, kind] = said;
        return Err(Status::bad_request(format!(
            "no kind {kind} is registered for version {version} in scheme \"pkg/runtime/scheme.go:111\"",
            kind = quote(&kind),
            version = quote(&version)
        )));
    }
    let decoded = decode("meta/v1.DeleteOptions", &node).map_err(|wrong| {
        let mut status = Status::bad_request(wrong.message.clone());
        status.causes =
            vec![Cause { reason: "FieldValueInvalid".to_owned(), message: wrong.message, field: wrong.field }];
        status
    })?;
    Ok(Object(decoded.object))
}

/// Go's words for a value in the place of an object.
fn no_object(node: &Node<'_>) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        node.go_kind()
    )
}

/// Go's words for a value in the place of a text.
fn no_text(found: &Node<'_>, key: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field .{key} of type string", found.go_kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Expected<'static> = Expected {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        schema: "coordination/v1.Lease",
        custom: None,
    };

    fn check(body: &str, validation: FieldValidation) -> Result<Body, String> {
        read(LEASE, body.as_bytes(), validation).map_err(|s| s.message)
    }

    #[test]
    fn kind_and_version_are_those_expected_or_absent() {
        let body = check(r#"{"metadata":{"name":"a"}}"#, FieldValidation::Strict).expect("valid");
        assert_eq!(body.object.api_version(), "coordination.k8s.io/v1");
        assert_eq!(body.object.kind_name(), "Lease");
        assert_eq!(
            check(r#"{"apiVersion":"v1"}"#, FieldValidation::Ignore).expect_err("another version"),
            "the API version in the data (v1) does not match the expected API version (coordination.k8s.io/v1)"
        );
        assert!(check(r#"{"kind":"Pod"}"#, FieldValidation::Ignore).is_err());
        assert!(check("{", FieldValidation::Ignore).is_err());
    }

    #[test]
    fn unknown_fields_are_refused_told_or_dropped() {
        let body = r#"{"spec":{"x":1}}"#;
        assert_eq!(
            check(body, FieldValidation::Strict).expect_err("unknown"),
            "Lease in version \"v1\" cannot be handled as a Lease: strict decoding error: unknown field \"spec.x\""
        );
        assert_eq!(check(body, FieldValidation::Warn).expect("dropped").warnings, ["unknown field \"spec.x\""]);
        assert!(check(body, FieldValidation::Ignore).expect("dropped").warnings.is_empty());
    }
}
