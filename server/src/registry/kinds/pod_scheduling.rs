//! The rules of what a pod says to the scheduler: affinity, tolerations, spreading, gates.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::faults::{Faults, Path};
use super::fields::{has, items, text};
use super::node::taint_effect;
use super::pod_spec::entries;
use super::{names, workload};

/// Node and pod affinity.
pub(super) fn affinity(affinity: &Value, path: &Path, faults: &mut Faults) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = &affinity["nodeAffinity"];
    if node.is_object() {
        let path = path.child("nodeAffinity");
        if has(node, REQUIRED) {
            node_selector(&node[REQUIRED], &path.child(REQUIRED), faults);
        }
        for (i, preferred) in items(node, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(i);
            weight(preferred, &path, faults);
            node_term(&preferred["preference"], &path.child("preference"), faults);
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

fn node_selector(selector: &Value, path: &Path, faults: &mut Faults) {
    let terms = items(selector, "nodeSelectorTerms");
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        faults.required(&path, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(term, &path.index(i), faults);
    }
}

fn node_term(term: &Value, path: &Path, faults: &mut Faults) {
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
        for (j, value) in values.iter().enumerate() {
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
    workload::label_selector(&term["labelSelector"], &path.child("labelSelector"), faults);
    workload::label_selector(&term["namespaceSelector"], &path.child("namespaceSelector"), faults);
    for (i, namespace) in items(term, "namespaces").iter().enumerate() {
        let namespace = namespace.as_str().unwrap_or_default();
        faults.invalid_all(&path.child("namespaces").index(i), namespace, names::label(namespace, false));
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        faults.required(&path.child("topologyKey"), "can not be empty");
    } else {
        faults.invalid_all(&path.child("topologyKey"), key, names::qualified(key));
    }
    match_label_keys(term, path, faults);
}

fn match_label_keys(term: &Value, path: &Path, faults: &mut Faults) {
    let mismatched: HashSet<&str> = items(term, "mismatchLabelKeys").iter().filter_map(Value::as_str).collect();
    for key in ["matchLabelKeys", "mismatchLabelKeys"] {
        for (i, label) in items(term, key).iter().enumerate() {
            let label = label.as_str().unwrap_or_default();
            let path = path.child(key).index(i);
            faults.invalid_all(&path, label, names::qualified(label));
            if term["labelSelector"].is_null() {
                faults.forbidden(&path, "must not be specified when labelSelector is not set");
            }
            if key == "matchLabelKeys" && mismatched.contains(label) {
                faults.invalid(&path, label, "exists in both matchLabelKeys and mismatchLabelKeys");
            }
        }
    }
}

/// Which taints a pod lives with.
pub(super) fn tolerations(spec: &Value, path: &Path, faults: &mut Faults) {
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
            "" | "Equal" => faults.invalid_all(&path_of_operator, value, names::label_value(value)),
            "Exists" => {
                if !value.is_empty() {
                    faults.invalid(&path_of_operator, value, "value must be empty when `operator` is 'Exists'");
                }
            }
            // Comparing tolerations are behind a gate that is off (Kubernetes 1.36); its words name them all the same.
            "Lt" | "Gt" => faults.not_supported(&path_of_operator, operator, &["Equal", "Exists", "Lt", "Gt"]),
            other => faults.not_supported(&path_of_operator, other, &["Equal", "Exists"]),
        }
        taint_effect(effect, true, &path.child("effect"), faults);
    }
}

/// What holds the scheduler back.
pub(super) fn gates(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        faults.invalid_all(&path.index(i).child("name"), name, names::qualified(name));
        if !seen.insert(name) {
            faults.duplicate(&path.index(i), name);
        }
    }
}

/// How evenly pods are spread.
pub(super) fn topology_spread(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for (i, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
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
        if !seen.insert((key, action)) {
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
            let policy = text(constraint, key);
            if !matches!(policy, "" | "Honor" | "Ignore") {
                faults.not_supported(&path.child(key), policy, &["Honor", "Ignore"]);
            }
        }
        spread_keys(constraint, &path, faults);
        workload::label_selector(&constraint["labelSelector"], &path.child("labelSelector"), faults);
    }
}

fn spread_keys(constraint: &Value, path: &Path, faults: &mut Faults) {
    let selector = &constraint["labelSelector"];
    for (i, key) in items(constraint, "matchLabelKeys").iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        let at = path.index(i);
        faults.invalid_all(&at, key, names::qualified(key));
        if selector.is_null() {
            faults.forbidden(&path.child("matchLabelKeys"), "must not be specified when labelSelector is not set");
        } else if entries(&selector["matchLabels"]).any(|(label, _)| label == key)
            || items(selector, "matchExpressions").iter().any(|e| text(e, "key") == key)
        {
            faults.invalid(&at, key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}
