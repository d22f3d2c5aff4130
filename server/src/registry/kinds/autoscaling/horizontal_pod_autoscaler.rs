//! HorizontalPodAutoscaler (autoscaling/v2): kept for whoever scales by it.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::{hpa_annotations, hpa_print, hpa_spec};
use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::vocabulary::counts;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{default, text as txt};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, number, text};
use crate::registry::table::{Cell, Column};

pub(super) struct HorizontalPodAutoscalerStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Reference",
        "string",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be \
         collected, as well as to actually change the replica count.",
        0,
    ),
    column(
        "Targets",
        "string",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica \
         count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between \
         the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the \
         pod count is increased, and vice-versa.  See the individual metric source types for more information about how \
         each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
        0,
    ),
    column(
        "MinPods",
        "string",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to \
         1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object \
         or External metric is configured.  Scaling is active as long as at least one metric value is available.",
        0,
    ),
    column(
        "MaxPods",
        "string",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less \
         that minReplicas.",
        0,
    ),
    column(
        "Replicas",
        "string",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
        0,
    ),
    AGE,
];

impl Strategy for HorizontalPodAutoscalerStrategy {
    fn schema(&self) -> &'static str {
        "autoscaling/v2.HorizontalPodAutoscaler"
    }

    fn default(&self, object: &mut Object) {
        hpa_annotations::drop_all(object);
        let spec = object.at_mut(&["spec"]);
        default(spec, "minReplicas", 1);
        if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
            let target = json!({"type": "Utilization", "averageUtilization": 80});
            spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        }
        if spec["behavior"].is_object() {
            behavior_defaults(&mut spec["behavior"]);
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"desiredReplicas": 0, "currentMetrics": null}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, if part == Part::Status { &["spec"] } else { &["status"] });
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        hpa_spec::validate(object.at(&["spec"]).unwrap_or(&Value::Null), None, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            let status = new.at(&["status"]).unwrap_or(&Value::Null);
            for key in ["currentReplicas", "desiredReplicas"] {
                counts::non_negative(status, key, &Path::new("status"), faults);
            }
            return;
        }
        hpa_spec::validate(new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]), faults);
    }

    fn habits(&self) -> Habits {
        Habits { has_generation: false, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let status = object.at(&["status"]).unwrap_or(&Value::Null);
        let target = &spec["scaleTargetRef"];
        let least = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
        vec![
            text(object.name()),
            text(format!("{}/{}", txt(target, "kind"), txt(target, "name"))),
            text(hpa_print::metrics(spec, status)),
            text(least),
            number(object, &["spec", "maxReplicas"]),
            number(object, &["status", "currentReplicas"]),
            age(object, now),
        ]
    }
}

/// Once there is a behavior, both directions are told in full.
fn behavior_defaults(behavior: &mut Value) {
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    for key in ["scaleUp", "scaleDown"] {
        let rules = &mut behavior[key];
        if !rules.is_object() {
            *rules = json!({});
        }
        default(rules, "selectPolicy", "Max");
        if key == "scaleUp" {
            default(rules, "stabilizationWindowSeconds", 0);
            default(rules, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
        } else {
            default(rules, "policies", json!([policy("Percent", 100)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_is_told_in_full() {
        let value = json!({"metadata": {"name": "x"}, "spec": {"maxReplicas": 5, "behavior": {"scaleUp": {"policies": [
            {"type": "Pods", "value": 1, "periodSeconds": 60}]}},
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        let mut object = Object::from_value(value).expect("a map");
        HorizontalPodAutoscalerStrategy.default(&mut object);
        let behavior = object.at(&["spec", "behavior"]).expect("kept");
        assert_eq!(behavior["scaleUp"]["policies"].as_array().map(Vec::len), Some(1));
        assert_eq!(behavior["scaleUp"]["stabilizationWindowSeconds"], 0);
        assert_eq!(
            behavior["scaleDown"],
            json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]})
        );
        let shown: Vec<String> =
            HorizontalPodAutoscalerStrategy.cells(&object, 0).iter().map(ToString::to_string).collect();
        assert_eq!(&shown[1..5], ["Deployment/d", "cpu: <unknown>/80%", "1", "5"]);
        let mut faults = Faults::new();
        HorizontalPodAutoscalerStrategy.validate_create(&object, &mut faults);
        assert!(faults.is_empty(), "{:?}", faults.into_causes());
    }
}
