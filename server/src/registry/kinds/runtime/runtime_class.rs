//! RuntimeClass: what runs the containers of a pod, where, and at what cost.

use std::collections::HashSet;

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, has, items, text as field};
use crate::registry::kinds::vocabulary::metadata::{OwnMetadata, labels};
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct RuntimeClassStrategy;

const COLUMNS: &[Column] = &[NAME, column("Handler", "string", "", 0), AGE];

impl Strategy for RuntimeClassStrategy {
    fn schema(&self) -> &'static str {
        "node/v1.RuntimeClass"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let handler = object.text(&["handler"]);
        if handler.is_empty() {
            faults.required(&Path::new("handler"), "");
        } else {
            faults.invalid_all(&Path::new("handler"), handler, names::label(handler, false));
        }
        // What the runtime costs has the rules of a container's limits.
        if let Some(fixed) = object.at(&["overhead", "podFixed"]).filter(|fixed| !fixed.is_null()) {
            template::requests::overhead(&json!({"overhead": fixed}), &Path::new("overhead"), faults);
        }
        if let Some(scheduling) = object.at(&["scheduling"]).filter(|scheduling| !scheduling.is_null()) {
            validate_scheduling(scheduling, faults);
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        let handler = new.text(&["handler"]);
        if handler != old.text(&["handler"]) {
            faults.invalid(&Path::new("handler"), handler, "field is immutable");
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let selector = object.at(&["scheduling", "nodeSelector"]).unwrap_or(&Value::Null);
        let old = entries(selector).filter_map(|(key, _)| template::warnings::old_label(key));
        old.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_unconditional_update: false,
            allows_create_on_update: true,
            ..Habits::USUAL
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(object.text(&["handler"])), age(object, now)]
    }
}

fn validate_scheduling(scheduling: &Value, faults: &mut Faults) {
    let path = Path::new("scheduling");
    if has(scheduling, "nodeSelector") {
        labels(Some(&scheduling["nodeSelector"]), &path.child("nodeSelector"), faults);
    }
    let at = path.child("tolerations");
    template::scheduling::tolerations(scheduling, &at, faults);
    let mut seen = HashSet::new();
    for (i, toleration) in items(scheduling, "tolerations").iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|key| field(toleration, key))) {
            faults.duplicate(&at.index(i), toleration);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_and_place_are_judged() {
        let told = |value: Value| -> Vec<String> {
            let mut faults = Faults::new();
            RuntimeClassStrategy.validate_create(&Object::from_value(value).expect("a map"), &mut faults);
            faults.told()
        };
        assert!(told(json!({"handler": "runc", "overhead": {"podFixed": {"cpu": "10m"}}})).is_empty());
        assert_eq!(told(json!({})), ["handler: Required value"]);
        let twice = json!({"key": "a", "operator": "Exists"});
        assert_eq!(told(json!({"handler": "r", "scheduling": {"tolerations": [twice, twice]}})).len(), 1);
        let odd = told(json!({"handler": "r", "overhead": {"podFixed": {"pods": "1"}}}));
        assert_eq!(odd, ["overhead.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers"]);
    }
}
