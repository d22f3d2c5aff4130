//! Event (events.k8s.io): what happened to an object, in the words of the newer API. Kept as the Event of the core group.

use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use crate::registry::kinds::core::event;
use crate::registry::kinds::strategy::{Habits, Part, Strategy, label_not_supported};
use crate::registry::kinds::view::View;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown, quote};
use crate::registry::kinds::vocabulary::fields::text as word;
use crate::registry::table::{Cell, Column};

pub(super) struct EventStrategy;

/// The fields that are called otherwise: here, and as kept.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];
/// The fields that the older form always has.
const ALWAYS_KEPT: [(&str, Value); 4] = [
    ("firstTimestamp", Value::Null),
    ("lastTimestamp", Value::Null),
    ("eventTime", Value::Null),
    ("reportingComponent", Value::Null),
];

impl View for EventStrategy {
    fn kept_by(&self) -> &'static Kind {
        Kind::by_api_version("v1", "Event").expect("Event is a served kind")
    }

    fn kept(&self, mut object: Object) -> Object {
        for (here, kept) in NAMES {
            if let Some(value) = object.0.remove(here) {
                object.0.insert(kept.to_owned(), value);
            }
        }
        object.0.insert("apiVersion".to_owned(), "v1".into());
        for (key, empty) in ALWAYS_KEPT {
            object.0.entry(key).or_insert(empty);
        }
        for key in ["reportingComponent", "reportingInstance"] {
            let own = object.0.entry(key).or_insert(Value::Null);
            if own.is_null() {
                *own = "".into();
            }
        }
        for key in ["involvedObject", "source"] {
            object.0.entry(key).or_insert_with(|| json!({}));
        }
        object
    }

    fn shown(&self, mut object: Object) -> Object {
        for (here, kept) in NAMES {
            if let Some(value) = object.0.remove(kept) {
                object.0.insert(here.to_owned(), value);
            }
        }
        object.0.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
        // What is empty is left out here.
        for key in ["reportingController", "reportingInstance", "action", "reason", "note", "type"] {
            if object.text(&[key]).is_empty() {
                object.0.remove(key);
            }
        }
        if object.int(&["deprecatedCount"]) == Some(0) {
            object.0.remove("deprecatedCount");
        }
        object.0.entry("eventTime").or_insert(Value::Null);
        object
    }
}

impl Strategy for EventStrategy {
    fn schema(&self) -> &'static str {
        "events/v1.Event"
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&EventStrategy)
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        event::validate(object, "reportingController", faults);
        series(object, faults);
        if object.text(&["eventTime"]).is_empty() {
            faults.required(&Path::new("eventTime"), "");
        }
        let kind = object.text(&["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            faults.invalid(&Path::new("type"), "", &format!("has invalid value: {kind}"));
        }
        let source = object.at(&["source"]).unwrap_or(&Value::Null);
        for (key, set) in [
            ("firstTimestamp", !object.text(&["firstTimestamp"]).is_empty()),
            ("lastTimestamp", !object.text(&["lastTimestamp"]).is_empty()),
            ("count", object.int(&["count"]).unwrap_or(0) != 0),
            ("source", !word(source, "component").is_empty() || !word(source, "host").is_empty()),
        ] {
            if set {
                faults.invalid(&Path::new(key), "", "needs to be unset");
            }
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        event::validate(new, "reportingController", faults);
        if new.at(&["series"]) != old.at(&["series"]) {
            series(new, faults);
        }
        let keys = [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            // Twice, as in upstream.
            "reason",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingComponent",
            "reportingInstance",
        ];
        for key in keys {
            let (was, is) = (old.at(&[key]).unwrap_or(&Value::Null), new.at(&[key]).unwrap_or(&Value::Null));
            if !is_same(was, is) {
                let path = if key == "reportingComponent" { "reportingController" } else { key };
                faults.invalid(&Path::new(path), shown(key, is), "field is immutable");
            }
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            has_generation: false,
            allows_create_on_update: true,
            has_dependents: false,
            expires: true,
            ..Habits::USUAL
        }
    }

    fn fields(&self) -> &'static [&'static str] {
        &[
            "reason",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
            "type",
        ]
    }

    fn field(&self, object: &Object, path: &str) -> Option<String> {
        let kept = match path.split_once('.') {
            Some(("regarding", rest)) => return Some(object.text(&["involvedObject", rest]).to_owned()),
            _ if path == "reportingController" => "reportingComponent",
            _ => path,
        };
        Some(object.text(&[kept]).to_owned())
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn columns(&self) -> &'static [Column] {
        event::EventStrategy.columns()
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        event::EventStrategy.cells(object, now)
    }
}

/// Whether two values say the same: what is left out is what is empty.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        _ => false,
    };
    one == other || (is_empty(one) && is_empty(other))
}

/// A value as Go prints it: structs with all of their fields, in the order in which they are declared.
fn shown(key: &str, value: &Value) -> Shown {
    let of = |fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().map(|(name, key)| format!("{name:?}:{}", quote(word(value, key)))).collect();
        Shown(format!("{{{}}}", fields.join(",")))
    };
    match key {
        "related" if value.is_null() => Shown("null".to_owned()),
        "involvedObject" | "related" => of(&[
            ("Kind", "kind"),
            ("Namespace", "namespace"),
            ("Name", "name"),
            ("UID", "uid"),
            ("APIVersion", "apiVersion"),
            ("ResourceVersion", "resourceVersion"),
            ("FieldPath", "fieldPath"),
        ]),
        "source" => of(&[("Component", "component"), ("Host", "host")]),
        "count" => Shown::from(value.as_i64().unwrap_or(0)),
        "firstTimestamp" | "lastTimestamp" | "eventTime" => Shown::from(value),
        _ => Shown::from(value.as_str().unwrap_or_default()),
    }
}

fn series(object: &Object, faults: &mut Faults) {
    let Some(series) = object.at(&["series"]).filter(|series| !series.is_null()) else { return };
    if series["count"].as_i64().unwrap_or(0) < 2 {
        faults.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if word(series, "lastObservedTime").is_empty() {
        faults.required(&Path::new("series.lastObservedTime"), "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Object {
        Object::from_value(json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x", "namespace": "n"},
            "eventTime": "2024-01-02T03:04:05.000006Z", "reportingController": "a.io/c", "reportingInstance": "i",
            "action": "Doing", "reason": "Started", "type": "Normal", "note": "hello",
            "regarding": {"kind": "Pod", "namespace": "n", "name": "p"}, "deprecatedSource": {},
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null}))
        .expect("a map")
    }

    fn told(new: &Object, old: Option<&Object>) -> Vec<String> {
        let mut faults = Faults::new();
        match old {
            None => EventStrategy.validate_create(new, &mut faults),
            Some(old) => EventStrategy.validate_update(Part::Main, new, old, &mut faults),
        }
        faults.told()
    }

    #[test]
    fn the_two_forms_say_the_same() {
        let kept = EventStrategy.kept(event());
        assert_eq!(
            kept.clone().into_value(),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "x", "namespace": "n"},
                "eventTime": "2024-01-02T03:04:05.000006Z", "reportingComponent": "a.io/c", "reportingInstance": "i",
                "action": "Doing", "reason": "Started", "type": "Normal", "message": "hello",
                "involvedObject": {"kind": "Pod", "namespace": "n", "name": "p"}, "source": {},
                "firstTimestamp": null, "lastTimestamp": null})
        );
        assert_eq!(EventStrategy.shown(kept), event());
    }

    #[test]
    fn fields_are_found_under_their_own_names() {
        let kept = EventStrategy.kept(event());
        for (path, value) in [("regarding.name", "p"), ("reportingController", "a.io/c"), ("reason", "Started")] {
            assert_eq!(EventStrategy.field(&kept, path).as_deref(), Some(value), "{path}");
        }
    }

    #[test]
    fn what_is_of_the_older_form_is_refused() {
        let kept = EventStrategy.kept(event());
        assert!(told(&kept, None).is_empty(), "{:?}", told(&kept, None));
        let mut wrong = kept.clone();
        wrong.set(&["firstTimestamp"], "2024-01-01T00:00:00Z");
        wrong.set(&["count"], 3);
        wrong.set(&["type"], "Foo");
        wrong.set(&["series"], json!({"count": 1}));
        assert_eq!(
            told(&wrong, None),
            [
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "type: Invalid value: \"\": has invalid value: Foo",
                "firstTimestamp: Invalid value: \"\": needs to be unset",
                "count: Invalid value: \"\": needs to be unset",
            ]
        );
    }

    #[test]
    fn only_the_series_may_change() {
        let old = EventStrategy.kept(event());
        let mut new = old.clone();
        new.set(&["series"], json!({"count": 2, "lastObservedTime": "2024-01-02T03:04:06.000000Z"}));
        assert!(told(&new, Some(&old)).is_empty());
        new.set(&["eventTime"], "2025-01-02T03:04:05.000006Z");
        new.set(&["involvedObject", "name"], "q");
        assert_eq!(
            told(&new, Some(&old)),
            [
                "involvedObject: Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"n\",\"Name\":\"q\",\"UID\":\"\",\
                 \"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
                "eventTime: Invalid value: \"2025-01-02T03:04:05.000006Z\": field is immutable",
            ]
        );
    }
}
