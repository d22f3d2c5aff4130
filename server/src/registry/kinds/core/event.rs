//! Event (core): what happened to an object.

use listwatch_proto::resource::Object;

use crate::registry::kinds::strategy::{Habits, Strategy, label_not_supported};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{NAME, column, since, text};
use crate::registry::table::{Cell, Column};

pub(in crate::registry::kinds) struct EventStrategy;

const COLUMNS: &[Column] = &[
    column("Last Seen", "string", "The time at which the most recent occurrence of this event was recorded.", 0),
    column("Type", "string", "Type of this event (Normal, Warning), new types could be added in the future", 0),
    column(
        "Reason",
        "string",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
        0,
    ),
    column("Object", "string", "The object that this event is about.", 0),
    column(
        "Subobject",
        "string",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
        1,
    ),
    column(
        "Source",
        "string",
        "The component reporting this event. Should be a short machine understandable string.",
        1,
    ),
    column("Message", "string", "A human-readable description of the status of this operation.", 0),
    column(
        "First Seen",
        "string",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
        1,
    ),
    column("Count", "string", "The number of times this event has occurred.", 1),
    Column { priority: 1, ..NAME },
];

/// The characters a note or message may have.
const MESSAGE_MAX: usize = 1024;
/// The characters an instance's name may have.
const INSTANCE_MAX: usize = 128;

impl Strategy for EventStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Event"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validate(object, "reportingComponent", faults);
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::None,
            has_generation: false,
            allows_create_on_update: true,
            has_dependents: false,
            expires: true,
            ..Habits::USUAL
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn field(&self, object: &Object, path: &str) -> Option<String> {
        let value = match path {
            "source" => match object.text(&["source", "component"]) {
                "" => object.text(&["reportingComponent"]),
                component => component,
            },
            "reportingComponent" => object.text(&["reportingComponent"]),
            other => {
                let keys: Vec<&str> = other.split('.').collect();
                object.text(&keys)
            }
        };
        Some(value.to_owned())
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn indexed_fields(&self) -> &'static [&'static str] {
        &["involvedObject.uid", "involvedObject.name"]
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let event_time = object.text(&["eventTime"]);
        let or_event_time = |own: &str| match own {
            "" => since(event_time, now),
            own => since(own, now),
        };
        let first = or_event_time(object.text(&["firstTimestamp"]));
        let series = object.at(&["series"]).filter(|s| s.is_object());
        let last = match series.and_then(|s| s["lastObservedTime"].as_str()) {
            Some(last) => since(last, now),
            None => match object.text(&["lastTimestamp"]) {
                "" => first.clone(),
                last => since(last, now),
            },
        };
        let count = match series.and_then(|s| s["count"].as_i64()) {
            Some(count) => count,
            None => object.int(&["count"]).filter(|count| *count > 0).unwrap_or(1),
        };
        let involved = |key: &str| object.text(&["involvedObject", key]);
        let target = match involved("name") {
            "" => involved("kind").to_lowercase(),
            name => format!("{}/{name}", involved("kind").to_lowercase()),
        };
        vec![
            text(last),
            text(object.text(&["type"])),
            text(object.text(&["reason"])),
            text(target),
            text(involved("fieldPath")),
            text(source(object)),
            text(object.text(&["message"]).trim()),
            text(first),
            Cell::Int(count),
            text(object.name()),
        ]
    }
}

/// The faults that both forms of Events know; the reporter is called otherwise in each.
pub(in crate::registry::kinds) fn validate(object: &Object, reporter: &str, faults: &mut Faults) {
    if object.text(&["eventTime"]).is_empty() {
        involved_namespace(object, faults);
    } else {
        reported(object, reporter, faults);
    }
}

fn source(object: &Object) -> String {
    let either = |deprecated: &str, new: &str| match object.text(&["source", deprecated]) {
        "" => object.text(&[new]).to_owned(),
        own => own.to_owned(),
    };
    let (component, host) = (either("component", "reportingComponent"), either("host", "reportingInstance"));
    if host.is_empty() { component } else { format!("{component}, {host}") }
}

/// An event lies in the namespace of its object; one of a cluster-scoped object in `default`.
fn involved_namespace(object: &Object, faults: &mut Faults) {
    let (own, involved) = (object.namespace(), object.text(&["involvedObject", "namespace"]));
    let fits = if involved.is_empty() { own == "default" } else { own == involved };
    if !fits {
        misplaced(involved, faults);
    }
}

fn misplaced(involved: &str, faults: &mut Faults) {
    faults.invalid(&Path::new("involvedObject.namespace"), involved, "does not match event.namespace");
}

/// An event with an eventTime comes from a reporter of the new kind and must be complete.
fn reported(object: &Object, reporter: &str, faults: &mut Faults) {
    let root = Path::new("");
    let involved = object.text(&["involvedObject", "namespace"]);
    if involved.is_empty() && !matches!(object.namespace(), "default" | "kube-system") {
        misplaced(involved, faults);
    }
    let (component, instance) = (object.text(&["reportingComponent"]), object.text(&["reportingInstance"]));
    if component.is_empty() {
        faults.required(&root.child(reporter), "");
    }
    faults.invalid_all(&root.child(reporter), component, names::qualified(component));
    if instance.is_empty() {
        faults.required(&root.child("reportingInstance"), "");
    }
    if instance.len() > INSTANCE_MAX {
        faults.invalid(&root.child("reportingInstance"), "", &format!("can have at most {INSTANCE_MAX} characters"));
    }
    for key in ["action", "reason"] {
        let value = object.text(&[key]);
        if value.is_empty() {
            faults.required(&root.child(key), "");
        } else if value.len() > INSTANCE_MAX {
            faults.invalid(&root.child(key), "", &format!("can have at most {INSTANCE_MAX} characters"));
        }
    }
    if object.text(&["message"]).len() > MESSAGE_MAX {
        faults.invalid(&root.child("message"), "", &format!("can have at most {MESSAGE_MAX} characters"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::vocabulary::print::UNKNOWN;

    #[test]
    fn an_event_without_times_prints_unknown() {
        let object = Object::from_value(serde_json::json!({"metadata": {"name": "x"}})).expect("a map");
        let cells = EventStrategy.cells(&object, 0);
        assert_eq!(cells[0], text(UNKNOWN));
    }
}
