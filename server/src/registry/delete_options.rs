//! What a delete asks (`metav1.DeleteOptions`, Kubernetes 1.36), wherever it stands: in the body of a delete, in the
//! parameters of a request, in an eviction. It is read and judged here and nowhere else.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, Object, Status};
use serde_json::Value;

use super::{DeleteOptions, Propagation};

impl DeleteOptions {
    /// Reads options whose fields have the types of the schema. A field that is null is one that is not given.
    ///
    /// # Errors
    /// `Invalid` with every fault (upstream's `ValidateDeleteOptions`).
    pub(crate) fn judged(asked: &Object) -> Result<DeleteOptions, Status> {
        let mut faults = Vec::new();
        let orphan = asked.at(&["orphanDependents"]).and_then(Value::as_bool);
        let policy = asked.at(&["propagationPolicy"]).and_then(Value::as_str);
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let why = format!(
                "Invalid value: {}: orphanDependents and deletionPropagation cannot be both set",
                quote(&policy)
            );
            faults.push(fault("FieldValueInvalid", "propagationPolicy", why));
        }
        let propagation = match policy {
            Some(word) => {
                let known = Propagation::named(word);
                if known.is_none() {
                    let supported = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                    let why = format!("Unsupported value: {word}: supported values: {supported}", word = quote(&word));
                    faults.push(fault("FieldValueNotSupported", "propagationPolicy", why));
                }
                known
            }
            None => orphan.and_then(|orphan| orphan.then_some(Propagation::Orphan)),
        };
        let dry_run = asked.at(&["dryRun"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let words: Vec<&str> = dry_run.iter().filter_map(Value::as_str).collect();
        let dry_run = is_dry_run(&words).unwrap_or_else(|fault| {
            faults.push(fault);
            false
        });
        if !faults.is_empty() {
            return Err(Status::invalid_options("DeleteOptions", faults));
        }
        // An empty text is a condition too, one that nothing meets.
        let text = |key: &str| asked.at(&["preconditions", key]).and_then(Value::as_str).map(str::to_owned);
        Ok(DeleteOptions {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            grace_period_seconds: asked.int(&["gracePeriodSeconds"]),
            propagation,
            dry_run,
        })
    }
}

/// Whether the words of a `dryRun` ask for a dry run.
///
/// # Errors
/// The fault where a word is another than `All`.
pub(crate) fn is_dry_run(words: &[&str]) -> Result<bool, Cause> {
    if words.iter().any(|word| *word != "All") {
        let why = format!("Unsupported value: {}: supported values: \"All\"", Value::from(words));
        return Err(fault("FieldValueNotSupported", "dryRun", why));
    }
    Ok(!words.is_empty())
}

fn fault(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message, field: field.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(asked: Value) -> Result<DeleteOptions, String> {
        let object = Object::from_value(asked).expect("a map");
        DeleteOptions::judged(&object).map_err(|status| {
            assert_eq!((status.code, status.causes.is_empty()), (422, false));
            status.message
        })
    }

    #[test]
    fn what_is_asked_is_read() {
        let asked = json!({
            "gracePeriodSeconds": 3, "dryRun": ["All"], "propagationPolicy": "Orphan",
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        });
        let expected = DeleteOptions {
            uid: Some("u".into()),
            resource_version: Some("7".into()),
            grace_period_seconds: Some(3),
            propagation: Some(Propagation::Orphan),
            dry_run: true,
        };
        assert_eq!(judged(asked), Ok(expected));
        let nothing = json!({"propagationPolicy": null, "orphanDependents": null, "dryRun": []});
        assert_eq!(judged(nothing), Ok(DeleteOptions::default()));
        let old_way = judged(json!({"orphanDependents": true})).expect("taken");
        assert_eq!(old_way.propagation, Some(Propagation::Orphan));
        assert_eq!(judged(json!({"orphanDependents": false})).expect("taken").propagation, None);
    }

    #[test]
    fn every_fault_is_told_in_one_answer() {
        let one = judged(json!({"dryRun": ["All", "Some"]})).expect_err("refused");
        let why = "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"All\",\"Some\"]: supported \
                   values: \"All\"";
        assert_eq!(one, why);
        let both = judged(json!({"propagationPolicy": "Background", "orphanDependents": false})).expect_err("refused");
        assert!(
            both.ends_with("\"Background\": orphanDependents and deletionPropagation cannot be both set"),
            "{both}"
        );
        let all = json!({"propagationPolicy": "", "orphanDependents": true, "dryRun": ["x"]});
        let all = judged(all).expect_err("refused");
        assert_eq!(all.matches("propagationPolicy: ").count(), 2, "{all}");
        assert!(all.contains("Unsupported value: \"\": supported values: \"Foreground\""), "{all}");
        assert!(all.ends_with("dryRun: Unsupported value: [\"x\"]: supported values: \"All\"]"), "{all}");
    }
}
