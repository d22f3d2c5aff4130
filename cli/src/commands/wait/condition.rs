//! What can be waited for, in kubectl's spelling.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::commands::output::{Template, relaxed, text_of};

/// One thing to wait for.
#[derive(Debug)]
pub(super) enum Condition {
    /// The object is there.
    Created,
    /// The object is gone.
    Deleted,
    /// A condition of its status, named without regard to case.
    Status { name: String, value: String },
    /// What a path leads to; without a value: that it leads to anything.
    Path { template: Template, value: Option<String> },
}

impl Condition {
    /// Reads what stands behind `--for`.
    ///
    /// # Errors
    /// kubectl's words for what is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.to_lowercase().as_str() {
            "delete" => return Ok(Condition::Deleted),
            "create" => return Ok(Condition::Created),
            _ => {}
        }
        if let Some(rest) = text.strip_prefix("condition=") {
            let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
            return Ok(Condition::Status { name: name.to_owned(), value: value.to_owned() });
        }
        match text.strip_prefix("jsonpath=") {
            Some(path) => parse_path(path),
            None => Err(format!("unrecognized condition: {}", quote(&text))),
        }
    }

    /// Whether an object that is there meets the condition.
    ///
    /// # Errors
    /// If a path leads to what cannot be compared.
    pub(super) fn is_met(&self, object: &Object) -> Result<bool, String> {
        match self {
            Condition::Created => Ok(true),
            Condition::Deleted => Ok(false),
            Condition::Status { name, value } => Ok(status_is(object, name, value)),
            Condition::Path { template, value } => path_is(object, template, value.as_deref()),
        }
    }
}

fn parse_path(text: &str) -> Result<Condition, String> {
    let parts = split(text);
    let (path, value) = match parts.as_slice() {
        [path] => (path, None),
        [path, value] => (path, Some(value.trim_matches(['\'', '"']))),
        _ => {
            return Err("jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3 or \
                        --for=jsonpath='{.status.readyReplicas}'"
                .to_owned());
        }
    };
    if value == Some("") {
        return Err("jsonpath wait has to have a value after equal sign, like \
                    --for=jsonpath='{.status.readyReplicas}'=3"
            .to_owned());
    }
    let (expression, template) = relaxed(path)?;
    if expression.is_empty() {
        return Err("jsonpath expression cannot be empty".to_owned());
    }
    Ok(Condition::Path { template, value: value.map(str::to_owned) })
}

/// Splits at single `=`; a double one belongs to a filter.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let last = parts.len() - 1;
        if c != '=' {
            parts[last].push(c);
        } else if rest.next_if_eq(&'=').is_some() {
            parts[last].push_str("==");
        } else {
            parts.push(String::new());
        }
    }
    parts
}

/// A condition counts only if it speaks of the object as it now is.
fn status_is(object: &Object, name: &str, value: &str) -> bool {
    let same = |a: &Value, b: &str| a.as_str().is_some_and(|a| a.to_lowercase() == b.to_lowercase());
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let Some(condition) = conditions.into_iter().flatten().find(|c| same(&c["type"], name) && c["status"].is_string())
    else {
        return false;
    };
    let observed = condition["observedGeneration"].as_i64().or_else(|| object.int(&["status", "observedGeneration"]));
    if observed.is_some_and(|observed| observed < object.generation()) {
        return false;
    }
    same(&condition["status"], value)
}

fn path_is(object: &Object, template: &Template, wanted: Option<&str>) -> Result<bool, String> {
    let whole = object.clone().into_value();
    let found = template.find(&whole)?;
    let Some(first) = found.first().filter(|values| !values.is_empty()) else { return Ok(false) };
    if found.len() > 1 {
        return Err("given jsonpath expression matches more than one list".to_owned());
    }
    let [value] = first.as_slice() else {
        return Err("given jsonpath expression matches more than one value".to_owned());
    };
    let Some(wanted) = wanted else { return Ok(true) };
    let value = value.into_value();
    if value.is_object() || value.is_array() {
        return Err("jsonpath leads to a nested object or list which is not supported".to_owned());
    }
    Ok(text_of(&value).trim() == wanted.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Object {
        let value = json!({
            "metadata": {"name": "p", "generation": 2},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running", "replicas": 3, "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Stale", "status": "True", "observedGeneration": 1},
                {"type": "Odd", "status": "Unknown"},
            ]},
        });
        Object::from_value(value).expect("a map")
    }

    fn check(text: &str) -> Result<bool, String> {
        Condition::parse(text)?.is_met(&pod())
    }

    #[test]
    fn conditions_are_met_as_kubectl_judges() {
        for (text, expected) in [
            ("condition=Ready", true),
            ("condition=ready=TRUE", true),
            ("condition=Ready=false", false),
            ("condition=Odd=unknown", true),
            ("condition=Stale", false),
            ("condition=None", false),
            ("jsonpath={.status.phase}=Running", true),
            ("jsonpath='{.status.phase}'=Running", false),
            ("jsonpath=.status.phase=Pending", false),
            ("jsonpath={.status.replicas}=3", true),
            ("jsonpath={.status.phase}", true),
            ("jsonpath={.status.none}", false),
            ("jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True", true),
            ("create", true),
            ("DELETE", false),
        ] {
            // A path in quotes of its own is what a shell does not leave over.
            let outcome = check(text);
            if text.contains("'{") {
                assert!(outcome.is_err(), "{text}: {outcome:?}");
            } else {
                assert_eq!(outcome, Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn what_cannot_be_waited_for_is_refused() {
        let refuse = |text: &str| check(text).expect_err(text);
        assert_eq!(refuse("Ready"), "unrecognized condition: \"Ready\"");
        assert_eq!(refuse("jsonpath="), "jsonpath expression cannot be empty");
        assert!(refuse("jsonpath={.a}=").starts_with("jsonpath wait has to have a value after equal sign"));
        assert!(refuse("jsonpath={.a}=b=c").starts_with("jsonpath wait format must be"));
        assert_eq!(
            refuse("jsonpath={.spec.containers[*].name}=a"),
            "given jsonpath expression matches more than one value"
        );
        assert_eq!(
            refuse("jsonpath={.status.conditions}=x"),
            "jsonpath leads to a nested object or list which is not supported"
        );
    }
}
