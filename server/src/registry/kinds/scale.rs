//! The Scale of what has replicas (autoscaling/v1).

use listwatch_proto::resource::{Cause, Kind, Object, Status};
use serde_json::{Value, json};

use super::by_kind::strategy;
use super::vocabulary::print::{AGE, NAME, age, column, number, text};
use crate::registry::current::Current;
use crate::registry::custom::custom;
use crate::registry::table::{Cell, Column};

/// The printed columns of a Scale, whatever it scales.
pub(in crate::registry) const COLUMNS: &[Column] = &[
    NAME_COLUMN,
    column("Desired", "integer", "replicas is the desired number of instances for the scaled object.", 0),
    column("Available", "integer", "replicas is the actual number of observed instances of the scaled object.", 0),
    AGE,
];

/// The name of a Scale has no special format.
const NAME_COLUMN: Column = Column { format: "", ..NAME };

/// The printed cells of a Scale.
pub(in crate::registry) fn cells(scale: &Object, now: i64) -> Vec<Cell> {
    vec![
        text(scale.name()),
        number(scale, &["spec", "replicas"]),
        number(scale, &["status", "replicas"]),
        age(scale, now),
    ]
}

/// The Scale of an object, with its resourceVersion if it has one.
pub(in crate::registry) fn read(kind: &'static Kind, object: &Object) -> Object {
    let mut metadata = json!({"name": object.name(), "namespace": object.namespace(), "uid": object.uid()});
    for key in ["resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", key]) {
            metadata[key] = value.clone();
        }
    }
    let mut spec = json!({});
    let desired = object.int(&["spec", "replicas"]).unwrap_or(0);
    if desired != 0 {
        spec["replicas"] = json!(desired);
    }
    let mut status = json!({"replicas": object.int(&["status", "replicas"]).unwrap_or(0)});
    let selector = strategy(kind).scale_selector(object);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Object::from_value(scale).expect("a literal map")
}

/// The object as it is once scaled.
///
/// # Errors
/// `Invalid` for less than no replicas.
pub(in crate::registry) fn write(kind: &'static Kind, current: &Current, scale: &Object) -> Result<Object, Status> {
    let replicas = scale.int(&["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
            field: "spec.replicas".into(),
        };
        let mut status = Status::invalid(kind, scale.name(), vec![cause]);
        status.message = status.message.replacen(&full_name(kind), "Scale.autoscaling", 1);
        (status.kind, status.group) = ("Scale".into(), "autoscaling".into());
        return Err(status);
    }
    let mut object = match custom(kind).and_then(|rules| rules.scale.as_ref()) {
        Some(paths) => paths.scaled(&current.object, replicas),
        None => {
            let mut object = current.object.clone();
            object.set(&["spec", "replicas"], Value::from(replicas));
            object
        }
    };
    if let Some(revision) = scale.at(&["metadata", "resourceVersion"]) {
        object.set(&["metadata", "resourceVersion"], revision.clone());
    }
    Ok(object)
}

fn full_name(kind: &'static Kind) -> String {
    if kind.group.is_empty() { kind.kind.to_owned() } else { format!("{}.{}", kind.kind, kind.group) }
}
