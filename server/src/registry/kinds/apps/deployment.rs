//! Deployment (apps).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::workload;
use crate::registry::kinds::strategy::{Part, Reset, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::counts;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, has, text as txt};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, column, number, selector, text, workload_row};
use crate::registry::table::{Cell, Column};

pub(super) struct DeploymentStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "string", "Number of the pod with ready state", 0),
    column(
        "Up-to-date",
        "string",
        "Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
        0,
    ),
    column(
        "Available",
        "string",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.",
        0,
    ),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
    column(
        "Selector",
        "string",
        "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this \
         deployment. It must match the pod template's labels.",
        1,
    ),
];

impl Strategy for DeploymentStrategy {
    fn schema(&self) -> &'static str {
        "apps/v1.Deployment"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
        let strategy = &mut spec["strategy"];
        if strategy.is_null() {
            *strategy = json!({});
        }
        default(strategy, "type", "RollingUpdate");
        if txt(strategy, "type") == "RollingUpdate" {
            default(strategy, "rollingUpdate", json!({}));
            default(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
            default(&mut strategy["rollingUpdate"], "maxSurge", "25%");
        }
        template::defaults::template(&mut spec["template"]);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({}));
        template::defaults::drop_disabled(object.at_mut(&["spec", "template", "spec"]));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => {
                keep(new, old, &["spec"]);
                // Labels belong to the one who owns the spec.
                workload::keep_labels(new, old);
            }
            _ => {
                keep(new, old, &["status"]);
                template::defaults::drop_disabled(new.at_mut(&["spec", "template", "spec"]));
                // Of this kind an annotation counts like a change of the spec (Kubernetes 1.36).
                if annotations(new) != annotations(old) {
                    new.set(&["metadata", "generation"], old.generation() + 1);
                }
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        counts::non_negative(spec, "replicas", &path, faults);
        workload::selector_and_template(spec, &path, faults);
        update_strategy(&spec["strategy"], &path.child("strategy"), faults);
        for key in ["minReadySeconds", "revisionHistoryLimit"] {
            counts::non_negative(spec, key, &path, faults);
        }
        if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64() {
            counts::non_negative(spec, "progressDeadlineSeconds", &path, faults);
            if deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0) {
                faults.invalid(
                    &path.child("progressDeadlineSeconds"),
                    deadline,
                    "must be greater than minReadySeconds",
                );
            }
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            workload::status(new, faults);
            let status = new.at(&["status"]).unwrap_or(&Value::Null);
            counts::of_replicas(status, "updatedReplicas", faults);
            counts::non_negative(status, "collisionCount", &Path::new("status"), faults);
            workload::not_decremented(new, old, "collisionCount", faults);
            return;
        }
        self.validate_create(new, faults);
        workload::immutable_selector(new, old, faults);
    }

    fn reset_fields(&self, part: Part) -> Reset {
        match part {
            Part::Status => Reset::These(&[&["spec"], &["metadata", "labels"]]),
            _ => Reset::These(&[&["status"]]),
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        template::warnings::template(object)
    }

    fn blank(&self, blank: &mut Object) {
        blank.set(&["spec", "replicas"], 0);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let count = |key: &str| object.int(&["status", key]).unwrap_or(0);
        let desired = object.int(&["spec", "replicas"]).unwrap_or(0);
        workload_row(
            object,
            [
                text(format!("{}/{desired}", count("readyReplicas"))),
                number(object, &["status", "updatedReplicas"]),
                number(object, &["status", "availableReplicas"]),
            ],
            now,
            Some(selector(object, &["spec", "selector"])),
        )
    }
}

/// None and an empty map are the same.
fn annotations(object: &Object) -> Option<&serde_json::Map<String, Value>> {
    object.at(&["metadata", "annotations"]).and_then(Value::as_object).filter(|map| !map.is_empty())
}

fn update_strategy(strategy: &Value, path: &Path, faults: &mut Faults) {
    match txt(strategy, "type") {
        "Recreate" => {
            if has(strategy, "rollingUpdate") {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                faults.forbidden(&path.child("rollingUpdate"), why);
            }
        }
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let rolling = &strategy["rollingUpdate"];
            if rolling.is_null() {
                faults.required(&path, "this should be defaulted and never be nil");
                return;
            }
            for key in ["maxUnavailable", "maxSurge"] {
                counts::amount(&rolling[key], &path.child(key), faults);
            }
            if counts::is_zero(&rolling["maxUnavailable"]) && counts::is_zero(&rolling["maxSurge"]) {
                let shown = &rolling["maxUnavailable"];
                faults.invalid(&path.child("maxUnavailable"), shown, "may not be 0 when `maxSurge` is 0");
            }
            counts::at_most_all(&rolling["maxUnavailable"], &path.child("maxUnavailable"), faults);
        }
        other => {
            let rolling = match &strategy["rollingUpdate"] {
                Value::Null => "null".to_owned(),
                given => format!(
                    "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                    shown_amount(&given["maxUnavailable"]),
                    shown_amount(&given["maxSurge"])
                ),
            };
            let shown = Shown(format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(other)));
            faults.not_supported(path, shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

/// A number or percentage as Go writes it; absent is 0.
fn shown_amount(amount: &Value) -> String {
    if amount.is_null() { "0".to_owned() } else { amount.to_string() }
}
