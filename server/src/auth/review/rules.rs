//! `SelfSubjectRulesReview`: what may I do in a namespace.

use listwatch_proto::resource::{Object, Status};
use serde_json::{Value, json};

use super::super::rbac::Rule;

/// Answers with rules, and with what stood in the way of finding all of them.
pub(in super::super) fn self_rules(
    mut review: Object,
    rules: &[Rule],
    errors: &[String],
    incomplete: bool,
) -> Result<Object, Status> {
    if review.text(&["spec", "namespace"]).is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let of = |is_path: bool| -> Vec<Value> {
        rules.iter().filter(|rule| rule.paths.is_empty() != is_path).map(Rule::to_json).collect()
    };
    let mut status = json!({"resourceRules": of(false), "nonResourceRules": of(true), "incomplete": incomplete});
    if !errors.is_empty() {
        status["evaluationError"] = errors.join(", ").into();
    }
    // What was asked is not told back (Kubernetes 1.36).
    review.set(&["spec"], json!({}));
    review.set(&["status"], status);
    Ok(review)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_and_paths_are_told_apart() {
        let review = Object::from_value(json!({"spec": {"namespace": "n"}})).expect("a map");
        let resource = Rule { verbs: vec!["get".into()], resources: vec!["pods".into()], ..Rule::default() };
        let path = Rule { verbs: vec!["get".into()], paths: vec!["/x".into()], ..Rule::default() };
        let answer = self_rules(review, &[resource, path], &["missing".into()], false).expect("answered");
        assert_eq!(
            answer.at(&["status", "nonResourceRules"]),
            Some(&json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}]))
        );
        assert_eq!(answer.text(&["status", "evaluationError"]), "missing");
        assert!(self_rules(Object::from_value(json!({"spec": {}})).expect("a map"), &[], &[], false).is_err());
    }
}
