//! The description of a HorizontalPodAutoscaler, line by line as kubectl 1.36 writes it.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::small::identity;
use super::text::{field, time};

const UNKNOWN: &str = "<unknown>";

/// An autoscaler of `autoscaling/v2`, without the Events.
pub(super) fn autoscaler(out: &mut String, object: &Object) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let target = |field: &str| spec["scaleTargetRef"][field].as_str().unwrap_or_default();
    identity(out, object);
    field(out, "CreationTimestamp", &time(object.creation_timestamp()));
    field(out, "Reference", &format!("{}/{}", target("kind"), target("name")));
    out.push_str("Metrics:\t( current / target )\n");
    let current =
        object.at(&["status", "currentMetrics"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, metric) in spec["metrics"].as_array().into_iter().flatten().enumerate() {
        self::metric(out, metric, current.get(index).unwrap_or(&Value::Null));
    }
    let least = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    field(out, "Min replicas", &least);
    field(out, "Max replicas", &spec["maxReplicas"].as_i64().unwrap_or(0).to_string());
    if spec["behavior"].is_object() {
        out.push_str("Behavior:\n");
        direction(out, "Scale Up", &spec["behavior"]["scaleUp"]);
        direction(out, "Scale Down", &spec["behavior"]["scaleDown"]);
    }
    let count = |name: &str| object.int(&["status", name]).unwrap_or(0);
    let (now, wanted) = (count("currentReplicas"), count("desiredReplicas"));
    field(out, &format!("{} pods", target("kind")), &format!("{now} current / {wanted} desired"));
    let conditions =
        object.at(&["status", "conditions"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if !conditions.is_empty() {
        out.push_str("Conditions:\n  Type\tStatus\tReason\tMessage\n  ----\t------\t------\t-------\n");
    }
    for condition in conditions {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let (kind, status, reason, message) = (text("type"), text("status"), text("reason"), text("message"));
        out.push_str(&format!("  {kind}\t{status}\t{reason}\t{message}\n"));
    }
}

/// What is measured, how much it is now and how much it should be.
fn metric(out: &mut String, metric: &Value, current: &Value) {
    let kind = metric["type"].as_str().unwrap_or_default();
    let part = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        other => return out.push_str(&format!("  <unknown metric type {}>\n", quote(other))),
    };
    let (wanted, now) = (&metric[part]["target"], &current[part]["current"]);
    let is_known = current[part].is_object();
    let amount = |value: &Value| value.as_str().unwrap_or("0").to_owned();
    let now_of = |field: &str| if is_known { amount(&now[field]) } else { UNKNOWN.to_owned() };
    let name = metric[part]["metric"]["name"].as_str().unwrap_or_default();
    let resource = metric[part]["name"].as_str().unwrap_or_default();
    let has_average = !wanted["averageValue"].is_null();
    let line = match kind {
        "External" if has_average => {
            let now = if now["averageValue"].is_null() { UNKNOWN.to_owned() } else { amount(&now["averageValue"]) };
            format!("{} (target average value):\t{now} / {}", quote(name), amount(&wanted["averageValue"]))
        }
        "External" => format!("{} (target value):\t{} / {}", quote(name), now_of("value"), amount(&wanted["value"])),
        "Pods" => format!("{} on pods:\t{} / {}", quote(name), now_of("averageValue"), amount(&wanted["averageValue"])),
        "Object" => {
            let of = |field: &str| metric[part]["describedObject"][field].as_str().unwrap_or_default();
            let head = format!("\"{name}\" on {}/{}", of("kind"), of("name"));
            let (word, field) =
                if wanted["type"] == "AverageValue" { ("average value", "averageValue") } else { ("value", "value") };
            format!("{head} (target {word}):\t{} / {}", now_of(field), amount(&wanted[field]))
        }
        _ => {
            let container = metric[part]["container"].as_str().map(|name| format!(" of container \"{name}\""));
            let head = format!("resource {resource}{} on pods", container.unwrap_or_default());
            if has_average {
                format!("{head}:\t{} / {}", now_of("averageValue"), amount(&wanted["averageValue"]))
            } else {
                let share = |value: &Value| value.as_i64().map(|share| format!("{share}%"));
                let now = share(&now["averageUtilization"])
                    .map_or_else(|| UNKNOWN.to_owned(), |share| format!("{share} ({})", amount(&now["averageValue"])));
                let wanted = share(&wanted["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned());
                format!("{head}  (as a percentage of request):\t{now} / {wanted}")
            }
        }
    };
    out.push_str(&format!("  {line}\n"));
}

fn direction(out: &mut String, name: &str, rules: &Value) {
    if !rules.is_object() {
        return;
    }
    out.push_str(&format!("  {name}:\n"));
    if let Some(seconds) = rules["stabilizationWindowSeconds"].as_i64() {
        out.push_str(&format!("    Stabilization Window: {seconds} seconds\n"));
    }
    let policies = rules["policies"].as_array().map(Vec::as_slice).unwrap_or_default();
    if policies.is_empty() {
        return;
    }
    out.push_str(&format!("    Select Policy: {}\n    Policies:\n", rules["selectPolicy"].as_str().unwrap_or("Max")));
    for policy in policies {
        let (kind, value, period) =
            (policy["type"].as_str().unwrap_or_default(), &policy["value"], &policy["periodSeconds"]);
        out.push_str(&format!("      - Type: {kind}\tValue: {value}\tPeriod: {period} seconds\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn told(metric: Value, current: Value) -> String {
        let object = json!({"metadata": {"name": "h", "namespace": "t", "creationTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 5,
                "metrics": [metric]}, "status": {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [current]}});
        let mut out = String::new();
        autoscaler(&mut out, &Object::from_value(object).expect("a map"));
        align(&out)
    }

    /// As kubectl 1.36.3 shows this autoscaler.
    #[test]
    fn an_autoscaler_is_described_as_kubectl_describes_it() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let at = time("2026-01-02T03:04:05Z");
        let gap = " ".repeat(38);
        assert_eq!(
            told(cpu, Value::Null),
            format!(
                "Name:                                                  h\n\
                 Namespace:                                             t\n\
                 Labels:                                                <none>\n\
                 Annotations:                                           <none>\n\
                 CreationTimestamp:                                     {at}\n\
                 Reference:                                             Deployment/web\n\
                 Metrics:                                               ( current / target )\n  \
                 resource cpu on pods  (as a percentage of request):  <unknown> / 50%\n\
                 Min replicas:                                          1\n\
                 Max replicas:                                          5\n\
                 Deployment pods: {gap}2 current / 3 desired\n"
            )
        );
    }

    #[test]
    fn every_kind_of_metric_has_its_words() {
        let table = [
            (
                json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}),
                json!({"resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "7m"}}}),
                "resource cpu on pods  (as a percentage of request):  7% (7m) / 50%\n",
            ),
            (
                json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"averageValue": "1"}}}),
                Value::Null,
                "resource cpu of container \"c\" on pods:  <unknown> / 1\n",
            ),
            (
                json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "1"}}}),
                json!({"pods": {"current": {"averageValue": "2"}}}),
                "\"m\" on pods:      2 / 1\n",
            ),
            (
                json!({"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": {"kind": "K", "name": "n"}, "target": {"type": "Value", "value": "9"}}}),
                Value::Null,
                "\"m\" on K/n (target value):  <unknown> / 9\n",
            ),
            (
                json!({"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "9"}}}),
                Value::Null,
                "\"m\" (target average value):  <unknown> / 9\n",
            ),
            (json!({"type": "New"}), Value::Null, "  <unknown metric type \"New\">\n"),
        ];
        for (metric, current, line) in table {
            let text = told(metric, current);
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
