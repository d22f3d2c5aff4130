//! The metrics of an autoscaler in one cell (kubectl 1.36).

use serde_json::Value;

use crate::registry::kinds::vocabulary::fields::{items, text};
use crate::registry::kinds::vocabulary::print::{NONE, UNKNOWN};

/// Metrics shown before the rest is only counted.
const SHOWN_MAX: usize = 2;

/// `cpu: 12%/80%, 5/10 (avg) + 1 more...`.
pub(super) fn metrics(spec: &Value, status: &Value) -> String {
    let specs = items(spec, "metrics");
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let current = items(status, "currentMetrics");
    let shown: Vec<String> = specs
        .iter()
        .enumerate()
        .take(SHOWN_MAX)
        .map(|(i, metric)| one(metric, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    if specs.len() > SHOWN_MAX { format!("{shown} + {} more...", specs.len() - SHOWN_MAX) } else { shown }
}

fn one(metric: &Value, status: &Value) -> String {
    match text(metric, "type") {
        "External" => of_value(&metric["external"], &status["external"]),
        "Object" => of_value(&metric["object"], &status["object"]),
        "Pods" => {
            let target = text(&metric["pods"]["target"], "averageValue");
            format!("{}/{target}", amount(&status["pods"], "averageValue"))
        }
        "Resource" => of_resource(&metric["resource"], &status["resource"]),
        "ContainerResource" => of_resource(&metric["containerResource"], &status["containerResource"]),
        _ => "<unknown type>".to_owned(),
    }
}

/// What is now, of a status that may be missing.
fn amount(status: &Value, key: &str) -> String {
    match status["current"][key].as_str() {
        Some(amount) => amount.to_owned(),
        None if status.is_null() => UNKNOWN.to_owned(),
        None => "<nil>".to_owned(),
    }
}

fn of_value(source: &Value, status: &Value) -> String {
    match source["target"]["averageValue"].as_str() {
        Some(target) => {
            let current = status["current"]["averageValue"].as_str().unwrap_or(UNKNOWN);
            format!("{current}/{target} (avg)")
        }
        None => format!("{}/{}", amount(status, "value"), source["target"]["value"].as_str().unwrap_or("<nil>")),
    }
}

fn of_resource(source: &Value, status: &Value) -> String {
    let (name, target) = (text(source, "name"), &source["target"]);
    if let Some(target) = target["averageValue"].as_str() {
        return format!("{name}: {}/{target}", amount(status, "averageValue"));
    }
    let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
    let current = percent(&status["current"]["averageUtilization"]).unwrap_or_else(|| UNKNOWN.to_owned());
    let target = percent(&target["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned());
    format!("{name}: {current}/{target}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn two_metrics_are_shown_and_the_rest_counted() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        let queue = json!({"type": "External", "external": {"target": {"averageValue": "10"}}});
        let spec = json!({"metrics": [cpu, queue, cpu]});
        let status = json!({"currentMetrics": [{"resource": {"current": {"averageUtilization": 12}}},
            {"external": {"current": {"averageValue": "5"}}}]});
        assert_eq!(metrics(&spec, &status), "cpu: 12%/80%, 5/10 (avg) + 1 more...");
        assert_eq!(metrics(&spec, &json!({})), "cpu: <unknown>/80%, <unknown>/10 (avg) + 1 more...");
    }
}
