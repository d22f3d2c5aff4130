//! Values as Go prints its internal types in messages: `Invalid value: {"Spec":{"Volumes":null,…}}`.
//!
//! kube-apiserver judges objects in a form of its own, whose structs have no JSON names, and prints a struct that may not
//! change with all its fields in the order of their declaration. The table `internal_core.txt` tells that order; a field's
//! value is found under its JSON name, which differs by case alone, but for the few in [`OTHER_NAMES`].

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

const TABLE: &str = include_str!("tables/internal_core.txt");

/// Go's names that differ from the JSON names by more than case.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("CephMonitors", "monitors"),
    ("RBDPool", "pool"),
    ("RBDImage", "image"),
    ("RadosUser", "user"),
    ("DiscoveryCHAPAuth", "chapAuthDiscovery"),
    ("SessionCHAPAuth", "chapAuthSession"),
    ("DataDiskURI", "diskURI"),
];
/// What stands in the security context of a pod there, and in its spec in JSON.
const OF_HOST: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

struct Field {
    name: &'static str,
    holds: &'static str,
    omit: bool,
}

fn structs() -> &'static HashMap<&'static str, Vec<Field>> {
    static STRUCTS: OnceLock<HashMap<&'static str, Vec<Field>>> = OnceLock::new();
    STRUCTS.get_or_init(|| {
        let mut structs: HashMap<&str, Vec<Field>> = HashMap::new();
        let mut current = "";
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix("struct ") {
                current = name;
                structs.entry(name).or_default();
                continue;
            }
            let mut words = line.split_whitespace();
            if let (Some(name), Some(holds)) = (words.next(), words.next()) {
                let omit = words.next() == Some("omit");
                structs.entry(current).or_default().push(Field { name, holds, omit });
            }
        }
        structs
    })
}

/// A value of JSON as Go prints the internal struct of this name: `core.PodTemplateSpec`.
pub(crate) fn print(name: &str, value: &Value) -> String {
    let mut parts = Vec::new();
    fields(name, value, &mut parts);
    format!("{{{}}}", parts.join(","))
}

fn fields(name: &str, value: &Value, parts: &mut Vec<String>) {
    let with_host;
    let value = if name == "core.PodSpec" {
        with_host = host_moved(value);
        &with_host
    } else {
        value
    };
    for field in structs().get(name).into_iter().flatten() {
        if field.name == "&" {
            // The metadata of a template stands in a field of its own in JSON.
            let inner = if field.holds == "v1.ObjectMeta" { &value["metadata"] } else { value };
            fields(field.holds, inner, parts);
            continue;
        }
        let own = find(value, field.name);
        if !(field.omit && is_empty(own)) {
            parts.push(format!("{}:{}", Value::from(field.name), shown(field.holds, own)));
        }
    }
}

fn find<'a>(value: &'a Value, name: &str) -> &'a Value {
    let json = OTHER_NAMES.iter().find(|(go, _)| *go == name).map_or(name, |(_, json)| json);
    let own = value.as_object().into_iter().flatten().find(|(key, _)| key.eq_ignore_ascii_case(json));
    own.map_or(&Value::Null, |(_, value)| value)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn shown(holds: &str, value: &Value) -> String {
    if let Some(inner) = holds.strip_prefix('*') {
        return if value.is_null() { "null".to_owned() } else { shown(inner, value) };
    }
    if let Some(inner) = holds.strip_prefix("[]") {
        let Some(list) = value.as_array() else { return "null".to_owned() };
        return format!("[{}]", list.iter().map(|item| shown(inner, item)).collect::<Vec<_>>().join(","));
    }
    if let Some(inner) = holds.strip_prefix("map[string]") {
        let Some(map) = value.as_object() else { return "null".to_owned() };
        let entry = |(key, value): (&String, &Value)| format!("{}:{}", Value::from(key.as_str()), shown(inner, value));
        return format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(","));
    }
    if structs().contains_key(holds) {
        return print(holds, value);
    }
    match (holds, value) {
        (_, value) if !value.is_null() => value.to_string(),
        ("string", _) => "\"\"".to_owned(),
        ("bool", _) => "false".to_owned(),
        ("quantity", _) => "\"0\"".to_owned(),
        ("time" | "bytes" | "any", _) => "null".to_owned(),
        _ => "0".to_owned(),
    }
}

/// The spec of a pod with what concerns the host where Go has it.
fn host_moved(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    let host: Vec<(&str, Value)> = OF_HOST.iter().filter_map(|key| Some((*key, map.remove(*key)?))).collect();
    if !host.is_empty() {
        let context = map.entry("securityContext").or_insert_with(|| Value::Object(Map::new()));
        for (key, value) in host {
            context[key] = value;
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_stands_in_the_order_of_declaration() {
        let probe = json!({"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 3});
        let shown = print("core.Probe", &probe);
        assert!(shown.starts_with("{\"Exec\":null,\"HTTPGet\":{\"Path\":\"/\",\"Port\":80,"), "{shown}");
        assert!(shown.contains("\"PeriodSeconds\":3"), "{shown}");
    }

    #[test]
    fn metadata_is_part_of_the_template_and_the_host_of_the_security_context() {
        let template =
            json!({"metadata": {"labels": {"b": "c"}}, "spec": {"hostNetwork": true, "containers": [{"name": "c"}]}});
        let shown = print("core.PodTemplateSpec", &template);
        assert!(shown.starts_with("{\"labels\":{\"b\":\"c\"},\"Spec\":{\"Volumes\":null,"), "{shown}");
        assert!(shown.contains("\"SecurityContext\":{\"HostNetwork\":true,\"HostPID\":false,"), "{shown}");
        assert!(shown.contains("\"Resources\":{\"Limits\":null,\"Requests\":null,\"Claims\":null}"), "{shown}");
        assert!(shown.ends_with("\"SchedulingGroup\":null}}"), "{shown}");
    }
}
