//! The Scale of a custom resource: its numbers stand where the definition says.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, Status};
use serde_json::{Value, json};

/// Where the numbers stand.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct ScalePaths {
    /// `.spec.replicas`.
    pub(super) spec: String,
    /// `.status.replicas`.
    pub(super) status: String,
    /// `.status.selector`; empty = none.
    pub(super) selector: String,
}

/// The steps of a path in the dot notation.
fn steps(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

fn whole_number(object: &Object, path: &str) -> Result<Option<i64>, String> {
    match object.at(&steps(path)) {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_type(path, value, "int64")),
        },
    }
}

fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    let is = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{path} accessor error: {shown} is of the type {is}, expected {wanted}")
}

impl ScalePaths {
    /// Reads `subresources.scale`.
    pub(super) fn read(scale: &Value) -> Option<ScalePaths> {
        let text = |key: &str| scale[key].as_str().unwrap_or_default().to_owned();
        scale.is_object().then(|| ScalePaths {
            spec: text("specReplicasPath"),
            status: text("statusReplicasPath"),
            selector: text("labelSelectorPath"),
        })
    }

    /// The Scale of an object; one without a wanted number has none.
    ///
    /// # Errors
    /// `InternalError`, as upstream has it.
    pub(in super::super) fn scale_of(&self, object: &Object) -> Result<Object, Status> {
        let wanted = whole_number(object, &self.spec).map_err(Status::internal)?;
        let Some(wanted) = wanted else {
            let message = format!("the spec replicas field {} does not exist", quote(&self.spec));
            return Err(Status::internal(format!("Internal error occurred: {message}")));
        };
        let is = whole_number(object, &self.status).map_err(Status::internal)?.unwrap_or(0);
        let mut metadata = json!({"name": object.name(), "uid": object.uid()});
        if !object.namespace().is_empty() {
            metadata["namespace"] = object.namespace().into();
        }
        for key in ["resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.at(&["metadata", key]) {
                metadata[key] = value.clone();
            }
        }
        let spec = if wanted == 0 { json!({}) } else { json!({"replicas": wanted}) };
        let mut status = json!({"replicas": is});
        let selector = if self.selector.is_empty() { "" } else { object.text(&steps(&self.selector)) };
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        let scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
        });
        Ok(Object::from_value(scale).expect("a literal map"))
    }

    /// The object with the wanted number of a Scale.
    pub(in super::super) fn scaled(&self, object: &Object, replicas: i64) -> Object {
        let mut object = object.clone();
        object.set(&steps(&self.spec), replicas);
        object
    }

    /// What is wrong with the numbers: where, what stands there, why.
    pub(super) fn faults(&self, object: &Object, with_spec: bool) -> Vec<(String, Value, String)> {
        let mut faults = Vec::new();
        for path in [with_spec.then_some(&self.spec), Some(&self.status)].into_iter().flatten() {
            match whole_number(object, path) {
                Err(why) => faults.push((path.clone(), 0.into(), why)),
                Ok(Some(number)) if number < 0 => {
                    faults.push((path.clone(), number.into(), "should be a non-negative integer".to_owned()));
                }
                Ok(Some(number)) if number > i64::from(i32::MAX) => {
                    let why = format!("should be less than or equal to {}", i32::MAX);
                    faults.push((path.clone(), number.into(), why));
                }
                Ok(_) => {}
            }
        }
        if !self.selector.is_empty()
            && let Some(value) = object.at(&steps(&self.selector)).filter(|value| !value.is_string())
        {
            faults.push((self.selector.clone(), "".into(), wrong_type(&self.selector, value, "string")));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_where_the_definition_says() {
        let paths = ScalePaths::read(&json!({"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.seen",
            "labelSelectorPath": ".status.selector"}));
        let paths = paths.expect("given");
        let object = Object::from_value(json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"},
            "spec": {"count": 3}, "status": {"seen": 2, "selector": "app=x"}}));
        let object = object.expect("a map");
        let scale = paths.scale_of(&object).expect("there is a number");
        assert_eq!(scale.0["spec"], json!({"replicas": 3}));
        assert_eq!(scale.0["status"], json!({"replicas": 2, "selector": "app=x"}));
        assert_eq!(paths.scaled(&object, 5).0["spec"], json!({"count": 5}));
        assert!(paths.scale_of(&Object::default()).is_err());
        let wrong = Object::from_value(json!({"spec": {"count": -1}, "status": {"seen": "x"}})).expect("a map");
        let told: Vec<_> =
            paths.faults(&wrong, true).into_iter().map(|(path, _, why)| format!("{path}: {why}")).collect();
        assert_eq!(
            told,
            [
                ".spec.count: should be a non-negative integer",
                ".status.seen: .status.seen accessor error: x is of the type string, expected int64"
            ]
        );
    }
}
