//! What may change of a pod once it is there.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::faults::{Faults, Path};
use super::fields::{has, items, items_mut, text};

const ONLY: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
    additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
    negative)\n";

/// Every fault of a change of the spec.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
    let path = Path::new("spec");
    if items(is, "containers").len() != items(was, "containers").len() {
        faults.forbidden(&path.child("containers"), "pod updates may not add or remove containers");
        return;
    }
    if items(is, "initContainers").len() != items(was, "initContainers").len() {
        faults.forbidden(&path.child("initContainers"), "pod updates may not add or remove containers");
        return;
    }
    deadline(is, was, &path.child("activeDeadlineSeconds"), faults);
    tolerations(is, was, &path.child("tolerations"), faults);
    gates(is, was, &path.child("schedulingGates"), faults);
    // What may change is made equal; whatever still differs may not.
    let mut munged = is.clone();
    for key in ["containers", "initContainers"] {
        let before: Vec<Value> = items(was, key).iter().map(|c| c["image"].clone()).collect();
        for (container, image) in items_mut(&mut munged, key).iter_mut().zip(before) {
            container["image"] = image;
        }
    }
    let mut kept = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    if grace(was).is_some_and(|g| g < 0) && grace(is) == Some(1) {
        kept.push("terminationGracePeriodSeconds");
    }
    // A pod that is gated may narrow down where it goes.
    if !items(was, "schedulingGates").is_empty() {
        if only_adds(&is["nodeSelector"], &was["nodeSelector"]) {
            kept.push("nodeSelector");
        }
        let narrowed = narrows(&is["affinity"]["nodeAffinity"], &was["affinity"]["nodeAffinity"]);
        if narrowed {
            set(&mut munged, "affinity", with_node_affinity(&is["affinity"], &was["affinity"]));
        }
    }
    for key in kept {
        set(&mut munged, key, was[key].clone());
    }
    if munged != *was {
        faults.forbidden(&path, &format!("{ONLY}{}", difference(&munged, was)));
    }
}

fn set(spec: &mut Value, key: &str, value: Value) {
    if let Some(map) = spec.as_object_mut() {
        match value {
            Value::Null => drop(map.remove(key)),
            value => drop(map.insert(key.to_owned(), value)),
        }
    }
}

/// The fields that differ, one a line.
fn difference(is: &Value, was: &Value) -> String {
    let keys: std::collections::BTreeSet<&String> =
        is.as_object().into_iter().chain(was.as_object()).flat_map(serde_json::Map::keys).collect();
    let lines = keys.into_iter().filter(|key| is[key.as_str()] != was[key.as_str()]);
    lines.map(|key| format!("- {key}: {}\n+ {key}: {}\n", was[key.as_str()], is[key.as_str()])).collect()
}

fn deadline(is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    let (is, was) = (is["activeDeadlineSeconds"].as_i64(), was["activeDeadlineSeconds"].as_i64());
    match (is, was) {
        (Some(is), _) if !(1..=i64::from(i32::MAX)).contains(&is) => {}
        (Some(is), Some(was)) if is > was => faults.invalid(path, is, "must be less than or equal to previous value"),
        (None, Some(_)) => {
            faults.invalid(path, &json!(null), "must not update from a positive integer to nil value");
        }
        _ => {}
    }
}

/// Tolerations may be added, and how long one stays may change.
fn tolerations(is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        set(&mut toleration, "tolerationSeconds", Value::Null);
        toleration
    };
    let now: Vec<Value> = items(is, "tolerations").iter().map(bare).collect();
    if !items(was, "tolerations").iter().map(bare).all(|old| now.contains(&old)) {
        faults.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn gates(is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    let before: Vec<&str> = items(was, "schedulingGates").iter().map(|g| text(g, "name")).collect();
    for (i, gate) in items(is, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !before.contains(&name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.forbidden(&path.index(i).child("name"), &why);
        }
    }
}

fn only_adds(is: &Value, was: &Value) -> bool {
    was.as_object().is_none_or(|was| was.iter().all(|(key, value)| is.get(key) == Some(value)))
}

/// Whether the required terms are those of before with more in each, or the first there are.
fn narrows(is: &Value, was: &Value) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if !has(was, REQUIRED) {
        return true;
    }
    let (now, before) = (items(&is[REQUIRED], "nodeSelectorTerms"), items(&was[REQUIRED], "nodeSelectorTerms"));
    now.len() == before.len()
        && now.iter().zip(before).all(|(now, before)| {
            ["matchExpressions", "matchFields"].iter().all(|key| {
                let (now, before) = (items(now, key), items(before, key));
                now.len() >= before.len() && now[..before.len()] == *before
            })
        })
}

/// The new affinity, with the node part of before.
fn with_node_affinity(is: &Value, was: &Value) -> Value {
    let mut affinity = is.clone();
    if !affinity.is_object() {
        affinity = json!({});
    }
    set(&mut affinity, "nodeAffinity", was["nodeAffinity"].clone());
    if was.is_null() && affinity.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { affinity }
}

/// Every fault of a change of the status.
pub(super) fn validate_status(new: &Object, old: &Object, faults: &mut Faults) {
    let path = Path::new("status");
    if new.at(&["spec"]) != old.at(&["spec"]) {
        faults.forbidden(&Path::new("spec"), "may not be changed by a status update");
    }
    let node = new.text(&["status", "nominatedNodeName"]);
    if !node.is_empty() {
        let wrong = super::names::subdomain(node, false);
        faults.invalid_all(&path.child("nominatedNodeName"), node, wrong);
    }
    let spec = new.at(&["spec"]).unwrap_or(&Value::Null);
    let (is, was) = (new.at(&["status"]).unwrap_or(&Value::Null), old.at(&["status"]).unwrap_or(&Value::Null));
    if text(spec, "restartPolicy") != "Always" {
        restarted(spec, is, was, &path, faults);
    }
}

/// A container that has ended for good does not come back.
fn restarted(spec: &Value, is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    let on_failure = text(spec, "restartPolicy") == "OnFailure";
    for (i, before) in items(was, "containerStatuses").iter().enumerate() {
        let ended = &before["state"]["terminated"];
        if ended.is_null() || (on_failure && ended["exitCode"].as_i64().unwrap_or(0) != 0) {
            continue;
        }
        let own = items(spec, "containers").iter().find(|c| text(c, "name") == text(before, "name"));
        if own.is_some_and(|c| has(c, "restartPolicy")) {
            continue;
        }
        let now = items(is, "containerStatuses").iter().find(|s| text(s, "name") == text(before, "name"));
        if now.is_some_and(|now| now["state"]["terminated"].is_null()) {
            let path = path.child("containerStatuses").index(i).child("state");
            faults.forbidden(&path, "may not be transitioned to non-terminated state");
        }
    }
}
