//! HorizontalPodAutoscaler (autoscaling/v1): the older form of what autoscaling/v2 keeps. It has a field for the use of
//! processors alone; everything else stands in annotations (Kubernetes 1.36).

use listwatch_proto::resource::{Kind, Object};
use serde_json::{Map, Value, json};

use super::horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy as Newer;
use super::hpa_annotations::{self as annotations, BEHAVIOR, CONDITIONS, METRICS, STATUSES};
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::view::View;
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::fields::{default, items, text};
use crate::registry::table::{Cell, Column};

pub(super) struct HorizontalPodAutoscalerV1Strategy;

/// The use of processors that is aimed at if nothing is said.
const UTILIZATION: i64 = 80;

/// A metric that this version has a field for.
fn utilization(metric: &Value) -> Option<i64> {
    let resource = &metric["resource"];
    let is_own = text(metric, "type") == "Resource" && text(resource, "name") == "cpu";
    resource["target"]["averageUtilization"].as_i64().filter(|_| is_own)
}

fn of_utilization(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

impl View for HorizontalPodAutoscalerV1Strategy {
    fn kept_by(&self) -> &'static Kind {
        Kind::by_api_version("autoscaling/v2", "HorizontalPodAutoscaler").expect("it is a served kind")
    }

    fn kept(&self, mut object: Object) -> Object {
        let told = annotations::take_all(&mut object);
        let told = |key: &str| told.get(key).and_then(Value::as_str);
        object.set(&["apiVersion"], "autoscaling/v2");
        let spec = object.at_mut(&["spec"]);
        let own = spec.as_object_mut().and_then(|spec| spec.remove("targetCPUUtilizationPercentage"));
        let mut metrics: Vec<Value> = told(METRICS).and_then(annotations::read_metrics).unwrap_or_default();
        metrics.extend(own.and_then(|percent| percent.as_i64()).map(of_utilization));
        if metrics.is_empty() {
            metrics.push(of_utilization(UTILIZATION));
        }
        spec["metrics"] = metrics.into();
        if let Some(behavior) = told(BEHAVIOR).and_then(annotations::read_behavior) {
            spec["behavior"] = behavior;
        }
        let status = object.at_mut(&["status"]);
        if !status.is_object() {
            *status = json!({});
        }
        let own = status.as_object_mut().and_then(|status| status.remove("currentCPUUtilizationPercentage"));
        let own = own.and_then(|percent| percent.as_i64()).map(|percent| {
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}])
        });
        let statuses = told(STATUSES).and_then(annotations::read_statuses).map(Value::from);
        status["currentMetrics"] = statuses.or(own).unwrap_or(Value::Null);
        if let Some(conditions) = told(CONDITIONS).and_then(annotations::read_conditions) {
            status["conditions"] = conditions.into();
        }
        default(status, "desiredReplicas", 0);
        if status["currentReplicas"] == 0 {
            status.as_object_mut().map(|status| status.remove("currentReplicas"));
        }
        object
    }

    fn shown(&self, mut object: Object) -> Object {
        annotations::drop_all(&mut object);
        object.set(&["apiVersion"], "autoscaling/v1");
        let mut told = Map::new();
        let spec = object.at_mut(&["spec"]);
        let metrics = items(spec, "metrics").to_vec();
        let others: Vec<&Value> = metrics.iter().filter(|metric| utilization(metric).is_none()).collect();
        if !others.is_empty() {
            told.insert(METRICS.to_owned(), annotations::write_metrics(&others).into());
        }
        if spec["behavior"].is_object() {
            told.insert(BEHAVIOR.to_owned(), annotations::write_behavior(&spec["behavior"]).into());
        }
        if let Some(map) = spec.as_object_mut() {
            map.remove("metrics");
            map.remove("behavior");
            if let Some(percent) = metrics.iter().find_map(utilization) {
                map.insert("targetCPUUtilizationPercentage".to_owned(), percent.into());
            }
        }
        let status = object.at_mut(&["status"]);
        if !status.is_object() {
            *status = json!({});
        }
        let current = items(status, "currentMetrics").to_vec();
        if !current.is_empty() {
            told.insert(STATUSES.to_owned(), annotations::write_statuses(&current).into());
        }
        let conditions = items(status, "conditions");
        if !conditions.is_empty() {
            told.insert(CONDITIONS.to_owned(), annotations::write_conditions(conditions).into());
        }
        let is_own = |metric: &&Value| text(metric, "type") == "Resource" && text(&metric["resource"], "name") == "cpu";
        let percents = current.iter().filter(is_own);
        let percent =
            percents.filter_map(|metric| metric["resource"]["current"]["averageUtilization"].as_i64()).next_back();
        if let Some(map) = status.as_object_mut() {
            map.remove("currentMetrics");
            map.remove("conditions");
            if let Some(percent) = percent {
                map.insert("currentCPUUtilizationPercentage".to_owned(), percent.into());
            }
        }
        default(status, "currentReplicas", 0);
        default(status, "desiredReplicas", 0);
        for (key, text) in told {
            object.set(&["metadata", "annotations", &key], text);
        }
        object
    }
}

impl Strategy for HorizontalPodAutoscalerV1Strategy {
    fn schema(&self) -> &'static str {
        "autoscaling/v1.HorizontalPodAutoscaler"
    }

    fn default(&self, object: &mut Object) {
        default(object.at_mut(&["spec"]), "minReplicas", 1);
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&HorizontalPodAutoscalerV1Strategy)
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        // What an annotation left out of a behavior is filled in when it is kept.
        Newer.default(object);
        Newer.prepare_create(object)
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        Newer.default(new);
        Newer.prepare_update(part, new, old);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        Newer.validate_create(object, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        Newer.validate_update(part, new, old, faults);
    }

    fn habits(&self) -> Habits {
        Habits { has_generation: Newer.habits().has_generation, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        Newer.columns()
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        Newer.cells(object, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HorizontalPodAutoscalerV1Strategy = HorizontalPodAutoscalerV1Strategy;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn processors_have_a_field_and_eighty_percent_is_meant_where_nothing_is_said() {
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        for (field, percent) in [(Some(50), 50), (None, 80)] {
            let mut own = object(json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "x"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}));
            if let Some(field) = field {
                own.set(&["spec", "targetCPUUtilizationPercentage"], field);
            }
            RULES.default(&mut own);
            let kept = RULES.kept(own);
            assert_eq!(kept.text(&["apiVersion"]), "autoscaling/v2");
            assert_eq!(kept.at(&["spec", "metrics"]), Some(&json!([of_utilization(percent)])));
            let shown = RULES.shown(kept);
            assert_eq!(shown.int(&["spec", "targetCPUUtilizationPercentage"]), Some(percent));
            assert_eq!(shown.at(&["metadata", "annotations"]), None);
            assert_eq!(shown.at(&["status"]), Some(&json!({"currentReplicas": 0, "desiredReplicas": 0})));
        }
    }

    #[test]
    fn everything_else_stands_in_annotations_and_comes_back() {
        let mut kept = object(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "x", "annotations": {"own": "1"}},
            "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "behavior": {"scaleDown": {"selectPolicy": "Max", "stabilizationWindowSeconds": 5,
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}},
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "1k"}}},
                    {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"},
                        "metric": {"name": "m"}, "target": {"type": "Value", "value": "5"}}},
                    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "2"}}},
                    {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c",
                        "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    of_utilization(70),
                ]},
            "status": {"currentReplicas": 2, "desiredReplicas": 2,
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "3m"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True", "reason": "R", "message": "a < b", "lastTransitionTime": null}]},
        }));
        Newer.default(&mut kept);
        let shown = RULES.shown(kept.clone());
        let annotation = |key: &str| shown.text(&["metadata", "annotations", key]).to_owned();
        assert_eq!(
            annotation(METRICS),
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"}}}},"#.to_owned()
                + r#"{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"5"}},"#
                + r#"{"type":"External","external":{"metricName":"q","targetAverageValue":"2"}},"#
                + r#"{"type":"ContainerResource","containerResource":{"name":"memory","targetAverageValue":"1Gi","container":"c"}}]"#
        );
        assert!(annotation(BEHAVIOR).starts_with(r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}"#));
        assert_eq!(
            annotation(CONDITIONS),
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":null,"reason":"R","message":"a \u003c b"}]"#
        );
        assert_eq!(shown.int(&["spec", "targetCPUUtilizationPercentage"]), Some(70));
        assert_eq!(shown.int(&["status", "currentCPUUtilizationPercentage"]), Some(7));
        assert_eq!(RULES.kept(shown), kept);
    }
}
