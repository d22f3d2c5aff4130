//! DaemonSet (apps).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::workload;
use crate::registry::kinds::strategy::{Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, text as txt};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, column, number, selector, text, workload_row};
use crate::registry::kinds::vocabulary::{counts, fields};
use crate::registry::table::{Cell, Column};

pub(super) struct DaemonSetStrategy;

/// How often the template has changed, as older clients know it (Kubernetes 1.36 keeps it as an annotation).
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// What is asked of the selector.
const SELECTING: template::whole::Selecting =
    template::whole::Selecting { required: false, never_empty_for: Some("daemonset"), unreadable: None };

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Desired",
        "integer",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon \
         pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        0,
    ),
    column(
        "Current",
        "integer",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
        0,
    ),
    column(
        "Ready",
        "integer",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod \
         running with a Ready Condition.",
        0,
    ),
    column("Up-to-date", "integer", "The total number of nodes that are running updated daemon pod", 0),
    column(
        "Available",
        "integer",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and \
         available (ready for at least spec.minReadySeconds)",
        0,
    ),
    column(
        "Node Selector",
        "string",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's \
         labels for the pod to be scheduled on that node. More info: \
         https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
        0,
    ),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
    column(
        "Selector",
        "string",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match \
         the pod template's labels. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        1,
    ),
];

impl Strategy for DaemonSetStrategy {
    fn schema(&self) -> &'static str {
        "apps/v1.DaemonSet"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        let strategy = &mut spec["updateStrategy"];
        if strategy.is_null() {
            *strategy = json!({});
        }
        default(strategy, "type", "RollingUpdate");
        if txt(strategy, "type") == "RollingUpdate" {
            default(strategy, "rollingUpdate", json!({}));
            default(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
            default(&mut strategy["rollingUpdate"], "maxSurge", 0);
        }
        default(spec, "revisionHistoryLimit", 10);
        template::defaults::template(&mut spec["template"]);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let none = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
        object.0.insert("status".into(), none);
        if let Ok(generation) = template_generation(object) {
            object.set(&["metadata", "annotations", TEMPLATE_GENERATION], generation.max(1).to_string());
        }
        template::defaults::drop_disabled(object.at_mut(&["spec", "template", "spec"]));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        let mut generation = template_generation(old).unwrap_or(0);
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                template::defaults::drop_disabled(new.at_mut(&["spec", "template", "spec"]));
                if new.at(&["spec", "template"]) != old.at(&["spec", "template"]) {
                    generation += 1;
                }
            }
        }
        new.set(&["metadata", "annotations", TEMPLATE_GENERATION], generation.to_string());
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        if let Err(shown) = template_generation(object) {
            let at = Path::new("metadata.annotations").key(TEMPLATE_GENERATION);
            faults.invalid(&at, &shown, "must be a number");
        }
        validate_spec(object.at(&["spec"]).unwrap_or(&Value::Null), &Path::new("spec"), faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            let status = new.at(&["status"]).unwrap_or(&Value::Null);
            for key in [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ] {
                counts::non_negative(status, key, &Path::new("status"), faults);
            }
            workload::not_decremented(new, old, "collisionCount", faults);
            return;
        }
        workload::immutable_selector(new, old, faults);
        validate_spec(new.at(&["spec"]).unwrap_or(&Value::Null), &Path::new("spec"), faults);
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        template::warnings::pod_template(object, &["spec", "template"])
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        let changed = part != Part::Status && new.generation() != old.generation();
        if changed { self.warnings(new) } else { Vec::new() }
    }

    fn blank(&self, blank: &mut Object) {
        blank.set(&["metadata", "annotations", "deprecated.daemonset.template.generation"], "0");
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        workload_row(
            object,
            [
                number(object, &["status", "desiredNumberScheduled"]),
                number(object, &["status", "currentNumberScheduled"]),
                number(object, &["status", "numberReady"]),
                number(object, &["status", "updatedNumberScheduled"]),
                number(object, &["status", "numberAvailable"]),
                text(node_selector(object)),
            ],
            now,
            Some(selector(object, &["spec", "selector"])),
        )
    }
}

/// The generation of the template; 0 if none is told.
///
/// # Errors
/// What is told and is no number.
fn template_generation(object: &Object) -> Result<i64, String> {
    let told = object.at(&["metadata", "annotations", TEMPLATE_GENERATION]).and_then(Value::as_str);
    told.map_or(Ok(0), |told| told.parse().map_err(|_| told.to_owned()))
}

fn node_selector(object: &Object) -> String {
    let selector = object.at(&["spec", "template", "spec", "nodeSelector"]).unwrap_or(&Value::Null);
    let pairs: Vec<_> =
        fields::entries(selector).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

fn validate_spec(spec: &Value, path: &Path, faults: &mut Faults) {
    template::whole::selector(spec, path, &SELECTING, faults);
    template::whole::for_ever(&spec["template"], "DaemonSet", &path.child("template"), faults);
    counts::non_negative(spec, "minReadySeconds", path, faults);
    update_strategy(&spec["updateStrategy"], &path.child("updateStrategy"), faults);
    counts::non_negative(spec, "revisionHistoryLimit", path, faults);
}

fn update_strategy(strategy: &Value, path: &Path, faults: &mut Faults) {
    let rolling = &strategy["rollingUpdate"];
    match txt(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => faults.required(&path.child("rollingUpdate"), ""),
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let keys = ["maxUnavailable", "maxSurge"];
            keys.iter().for_each(|key| counts::amount(&rolling[*key], &path.child(key), faults));
            keys.iter().for_each(|key| counts::at_most_all(&rolling[*key], &path.child(key), faults));
            let [unavailable, surge] = keys.map(|key| !counts::is_zero(&rolling[key]));
            if unavailable && surge {
                let why = "may not be set when maxUnavailable is non-zero";
                faults.invalid(&path.child("maxSurge"), &rolling["maxSurge"], why);
            } else if !unavailable && !surge {
                faults.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
            }
        }
        other => {
            let rolling = if rolling.is_null() {
                "null".to_owned()
            } else {
                let shown = ["maxUnavailable", "maxSurge"].map(|key| match &rolling[key] {
                    Value::Null => "0".to_owned(),
                    amount => amount.to_string(),
                });
                format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", shown[0], shown[1])
            };
            let shown = Shown(format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(other)));
            faults.not_supported(path, shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon_set(generation: Option<&str>, image: &str) -> Object {
        let mut value = json!({
            "metadata": {"name": "x"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
        });
        if let Some(generation) = generation {
            value["metadata"]["annotations"] = json!({TEMPLATE_GENERATION: generation});
        }
        let mut object = Object::from_value(value).expect("a map");
        DaemonSetStrategy.default(&mut object);
        object
    }

    #[test]
    fn the_template_generation_counts_changes_of_the_template() {
        let told = |object: &Object| object.text(&["metadata", "annotations", TEMPLATE_GENERATION]).to_owned();
        let mut old = daemon_set(None, "a");
        DaemonSetStrategy.prepare_create(&mut old).expect("taken");
        assert_eq!(told(&old), "1");
        let mut same = daemon_set(Some("7"), "a");
        DaemonSetStrategy.prepare_update(Part::Main, &mut same, &old);
        assert_eq!(told(&same), "1", "a client cannot set it");
        let mut other = daemon_set(None, "b");
        DaemonSetStrategy.prepare_update(Part::Main, &mut other, &old);
        assert_eq!(told(&other), "2");
        let mut wrong = daemon_set(Some("x"), "a");
        DaemonSetStrategy.prepare_create(&mut wrong).expect("taken");
        let mut faults = Faults::new();
        DaemonSetStrategy.validate_create(&wrong, &mut faults);
        assert_eq!(faults.into_causes().len(), 1);
    }

    #[test]
    fn surge_and_unavailability_exclude_each_other() {
        for (rolling, expected) in [
            (json!({"maxUnavailable": 1, "maxSurge": 1}), Some("spec.updateStrategy.rollingUpdate.maxSurge")),
            (json!({"maxUnavailable": "0%", "maxSurge": 0}), Some("spec.updateStrategy.rollingUpdate.maxUnavailable")),
            (json!({"maxUnavailable": "50%", "maxSurge": "0%"}), None),
        ] {
            let mut object = daemon_set(None, "a");
            object.set(&["spec", "updateStrategy", "rollingUpdate"], rolling.clone());
            let mut faults = Faults::new();
            DaemonSetStrategy.validate_create(&object, &mut faults);
            let told: Vec<_> = faults.into_causes().into_iter().map(|cause| cause.field).collect();
            assert_eq!(told, expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{rolling}");
        }
    }
}
