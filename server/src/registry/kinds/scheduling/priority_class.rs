//! PriorityClass (scheduling.k8s.io): a name for a priority.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Part, Strategy};
use crate::registry::kinds::template::scheduling::preemption_policy;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, number, text};
use crate::registry::table::{Cell, Column};

pub(super) struct PriorityClassStrategy;

/// The highest priority that a user may define.
const USER_MAX: i64 = 1_000_000_000;
/// What the names of the built-in classes begin with.
const SYSTEM_PREFIX: &str = "system-";

/// A class that is there from the start.
#[derive(Debug)]
pub(in crate::registry) struct SystemClass {
    /// `system-node-critical`.
    pub(in crate::registry) name: &'static str,
    /// Its priority.
    pub(in crate::registry) value: i64,
    /// What it is for.
    pub(in crate::registry) description: &'static str,
}

/// The classes that are there from the start and cannot be deleted (Kubernetes 1.36).
pub(in crate::registry) const SYSTEM_CLASSES: [SystemClass; 2] = [
    SystemClass {
        name: "system-node-critical",
        value: 2_000_001_000,
        description: "Used for system critical pods that must not be moved from their current node.",
    },
    SystemClass {
        name: "system-cluster-critical",
        value: 2_000_000_000,
        description: "Used for system critical pods that must run in the cluster, but can be moved to another node if \
                      necessary.",
    },
];

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Value",
        "integer",
        "value represents the integer value of this priority class. This is the actual priority that pods receive when \
         they have the name of this class in their pod spec.",
        0,
    ),
    column(
        "Global-Default",
        "boolean",
        "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do \
         not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one \
         PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default \
         PriorityClasses will be used as the default priority.",
        0,
    ),
    AGE,
    column(
        "PreemptionPolicy",
        "string",
        "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. \
         Defaults to PreemptLowerPriority if unset.",
        0,
    ),
];

impl Strategy for PriorityClassStrategy {
    fn schema(&self) -> &'static str {
        "scheduling/v1.PriorityClass"
    }

    fn default(&self, object: &mut Object) {
        if object.at(&["preemptionPolicy"]).is_none() {
            object.set(&["preemptionPolicy"], "PreemptLowerPriority");
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let (name, value) = (object.name(), object.int(&["value"]).unwrap_or(0));
        if name.starts_with(SYSTEM_PREFIX) {
            if let Err(why) = known_system_class(name, value, object.flag(&["globalDefault"])) {
                let why = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                );
                faults.forbidden(&Path::new("metadata.name"), &why);
            }
        } else if value > USER_MAX {
            let why = format!("maximum allowed value of a user defined priority is {USER_MAX}");
            faults.forbidden(&Path::new("value"), &why);
        }
        preemption_policy(object.at(&["preemptionPolicy"]), &Path::new("preemptionPolicy"), faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if new.int(&["value"]).unwrap_or(0) != old.int(&["value"]).unwrap_or(0) {
            faults.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        let (was, is) = (old.at(&["preemptionPolicy"]), new.at(&["preemptionPolicy"]));
        if was != is {
            let shown = is.unwrap_or(&Value::Null);
            faults.invalid(&Path::new("preemptionPolicy"), Shown::from(shown), "field is immutable");
        }
    }

    // The class is born with generation 1, which no update moves: it has no spec.

    fn stays(&self, name: &str) -> Option<&'static str> {
        let why = "this is a system priority class and cannot be deleted";
        SYSTEM_CLASSES.iter().any(|class| class.name == name).then_some(why)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![
            text(object.name()),
            number(object, &["value"]),
            Cell::Flag(object.flag(&["globalDefault"])),
            age(object, now),
            text(object.text(&["preemptionPolicy"])),
        ]
    }
}

/// Whether a class of a reserved name is exactly the built-in one.
fn known_system_class(name: &str, value: i64, global_default: bool) -> Result<(), String> {
    let Some(class) = SYSTEM_CLASSES.iter().find(|class| class.name == name) else {
        return Err(format!("{name} is not a known system priority class"));
    };
    if class.value != value {
        return Err(format!("value of {name} PriorityClass must be {}", class.value));
    }
    if global_default {
        return Err(format!("globalDefault of {name} PriorityClass must be false"));
    }
    Ok(())
}

/// A built-in class as an object, without what the server gives to it at birth.
pub(in crate::registry) fn system_object(class: &SystemClass) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": class.name, "generation": 1},
        "value": class.value, "description": class.description, "preemptionPolicy": "PreemptLowerPriority",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(value: Value) -> Vec<String> {
        let mut faults = Faults::new();
        PriorityClassStrategy.validate_create(&Object::from_value(value).expect("a map"), &mut faults);
        faults.told()
    }

    #[test]
    fn reserved_names_stand_for_the_built_in_classes_only() {
        for class in &SYSTEM_CLASSES {
            assert!(faults_of(system_object(class)).is_empty(), "{class:?}");
        }
        let told = faults_of(json!({"metadata": {"name": "system-node-critical"}, "value": 1}));
        assert_eq!(
            told,
            ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
              error: value of system-node-critical PriorityClass must be 2000001000"]
        );
        let told = faults_of(json!({"metadata": {"name": "high"}, "value": 1_000_000_001}));
        assert_eq!(told, ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]);
    }
}
