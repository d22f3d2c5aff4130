//! ReplicationController: so many pods of one template, the old way.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::Propagation;
use crate::registry::kinds::strategy::{Part, Strategy, keep, label_not_supported};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::counts;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{default, entries, has};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, column, labels, number, workload_row};
use crate::registry::table::{Cell, Column};

pub(super) struct ReplicationControllerStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Desired",
        "integer",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and \
         unspecified. Defaults to 1. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
        0,
    ),
    column(
        "Current",
        "integer",
        "Replicas is the most recently observed number of replicas. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
        0,
    ),
    column("Ready", "integer", "The number of ready replicas for this replication controller.", 0),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
    column(
        "Selector",
        "string",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted \
         to the labels present on the Pod template. Label keys and values that must match in order to be controlled by \
         this replication controller, if empty defaulted to labels on Pod template. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

impl Strategy for ReplicationControllerStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.ReplicationController"
    }

    fn default(&self, object: &mut Object) {
        let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
        if let Some(labels) = labels.filter(Value::is_object) {
            for path in [["spec", "selector"], ["metadata", "labels"]] {
                if is_empty(object.at(&path)) && !is_empty(Some(&labels)) {
                    object.set(&path, labels.clone());
                }
            }
        }
        default(object.at_mut(&["spec"]), "replicas", 1);
        if object.at(&["spec", "template"]).is_some_and(Value::is_object) {
            template::defaults::template(object.at_mut(&["spec", "template"]));
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"replicas": 0}));
        drop_disabled(object);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                drop_disabled(new);
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        counts::non_negative(spec, "minReadySeconds", &path, faults);
        if is_empty(Some(&spec["selector"])) {
            faults.required(&path.child("selector"), "");
        }
        if has(spec, "replicas") {
            counts::non_negative(spec, "replicas", &path, faults);
        } else {
            faults.required(&path.child("replicas"), "");
        }
        template(spec, &path.child("template"), faults);
    }

    fn validate_update(&self, part: Part, new: &Object, _old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            status(new, faults);
            return;
        }
        self.validate_create(new, faults);
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        template::warnings::template(object)
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        if part == Part::Status || new.generation() == old.generation() {
            return Vec::new();
        }
        // Upstream looks at the template that is replaced.
        template::warnings::template_at(old.at(&["spec", "template"]).unwrap_or(&Value::Null), "spec.template.")
    }

    /// As replication controllers always did.
    fn default_propagation(&self) -> Option<Propagation> {
        Some(Propagation::Orphan)
    }

    /// Its selector is a plain map of labels.
    fn scale_selector(&self, object: &Object) -> String {
        let selector = object.at(&["spec", "selector"]).unwrap_or(&Value::Null);
        let pairs: Vec<_> =
            entries(selector).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        pairs.join(",")
    }

    fn fields(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn field(&self, object: &Object, path: &str) -> Option<String> {
        let keys: Vec<&str> = path.split('.').collect();
        Some(object.int(&keys).unwrap_or(0).to_string())
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
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
            Some(labels(object.at(&["spec", "selector"]).unwrap_or(&Value::Null))),
        )
    }
}

fn is_empty(map: Option<&Value>) -> bool {
    map.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
}

fn drop_disabled(object: &mut Object) {
    if object.at(&["spec", "template"]).is_some_and(Value::is_object) {
        template::defaults::drop_disabled(object.at_mut(&["spec", "template", "spec"]));
    }
}

/// The template must be there, match the selector, and run for ever.
fn template(spec: &Value, path: &Path, faults: &mut Faults) {
    let template = &spec["template"];
    if template.is_null() {
        faults.required(path, "");
        return;
    }
    let own = &template["metadata"]["labels"];
    if entries(&spec["selector"]).any(|(key, value)| own.get(key) != Some(value)) {
        template::whole::mismatch(template, path, faults);
    }
    template::whole::for_ever(template, "ReplicationController", path, faults);
}

fn status(object: &Object, faults: &mut Faults) {
    let status = object.at(&["status"]).unwrap_or(&Value::Null);
    let path = Path::new("status");
    for key in ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"] {
        counts::non_negative(status, key, &path, faults);
    }
    counts::of_replicas(status, "fullyLabeledReplicas", faults);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(selector: Value) -> Object {
        let mut object = Object::from_value(json!({"metadata": {"name": "x"}, "spec": {
            "selector": selector,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))
        .expect("a map");
        ReplicationControllerStrategy.default(&mut object);
        object
    }

    fn told(object: &Object) -> Vec<String> {
        let mut faults = Faults::new();
        ReplicationControllerStrategy.validate_create(object, &mut faults);
        faults.told()
    }

    #[test]
    fn selector_and_labels_come_from_the_template() {
        let object = controller(json!({}));
        assert_eq!(object.at(&["spec", "selector"]), Some(&json!({"app": "a"})));
        assert_eq!(object.at(&["metadata", "labels"]), Some(&json!({"app": "a"})));
        assert_eq!(object.int(&["spec", "replicas"]), Some(1));
        assert!(told(&object).is_empty(), "{:?}", told(&object));
    }

    #[test]
    fn the_selector_must_match_the_template() {
        let told = told(&controller(json!({"app": "z"})));
        assert_eq!(
            told,
            [
                "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`"
            ]
        );
    }

    #[test]
    fn it_is_selected_by_its_number_of_replicas() {
        let field = |value: Value| {
            ReplicationControllerStrategy.field(&Object::from_value(value).expect("a map"), "status.replicas")
        };
        assert_eq!(field(json!({"status": {"replicas": 3}})).as_deref(), Some("3"));
        assert_eq!(field(json!({})).as_deref(), Some("0"));
    }
}
