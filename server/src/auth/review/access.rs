//! `SubjectAccessReview` and its kin: may somebody do something.

use std::collections::BTreeMap;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, Object, Status};
use serde_json::Value;

use crate::registry::{Asked, Attributes, Registry, RequestContext, ResourceAttributes, User};

const GROUP: &str = "authorization.k8s.io";

/// `SubjectAccessReview`.
pub(in super::super) async fn subject(registry: &Registry, mut review: Object) -> Result<Object, Status> {
    let mut faults = of_both(&review);
    faults.extend(of_subject(&review));
    faults.extend(of_selectors(&review));
    faults.extend(of_metadata(&review, &[]));
    answer(registry, &subject_of(&review), &mut review, faults).await?;
    Ok(review)
}

/// `LocalSubjectAccessReview`: of one namespace.
pub(in super::super) async fn local(registry: &Registry, mut review: Object) -> Result<Object, Status> {
    let mut faults = of_both(&review);
    faults.extend(of_subject(&review));
    faults.extend(of_selectors(&review));
    faults.extend(of_metadata(&review, &["namespace"]));
    let asked = review.text(&["spec", "resourceAttributes", "namespace"]);
    if given(&review, "resourceAttributes") && asked != review.namespace() {
        let message = format!("Invalid value: {}: must match metadata.namespace", quote(&asked));
        faults.push(fault("spec.resourceAttributes.namespace", message));
    }
    if given(&review, "nonResourceAttributes") {
        let value = review.at(&["spec", "nonResourceAttributes"]).cloned().unwrap_or_default();
        let message = format!("Invalid value: {value}: disallowed on this kind of request");
        faults.push(fault("spec.nonResourceAttributes", message));
    }
    answer(registry, &subject_of(&review), &mut review, faults).await?;
    Ok(review)
}

/// `SelfSubjectAccessReview`: of who asks.
pub(in super::super) async fn own(
    registry: &Registry,
    context: &RequestContext,
    mut review: Object,
) -> Result<Object, Status> {
    let mut faults = of_both(&review);
    faults.extend(of_selectors(&review));
    faults.extend(of_metadata(&review, &[]));
    answer(registry, &context.user, &mut review, faults).await?;
    Ok(review)
}

async fn answer(registry: &Registry, user: &User, review: &mut Object, faults: Vec<Cause>) -> Result<(), Status> {
    if !faults.is_empty() {
        // The kind is lost on upstream's way to this check.
        return Err(Status::invalid_as("", GROUP, "", faults));
    }
    let decision = registry.decide(user, &attributes_of(review)).await?;
    let mut status = serde_json::Map::new();
    status.insert("allowed".to_owned(), decision.allowed.into());
    if !decision.reason.is_empty() {
        status.insert("reason".to_owned(), decision.reason.into());
    }
    review.set(&["status"], Value::Object(status));
    Ok(())
}

fn given(review: &Object, part: &str) -> bool {
    review.at(&["spec", part]).is_some_and(|value| !value.is_null())
}

fn fault(field: &str, message: String) -> Cause {
    Cause { reason: "FieldValueInvalid".to_owned(), message, field: field.to_owned() }
}

fn of_both(review: &Object) -> Vec<Cause> {
    let paths = review.at(&["spec", "nonResourceAttributes"]).cloned().unwrap_or_default();
    match (given(review, "resourceAttributes"), given(review, "nonResourceAttributes")) {
        (true, true) => {
            let message = format!("Invalid value: {paths}: cannot be specified in combination with resourceAttributes");
            vec![fault("spec.nonResourceAttributes", message)]
        }
        (false, false) => vec![fault(
            "spec.resourceAttributes",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
                .to_owned(),
        )],
        _ => Vec::new(),
    }
}

fn of_subject(review: &Object) -> Option<Cause> {
    let groups = review.at(&["spec", "groups"]).and_then(Value::as_array).is_some_and(|groups| !groups.is_empty());
    let nobody = review.text(&["spec", "user"]).is_empty() && !groups;
    nobody
        .then(|| fault("spec.user", "Invalid value: \"\": at least one of user or group must be specified".to_owned()))
}

fn of_metadata(review: &Object, allowed: &[&str]) -> Option<Cause> {
    let metadata = review.at(&["metadata"]).and_then(Value::as_object)?;
    let said = metadata
        .iter()
        .any(|(key, value)| !value.is_null() && key != "managedFields" && !allowed.contains(&key.as_str()));
    said.then(|| {
        let except = if allowed.is_empty() { "" } else { " except for namespace" };
        let value = Value::Object(metadata.clone());
        fault("metadata", format!("Invalid value: {value}: must be empty{except}"))
    })
}

fn of_selectors(review: &Object) -> Vec<Cause> {
    let mut faults = Vec::new();
    for part in ["fieldSelector", "labelSelector"] {
        let Some(selector) = review.at(&["spec", "resourceAttributes", part]).filter(|s| !s.is_null()) else {
            continue;
        };
        let path = format!("spec.resourceAttributes.{part}");
        let raw = selector.get("rawSelector").and_then(Value::as_str).unwrap_or_default();
        let has_list = selector.get("requirements").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if !raw.is_empty() && has_list {
            let message = format!("Invalid value: {}: may not specified at the same time as requirements", quote(&raw));
            faults.push(fault(&format!("{path}.rawSelector"), message));
        }
        if raw.is_empty() && !has_list {
            let message = format!("Required value: when {path} is specified, requirements or rawSelector is required");
            let field = format!("{path}.requirements");
            faults.push(Cause { reason: "FieldValueRequired".to_owned(), message, field });
        }
    }
    faults
}

fn subject_of(review: &Object) -> User {
    let texts = |value: Option<&Value>| -> Vec<String> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = review.at(&["spec", "extra"]).and_then(Value::as_object);
    let extra: BTreeMap<_, _> =
        extra.into_iter().flatten().map(|(key, values)| (key.to_lowercase(), texts(Some(values)))).collect();
    User {
        name: review.text(&["spec", "user"]).to_owned(),
        uid: review.text(&["spec", "uid"]).to_owned(),
        groups: texts(review.at(&["spec", "groups"])),
        extra,
    }
}

fn attributes_of(review: &Object) -> Attributes {
    if given(review, "nonResourceAttributes") {
        let text = |key: &str| review.text(&["spec", "nonResourceAttributes", key]);
        return Attributes::path(text("verb"), text("path"));
    }
    let text = |key: &str| review.text(&["spec", "resourceAttributes", key]).to_owned();
    let selector = |part: &str| selector_of(review.at(&["spec", "resourceAttributes", part]));
    let version = text("version");
    Attributes {
        verb: text("verb"),
        asked: Asked::Resource(ResourceAttributes {
            group: text("group"),
            version: if version.is_empty() { "*".to_owned() } else { version },
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            field_selector: selector("fieldSelector"),
            label_selector: selector("labelSelector"),
        }),
    }
}

/// A selector as one text. What is not understood is left out: the question is then a wider one.
fn selector_of(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let raw = selector.get("rawSelector").and_then(Value::as_str).unwrap_or_default();
    let requirements = selector.get("requirements").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if requirements.is_empty() {
        return raw.to_owned();
    }
    let one = |requirement: &Value| {
        let text = |key: &str| requirement.get(key).and_then(Value::as_str).unwrap_or_default();
        let values = requirement.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let [value] = values else { return None };
        let value = value.as_str()?;
        match text("operator") {
            "In" => Some(format!("{}={value}", text("key"))),
            "NotIn" => Some(format!("{}!={value}", text("key"))),
            _ => None,
        }
    };
    requirements.iter().filter_map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn review(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {}, "spec": spec})).expect("a map")
    }

    #[test]
    fn a_review_asks_one_question_of_somebody() {
        let both = review(json!({"resourceAttributes": {}, "nonResourceAttributes": {"path": "/"}}));
        assert_eq!(of_both(&both)[0].field, "spec.nonResourceAttributes");
        assert_eq!(of_both(&review(json!({})))[0].field, "spec.resourceAttributes");
        assert!(of_both(&review(json!({"resourceAttributes": {}}))).is_empty());
        assert!(of_subject(&review(json!({"groups": []}))).is_some());
        assert!(of_subject(&review(json!({"groups": ["g"]}))).is_none());
        let named = Object::from_value(json!({"metadata": {"name": "x", "namespace": "n"}})).expect("a map");
        assert!(of_metadata(&named, &["namespace"]).is_some());
        let in_namespace = Object::from_value(json!({"metadata": {"namespace": "n"}})).expect("a map");
        assert!(of_metadata(&in_namespace, &["namespace"]).is_none());
    }

    #[test]
    fn what_is_asked_is_read_whole() {
        let asked = review(json!({"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "n",
            "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}}}));
        let Attributes { verb, asked: Asked::Resource(asked) } = attributes_of(&asked) else { panic!("a resource") };
        assert_eq!(
            (verb.as_str(), asked.field_selector.as_str(), asked.version.as_str()),
            ("list", "spec.nodeName=n1", "*")
        );
        let path = review(json!({"nonResourceAttributes": {"verb": "get", "path": "/x"}}));
        assert_eq!(attributes_of(&path), Attributes::path("get", "/x"));
    }
}
