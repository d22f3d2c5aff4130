//! Values of a job as Go prints its own types in a message.

use serde_json::{Value, json};

use crate::registry::kinds::vocabulary::fields::items;

/// `{"Rules":[…]}` of a success policy.
pub(super) fn success_policy(policy: &Value) -> String {
    let rule = |rule: &Value| {
        format!("{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}", rule["succeededIndexes"], rule["succeededCount"])
    };
    rules(policy, rule)
}

/// `{"Rules":[…]}` of a pod failure policy.
pub(super) fn failure_policy(policy: &Value) -> String {
    rules(policy, |rule| {
        let codes = &rule["onExitCodes"];
        let codes = if codes.is_null() {
            "null".to_owned()
        } else {
            let (name, operator) = (&codes["containerName"], word(codes, "operator"));
            format!("{{\"ContainerName\":{name},\"Operator\":{operator},\"Values\":{}}}", codes["values"])
        };
        let conditions = if rule["onPodConditions"].is_null() {
            "null".to_owned()
        } else {
            list(items(rule, "onPodConditions"), |pattern| {
                format!("{{\"Type\":{},\"Status\":{}}}", word(pattern, "type"), word(pattern, "status"))
            })
        };
        format!("{{\"Action\":{},\"OnExitCodes\":{codes},\"OnPodConditions\":{conditions}}}", word(rule, "action"))
    })
}

/// The uids of pods that are not counted yet.
pub(super) fn uncounted(pods: &Value) -> String {
    format!("{{\"Succeeded\":{},\"Failed\":{}}}", pods["succeeded"], pods["failed"])
}

fn rules(policy: &Value, rule: impl Fn(&Value) -> String) -> String {
    if policy.is_null() {
        return "null".to_owned();
    }
    let rules = if policy["rules"].is_null() { "null".to_owned() } else { list(items(policy, "rules"), rule) };
    format!("{{\"Rules\":{rules}}}")
}

fn list(values: &[Value], shown: impl Fn(&Value) -> String) -> String {
    format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(","))
}

/// A string that is never absent in Go.
fn word(value: &Value, key: &str) -> Value {
    json!(value[key].as_str().unwrap_or_default())
}
