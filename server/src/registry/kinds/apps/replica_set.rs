//! ReplicaSet (apps).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::workload;
use crate::registry::kinds::strategy::{Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::counts;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::default;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, column, number, selector, workload_row};
use crate::registry::table::{Cell, Column};

pub(super) struct ReplicaSetStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Desired",
        "integer",
        "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
        0,
    ),
    column(
        "Current",
        "integer",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
        0,
    ),
    column(
        "Ready",
        "integer",
        "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
        0,
    ),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
    column(
        "Selector",
        "string",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

impl Strategy for ReplicaSetStrategy {
    fn schema(&self) -> &'static str {
        "apps/v1.ReplicaSet"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        default(spec, "replicas", 1);
        template::defaults::template(&mut spec["template"]);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"replicas": 0}));
        template::defaults::drop_disabled(object.at_mut(&["spec", "template", "spec"]));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                template::defaults::drop_disabled(new.at_mut(&["spec", "template", "spec"]));
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        for key in ["replicas", "minReadySeconds"] {
            counts::non_negative(spec, key, &path, faults);
        }
        workload::selector_and_template(spec, &path, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            workload::status(new, faults);
            counts::of_replicas(new.at(&["status"]).unwrap_or(&Value::Null), "fullyLabeledReplicas", faults);
            return;
        }
        self.validate_create(new, faults);
        workload::immutable_selector(new, old, faults);
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
        workload_row(
            object,
            [
                number(object, &["spec", "replicas"]),
                number(object, &["status", "replicas"]),
                number(object, &["status", "readyReplicas"]),
            ],
            now,
            Some(selector(object, &["spec", "selector"])),
        )
    }
}
