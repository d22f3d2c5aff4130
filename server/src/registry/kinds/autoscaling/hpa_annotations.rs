//! The annotations in which autoscaling/v1 tells what it has no fields for: JSON of its own older types, with the fields in
//! the order of Go's structs, so that equal contents are equal texts (Kubernetes 1.36).

use listwatch_proto::resource::{Object, Quantity};
use serde_json::{Map, Value, json};

use crate::registry::kinds::vocabulary::fields::{has, items, text};

/// Metrics other than the use of processors.
pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// What was measured last.
pub(super) const STATUSES: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The conditions of the status.
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// How fast it goes up and down.
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ALL: [&str; 6] = [
    METRICS,
    STATUSES,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];
const RESOURCES: [(&str, &str); 2] = [("Resource", "resource"), ("ContainerResource", "containerResource")];

/// Takes them out of an object.
pub(super) fn take_all(object: &mut Object) -> Map<String, Value> {
    const PATH: [&str; 2] = ["metadata", "annotations"];
    let Some(Value::Object(mut map)) = object.at(&PATH).cloned() else { return Map::new() };
    let taken: Map<String, Value> =
        ALL.iter().filter_map(|key| map.remove(*key).map(|text| ((*key).to_owned(), text))).collect();
    if map.is_empty() {
        object.remove(&PATH);
    } else if !taken.is_empty() {
        object.set(&PATH, map);
    }
    taken
}

/// Drops them: in the newer version they say nothing.
pub(super) fn drop_all(object: &mut Object) {
    take_all(object);
}

/// An object of JSON with its fields in this order; `None` = left out.
fn ordered(fields: &[(&str, Option<String>)]) -> String {
    let one = |(key, value): &(&str, Option<String>)| value.as_ref().map(|value| format!("{}:{value}", json!(key)));
    format!("{{{}}}", fields.iter().filter_map(one).collect::<Vec<_>>().join(","))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// A value as Go's encoder writes it, which escapes what HTML could take for its own.
fn go(value: &Value) -> String {
    let text = value.to_string();
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A field that is always there.
fn plain(value: &Value, key: &str) -> Option<String> {
    Some(go(&json!(text(value, key))))
}

/// A field that is left out when it is missing or an empty text.
fn given(value: &Value, key: &str) -> Option<String> {
    (has(value, key) && value[key] != "").then(|| go(&value[key]))
}

/// A quantity that is always there.
fn amount(value: &Value, key: &str) -> Option<String> {
    Some(given(value, key).unwrap_or_else(|| "\"0\"".to_owned()))
}

fn selector(metric: &Value) -> Option<String> {
    let selector = &metric["selector"];
    if selector.is_null() {
        return None;
    }
    let expression = |one: &Value| {
        let values = has(one, "values").then(|| go(&one["values"]));
        ordered(&[("key", plain(one, "key")), ("operator", plain(one, "operator")), ("values", values)])
    };
    let expressions = items(selector, "matchExpressions");
    let labels = selector["matchLabels"].as_object().filter(|labels| !labels.is_empty());
    Some(ordered(&[
        ("matchLabels", labels.map(|_| go(&selector["matchLabels"]))),
        ("matchExpressions", (!expressions.is_empty()).then(|| list(expressions.iter().map(expression)))),
    ]))
}

fn reference(value: &Value) -> String {
    ordered(&[
        ("kind", plain(value, "kind")),
        ("name", plain(value, "name")),
        ("apiVersion", given(value, "apiVersion")),
    ])
}

/// How one form of a metric is told: what a spec aims at and what a status has measured differ in words, and in which
/// amounts may be left out.
struct Words {
    /// The part of today's metric that has the amounts.
    part: &'static str,
    value: &'static str,
    average_value: &'static str,
    average_utilization: &'static str,
    /// How the average of a resource and the value of an external metric are told: a spec leaves them out where it aims
    /// at something else, a status has always measured them.
    measured: fn(&Value, &str) -> Option<String>,
}

const TARGET: Words = Words {
    part: "target",
    value: "targetValue",
    average_value: "targetAverageValue",
    average_utilization: "targetAverageUtilization",
    measured: given,
};

const CURRENT: Words = Words {
    part: "current",
    value: "currentValue",
    average_value: "currentAverageValue",
    average_utilization: "currentAverageUtilization",
    measured: amount,
};

/// Metrics of a spec.
pub(super) fn write_metrics(metrics: &[&Value]) -> String {
    list(metrics.iter().map(|metric| write_metric(metric, &TARGET)))
}

/// Metrics of a status.
pub(super) fn write_statuses(metrics: &[Value]) -> String {
    list(metrics.iter().map(|metric| write_metric(metric, &CURRENT)))
}

fn write_metric(metric: &Value, words: &Words) -> String {
    let of = |key: &str, write: &dyn Fn(&Value, &Value) -> String| {
        let own = &metric[key];
        (!own.is_null()).then(|| write(own, &own[words.part]))
    };
    let resource = |own: &Value, amounts: &Value, container: Option<String>| {
        ordered(&[
            ("name", plain(own, "name")),
            (words.average_utilization, given(amounts, "averageUtilization")),
            (words.average_value, (words.measured)(amounts, "averageValue")),
            ("container", container),
        ])
    };
    let object = |own: &Value, amounts: &Value| {
        ordered(&[
            ("target", Some(reference(&own["describedObject"]))),
            ("metricName", plain(&own["metric"], "name")),
            (words.value, amount(amounts, "value")),
            ("selector", selector(&own["metric"])),
            ("averageValue", given(amounts, "averageValue")),
        ])
    };
    let pods = |own: &Value, amounts: &Value| {
        ordered(&[
            ("metricName", plain(&own["metric"], "name")),
            (words.average_value, amount(amounts, "averageValue")),
            ("selector", selector(&own["metric"])),
        ])
    };
    let external = |own: &Value, amounts: &Value| {
        ordered(&[
            ("metricName", plain(&own["metric"], "name")),
            ("metricSelector", selector(&own["metric"])),
            (words.value, (words.measured)(amounts, "value")),
            (words.average_value, given(amounts, "averageValue")),
        ])
    };
    ordered(&[
        ("type", plain(metric, "type")),
        ("object", of("object", &object)),
        ("pods", of("pods", &pods)),
        ("resource", of("resource", &|own, amounts| resource(own, amounts, None))),
        ("containerResource", of("containerResource", &|own, amounts| resource(own, amounts, plain(own, "container")))),
        ("external", of("external", &external)),
    ])
}

/// The conditions of a status.
pub(super) fn write_conditions(conditions: &[Value]) -> String {
    list(conditions.iter().map(|condition| {
        ordered(&[
            ("type", plain(condition, "type")),
            ("status", plain(condition, "status")),
            ("lastTransitionTime", Some(go(&condition["lastTransitionTime"]))),
            ("reason", given(condition, "reason")),
            ("message", given(condition, "message")),
        ])
    }))
}

/// A behavior, in upstream's internal form: the names of Go's fields, nothing left out.
pub(super) fn write_behavior(behavior: &Value) -> String {
    let policy = |policy: &Value| {
        ordered(&[
            ("Type", plain(policy, "type")),
            ("Value", Some(go(&policy["value"]))),
            ("PeriodSeconds", Some(go(&policy["periodSeconds"]))),
        ])
    };
    let rules = |rules: &Value| {
        if rules.is_null() {
            return "null".to_owned();
        }
        let policies = rules["policies"].as_array();
        ordered(&[
            ("StabilizationWindowSeconds", Some(go(&rules["stabilizationWindowSeconds"]))),
            ("SelectPolicy", Some(go(&rules["selectPolicy"]))),
            ("Policies", Some(policies.map_or_else(|| "null".to_owned(), |own| list(own.iter().map(policy))))),
            ("Tolerance", Some(go(&rules["tolerance"]))),
        ])
    };
    ordered(&[("ScaleUp", Some(rules(&behavior["scaleUp"]))), ("ScaleDown", Some(rules(&behavior["scaleDown"])))])
}

/// The value of a key, whatever its case, as Go's decoder finds it.
fn found<'a>(value: &'a Value, name: &str) -> &'a Value {
    let map = value.as_object();
    let entry = map.and_then(|map| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)));
    entry.map_or(&Value::Null, |(_, value)| value)
}

/// Puts what is there under another name.
fn carry(from: &Value, name: &str, to: &mut Value, key: &str) {
    let value = found(from, name);
    if !value.is_null() {
        to[key] = value.clone();
    }
}

/// A list of objects; `None` = the text is none, and says nothing.
fn objects(text: &str) -> Option<Vec<Value>> {
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    list.iter().all(Value::is_object).then_some(list)
}

/// A quantity that is always there: `0` where nothing is said; `None` = what is said is none.
fn quantity(value: &Value, name: &str) -> Option<Value> {
    match found(value, name) {
        Value::Null => Some("0".into()),
        Value::String(text) => text.parse::<Quantity>().ok().map(|_| text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        _ => None,
    }
}

fn identifier(own: &Value, selector: &str) -> Value {
    let mut metric = json!({"name": found(own, "metricName").as_str().unwrap_or_default()});
    carry(own, selector, &mut metric, "selector");
    metric
}

fn described(own: &Value) -> Value {
    let target = found(own, "target");
    let mut described = json!({
        "kind": found(target, "kind").as_str().unwrap_or_default(),
        "name": found(target, "name").as_str().unwrap_or_default(),
    });
    carry(target, "apiVersion", &mut described, "apiVersion");
    described
}

/// Metrics of a spec; `None` = the text tells none.
pub(super) fn read_metrics(text: &str) -> Option<Vec<Value>> {
    objects(text)?.iter().map(read_metric).collect()
}

fn read_metric(metric: &Value) -> Option<Value> {
    let kind = found(metric, "type").as_str().unwrap_or_default();
    let mut read = json!({"type": kind});
    let own = found(metric, "object");
    if !own.is_null() {
        let (average, value) = (found(own, "averageValue"), quantity(own, "targetValue")?);
        let mut target = json!({"type": if average.is_null() { "Value" } else { "AverageValue" }});
        // A zero beside an average only says that the older type cannot leave it out.
        if average.is_null() || value != "0" {
            target["value"] = value;
        }
        carry(own, "averageValue", &mut target, "averageValue");
        read["object"] =
            json!({"describedObject": described(own), "target": target, "metric": identifier(own, "selector")});
    }
    let own = found(metric, "pods");
    if !own.is_null() {
        let target = json!({"type": "AverageValue", "averageValue": quantity(own, "targetAverageValue")?});
        read["pods"] = json!({"metric": identifier(own, "selector"), "target": target});
    }
    for (_, key) in RESOURCES {
        let own = found(metric, key);
        if own.is_null() {
            continue;
        }
        let has_percent = !found(own, "targetAverageUtilization").is_null();
        let mut target = json!({"type": if has_percent { "Utilization" } else { "AverageValue" }});
        carry(own, "targetAverageUtilization", &mut target, "averageUtilization");
        carry(own, "targetAverageValue", &mut target, "averageValue");
        read[key] = named(own, key, "target", target);
    }
    let own = found(metric, "external");
    if !own.is_null() {
        let has_value = !found(own, "targetValue").is_null();
        let mut target = json!({"type": if has_value { "Value" } else { "AverageValue" }});
        carry(own, "targetValue", &mut target, "value");
        carry(own, "targetAverageValue", &mut target, "averageValue");
        read["external"] = json!({"metric": identifier(own, "metricSelector"), "target": target});
    }
    Some(read)
}

/// A resource of a pod or of one container, with what is said of it.
fn named(own: &Value, key: &str, what: &str, said: Value) -> Value {
    let mut read = json!({"name": found(own, "name").as_str().unwrap_or_default()});
    read[what] = said;
    if key == "containerResource" {
        read["container"] = found(own, "container").as_str().unwrap_or_default().into();
    }
    read
}

/// Metrics of a status; `None` = the text tells none.
pub(super) fn read_statuses(text: &str) -> Option<Vec<Value>> {
    objects(text)?.iter().map(read_status).collect()
}

fn read_status(metric: &Value) -> Option<Value> {
    let kind = found(metric, "type").as_str().unwrap_or_default();
    let mut read = json!({"type": kind});
    let own = found(metric, "object");
    if !own.is_null() {
        let mut current = json!({"value": quantity(own, "currentValue")?});
        carry(own, "averageValue", &mut current, "averageValue");
        read["object"] =
            json!({"describedObject": described(own), "current": current, "metric": identifier(own, "selector")});
    }
    let own = found(metric, "pods");
    if !own.is_null() {
        let current = json!({"averageValue": quantity(own, "currentAverageValue")?});
        read["pods"] = json!({"metric": identifier(own, "selector"), "current": current});
    }
    for (_, key) in RESOURCES {
        let own = found(metric, key);
        if own.is_null() {
            continue;
        }
        let mut current = json!({"averageValue": quantity(own, "currentAverageValue")?});
        carry(own, "currentAverageUtilization", &mut current, "averageUtilization");
        read[key] = named(own, key, "current", current);
    }
    let own = found(metric, "external");
    if !own.is_null() {
        let mut current = json!({"value": quantity(own, "currentValue")?});
        carry(own, "currentAverageValue", &mut current, "averageValue");
        read["external"] = json!({"metric": identifier(own, "metricSelector"), "current": current});
    }
    Some(read)
}

/// The conditions of a status; `None` = the text tells none.
pub(super) fn read_conditions(text: &str) -> Option<Vec<Value>> {
    let read = |condition: &Value| {
        let mut read = json!({
            "type": found(condition, "type").as_str().unwrap_or_default(),
            "status": found(condition, "status").as_str().unwrap_or_default(),
            "lastTransitionTime": found(condition, "lastTransitionTime"),
        });
        carry(condition, "reason", &mut read, "reason");
        carry(condition, "message", &mut read, "message");
        read
    };
    Some(objects(text)?.iter().map(read).collect())
}

/// A behavior; `None` = the text tells none.
pub(super) fn read_behavior(text: &str) -> Option<Value> {
    let told: Value = serde_json::from_str(text).ok()?;
    let policy = |policy: &Value| {
        json!({
            "type": found(policy, "type").as_str().unwrap_or_default(),
            "value": found(policy, "value").as_i64().unwrap_or(0),
            "periodSeconds": found(policy, "periodSeconds").as_i64().unwrap_or(0),
        })
    };
    let mut behavior = json!({});
    for key in ["scaleUp", "scaleDown"] {
        let own = found(&told, key);
        if own.is_null() {
            continue;
        }
        let mut rules = json!({});
        for name in ["stabilizationWindowSeconds", "selectPolicy", "tolerance"] {
            carry(own, name, &mut rules, name);
        }
        if let Some(policies) = found(own, "policies").as_array() {
            rules["policies"] = policies.iter().map(policy).collect();
        }
        behavior[key] = rules;
    }
    (behavior != json!({})).then_some(behavior)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_nothing_is_passed_over() {
        for text in ["", "{", "{}", "[1]", r#"[{"type":"Pods","pods":{"targetAverageValue":"x"}}]"#] {
            assert_eq!(read_metrics(text), None, "{text}");
        }
        assert_eq!(read_behavior("{}"), None);
        assert_eq!(read_behavior("nothing"), None);
    }

    #[test]
    fn keys_are_found_whatever_their_case() {
        let behavior =
            read_behavior(r#"{"ScaleUp":null,"scaledown":{"SelectPolicy":"Min","Policies":null,"Tolerance":null}}"#);
        assert_eq!(behavior, Some(json!({"scaleDown": {"selectPolicy": "Min"}})));
    }
}
