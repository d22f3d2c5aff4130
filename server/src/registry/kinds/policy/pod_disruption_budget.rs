//! PodDisruptionBudget (policy): how many pods of a set must be there, or may be missing, at any time.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text as txt};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, number, text};
use crate::registry::kinds::vocabulary::{counts, names, selectors};
use crate::registry::table::{Cell, Column};

pub(super) struct PodDisruptionBudgetStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column("Min Available", "string", "The minimum number of pods that must be available.", 0),
    column("Max Unavailable", "string", "The maximum number of pods that may be unavailable.", 0),
    column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time.", 0),
    AGE,
];

impl Strategy for PodDisruptionBudgetStrategy {
    fn schema(&self) -> &'static str {
        "policy/v1.PodDisruptionBudget"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let none = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        object.0.insert("status".into(), none);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, if part == Part::Status { &["spec"] } else { &["status"] });
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
            faults.invalid(&path, shown(spec), "minAvailable and maxUnavailable cannot be both set");
        }
        for key in ["minAvailable", "maxUnavailable"].iter().filter(|key| has(spec, key)) {
            counts::amount(&spec[*key], &path.child(key), faults);
            counts::at_most_all(&spec[*key], &path.child(key), faults);
        }
        selectors::label_selector(&spec["selector"], &path.child("selector"), faults);
        match spec["unhealthyPodEvictionPolicy"].as_str() {
            None | Some("IfHealthyBudget" | "AlwaysAllow") => {}
            Some(other) => {
                let at = path.child("unhealthyPodEvictionPolicy");
                faults.not_supported(&at, other, &["AlwaysAllow", "IfHealthyBudget"]);
            }
        }
    }

    fn validate_update(&self, part: Part, new: &Object, _old: &Object, faults: &mut Faults) {
        if part != Part::Status {
            self.validate_create(new, faults);
            return;
        }
        let (status, path) = (new.at(&["status"]).unwrap_or(&Value::Null), Path::new("status"));
        conditions(status, &path.child("conditions"), faults);
        for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            counts::non_negative(status, key, &path, faults);
        }
    }

    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        // Upstream has no rule of its own for the name, so only the one of all objects holds.
        if prefix { names::path_segment(name) } else { names::path_segment_name(name) }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::None, allows_unconditional_update: false, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let amount = |key: &str| match object.at(&["spec", key]) {
            Some(Value::String(percent)) => text(percent.as_str()),
            Some(Value::Number(count)) => text(count.to_string()),
            _ => text("N/A"),
        };
        vec![
            text(object.name()),
            amount("minAvailable"),
            amount("maxUnavailable"),
            number(object, &["status", "disruptionsAllowed"]),
            age(object, now),
        ]
    }
}

/// The spec as Go prints it.
fn shown(spec: &Value) -> Shown {
    Shown(format!(
        "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
        spec["minAvailable"],
        selectors::ordered_selector(&spec["selector"]),
        spec["maxUnavailable"],
        spec["unhealthyPodEvictionPolicy"]
    ))
}

/// A list of `metav1.Condition`.
fn conditions(status: &Value, path: &Path, faults: &mut Faults) {
    const REASON_MAX: usize = 1 << 10;
    const MESSAGE_MAX: usize = 32 << 10;
    let list = items(status, "conditions");
    for (i, condition) in list.iter().enumerate() {
        let path = path.index(i);
        let kind = txt(condition, "type");
        if list[..i].iter().any(|other| txt(other, "type") == kind) {
            faults.duplicate(&path.child("type"), kind);
        }
        faults.invalid_all(&path.child("type"), kind, names::qualified(kind));
        let value = txt(condition, "status");
        if !matches!(value, "True" | "False" | "Unknown") {
            faults.not_supported(&path.child("status"), value, &["False", "True", "Unknown"]);
        }
        if let Some(generation) = condition["observedGeneration"].as_i64().filter(|generation| *generation < 0) {
            let why = "must be greater than or equal to zero";
            faults.invalid(&path.child("observedGeneration"), generation, why);
        }
        if !has(condition, "lastTransitionTime") {
            faults.required(&path.child("lastTransitionTime"), "");
        }
        let reason = txt(condition, "reason");
        if reason.is_empty() {
            faults.required(&path.child("reason"), "");
        } else if !is_reason(reason) {
            let why = "a condition reason must start with alphabetic character, optionally followed by a string of \
                       alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
                       'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for \
                       validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
            faults.invalid(&path.child("reason"), reason, why);
        }
        if reason.len() > REASON_MAX {
            faults.too_long(&path.child("reason"), REASON_MAX);
        }
        if txt(condition, "message").len() > MESSAGE_MAX {
            faults.too_long(&path.child("message"), MESSAGE_MAX);
        }
    }
}

fn is_reason(text: &str) -> bool {
    let end = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(end)
        && text.bytes().all(|b| end(b) || matches!(b, b',' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(object: Value, part: Part) -> Vec<String> {
        let object = Object::from_value(object).expect("a map");
        let mut faults = Faults::new();
        match part {
            Part::Status => PodDisruptionBudgetStrategy.validate_update(part, &object, &object, &mut faults),
            _ => PodDisruptionBudgetStrategy.validate_create(&object, &mut faults),
        }
        faults.told()
    }

    #[test]
    fn a_budget_says_one_thing() {
        assert!(told(json!({"spec": {"minAvailable": "100%"}}), Part::Main).is_empty());
        assert_eq!(
            told(json!({"spec": {"minAvailable": 1, "maxUnavailable": "5%"}}), Part::Main),
            ["spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":\"5%\",\
              \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"]
        );
        assert_eq!(told(json!({"spec": {"maxUnavailable": "101%"}}), Part::Main).len(), 1);
    }

    #[test]
    fn conditions_are_whole_ones() {
        let whole = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""});
        assert!(told(json!({"status": {"conditions": [whole]}}), Part::Status).is_empty());
        let bare = json!({"status": {"conditions": [{"type": "A", "status": "x", "reason": "1"}], "expectedPods": -1}});
        assert_eq!(told(bare, Part::Status).len(), 4);
    }
}
