//! The rules of what a pod says to the scheduler: affinity, tolerations, spreading, gates.

use std::collections::HashSet;

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, has, items, items_mut, text};
use crate::registry::kinds::vocabulary::{names, selectors};
use listwatch_proto::resource::toleration::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Node and pod affinity.
pub(in crate::registry::kinds) fn affinity(affinity: &Value, path: &Path, faults: &mut Faults) {
    let node = &affinity["nodeAffinity"];
    if node.is_object() {
        let path = path.child("nodeAffinity");
        if has(node, REQUIRED) {
            node_selector(&node[REQUIRED], &path.child(REQUIRED), faults);
        }
        for (i, preferred) in items(node, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(i);
            weight(preferred, &path, faults);
            node_term(&preferred["preference"], false, &path.child("preference"), faults);
        }
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = &affinity[key];
        let path = path.child(key);
        for (i, term) in items(pods, REQUIRED).iter().enumerate() {
            pod_term(term, &path.child(REQUIRED).index(i), faults);
        }
        for (i, preferred) in items(pods, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(i);
            weight(preferred, &path, faults);
            pod_term(&preferred["podAffinityTerm"], &path.child("podAffinityTerm"), faults);
        }
    }
}

fn weight(preferred: &Value, path: &Path, faults: &mut Faults) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        faults.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

pub(in crate::registry::kinds) fn node_selector(selector: &Value, path: &Path, faults: &mut Faults) {
    let terms = items(selector, "nodeSelectorTerms");
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        faults.required(&path, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(term, true, &path.index(i), faults);
    }
}

/// What is only preferred may name values that no label can have.
fn node_term(term: &Value, strict: bool, path: &Path, faults: &mut Faults) {
    for (i, requirement) in items(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let values = items(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                faults.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.forbidden(&path.child("values"), why);
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                faults.required(&path.child("values"), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
        }
        let key = text(requirement, "key");
        faults.invalid_all(&path.child("key"), key, names::qualified(key));
        for (j, value) in values.iter().enumerate().filter(|_| strict) {
            let value = value.as_str().unwrap_or_default();
            faults.invalid_all(&path.child("values").index(j), value, names::label_value(value));
        }
    }
    for (i, requirement) in items(term, "matchFields").iter().enumerate() {
        node_field(requirement, &path.child("matchFields").index(i), faults);
    }
}

fn node_field(requirement: &Value, path: &Path, faults: &mut Faults) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                faults.required(&path.child("values"), why);
            }
        }
        other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        faults.invalid(&path.child("key"), key, "not a valid field selector key");
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        faults.invalid_all(&path.child("values").index(i), value, names::subdomain(value, false));
    }
}

fn pod_term(term: &Value, path: &Path, faults: &mut Faults) {
    selectors::label_selector(&term["labelSelector"], &path.child("labelSelector"), faults);
    selectors::label_selector(&term["namespaceSelector"], &path.child("namespaceSelector"), faults);
    // Upstream names the entries without their index.
    for namespace in items(term, "namespaces").iter().filter_map(Value::as_str) {
        faults.invalid_all(&path.child("namespace"), namespace, names::label(namespace, false));
    }
    label_keys(term, path, faults);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        faults.required(&path.child("topologyKey"), "can not be empty");
    }
    faults.invalid_all(&path.child("topologyKey"), key, names::qualified(key));
}

/// Keys whose values are taken from the pod itself. They have been merged into the selector when the pod was made, so a
/// key that stands there twice was named in both.
fn label_keys(term: &Value, path: &Path, faults: &mut Faults) {
    let selector = &term["labelSelector"];
    for key in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = path.child(key);
        if !items(term, key).is_empty() && selector.is_null() {
            faults.forbidden(&at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, label) in items(term, key).iter().enumerate() {
            let label = label.as_str().unwrap_or_default();
            faults.invalid_all(&at.index(i), label, names::qualified(label));
        }
    }
    let matched: Vec<&str> = items(term, "matchLabelKeys").iter().filter_map(Value::as_str).collect();
    let mut seen: HashSet<&str> = entries(&selector["matchLabels"]).map(|(key, _)| key.as_str()).collect();
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(i) = matched.iter().rposition(|own| *own == key).filter(|_| seen.contains(key)) {
            faults.invalid(&path.index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.insert(key);
    }
    let mismatched: HashSet<&str> = items(term, "mismatchLabelKeys").iter().filter_map(Value::as_str).collect();
    for (i, label) in matched.iter().enumerate().filter(|(_, label)| mismatched.contains(*label)) {
        let at = path.child("matchLabelKeys").index(i);
        faults.invalid(&at, *label, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// At birth the pod's own values of these keys become part of the selectors, so that schedulers need not look them up.
pub(in crate::registry::kinds) fn merge_label_keys(pod: &mut Object) {
    let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or(Value::Null);
    let spec = pod.at_mut(&["spec"]);
    let merge = |term: &mut Value| {
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys: Vec<String> = items(term, keys).iter().filter_map(|k| k.as_str().map(str::to_owned)).collect();
            let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
            for key in keys {
                let Some(value) = labels.get(&key) else { continue };
                let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
                if let Some(list) = expressions.as_array_mut() {
                    list.push(json!({"key": key, "operator": operator, "values": [value]}));
                }
            }
        }
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|a| a.get_mut(kind)) else { continue };
        items_mut(affinity, REQUIRED).iter_mut().for_each(merge);
        items_mut(affinity, PREFERRED).iter_mut().filter_map(|p| p.get_mut("podAffinityTerm")).for_each(merge);
    }
    items_mut(spec, "topologySpreadConstraints").iter_mut().for_each(merge);
}

/// Which taints a pod lives with.
pub(in crate::registry::kinds) fn tolerations(spec: &Value, path: &Path, faults: &mut Faults) {
    for (i, toleration) in items(spec, "tolerations").iter().enumerate() {
        let path = path.index(i);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            faults.invalid_all(&path.child("key"), key, names::qualified(key));
        }
        if key.is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            faults.invalid(&path.child("operator"), operator, why);
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.invalid(&path.child("effect"), effect, why);
        }
        let path_of_operator = path.child("operator");
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    faults.invalid(&path_of_operator, value, &wrong.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    faults.invalid(&path_of_operator, value, "value must be empty when `operator` is 'Exists'");
                }
            }
            // Comparing tolerations are behind a gate that is off (Kubernetes 1.36); its words name them all the same.
            "Lt" | "Gt" => faults.not_supported(&path_of_operator, operator, &["Equal", "Exists", "Lt", "Gt"]),
            other => faults.not_supported(&path_of_operator, other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(effect, true, &path.child("effect"), faults);
        }
    }
}

/// What holds the scheduler back.
pub(in crate::registry::kinds) fn gates(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        faults.invalid_all(&path.index(i), name, names::qualified(name));
        if !seen.insert(name) {
            faults.duplicate(&path.index(i), name);
        }
    }
}

/// How evenly pods are spread.
pub(in crate::registry::kinds) fn topology_spread(spec: &Value, path: &Path, faults: &mut Faults) {
    let all = items(spec, "topologySpreadConstraints");
    for (i, constraint) in all.iter().enumerate() {
        let path = path.index(i);
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            faults.invalid(&path.child("maxSkew"), skew, "must be greater than zero");
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            faults.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = text(constraint, "whenUnsatisfiable");
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            faults.not_supported(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let pair = |c: &Value| (text(c, "topologyKey") == key) && (text(c, "whenUnsatisfiable") == action);
        if all[i + 1..].iter().any(pair) {
            let shown = json!(format!("{{{key}, {action}}}"));
            faults.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), &shown);
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            if domains <= 0 {
                faults.invalid(&path.child("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                faults.invalid(&path.child("minDomains"), domains, &why);
            }
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint[key].as_str().filter(|policy| !matches!(*policy, "Honor" | "Ignore")) {
                faults.not_supported(&path.child(key), policy, &["Honor", "Ignore"]);
            }
        }
        label_keys(constraint, &path, faults);
        selectors::label_selector(&constraint["labelSelector"], &path.child("labelSelector"), faults);
    }
}

/// An effect of a taint, or of a toleration, where it may be empty.
pub(in crate::registry::kinds) fn taint_effect(effect: &str, may_be_empty: bool, path: &Path, faults: &mut Faults) {
    match effect {
        "" if may_be_empty => {}
        "" => faults.required(path, ""),
        NO_SCHEDULE | PREFER_NO_SCHEDULE | NO_EXECUTE => {}
        other => faults.not_supported(path, other, &[NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE]),
    }
}

/// Whether a pod may take the place of others; absent is not a fault.
pub(in crate::registry::kinds) fn preemption_policy(policy: Option<&Value>, path: &Path, faults: &mut Faults) {
    match policy.and_then(Value::as_str) {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => faults.required(path, ""),
        Some(other) => faults.not_supported(path, other, &["PreemptLowerPriority", "Never"]),
    }
}
