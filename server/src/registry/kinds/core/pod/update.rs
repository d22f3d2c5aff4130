//! What may change of a pod once it is there.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::difference;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, items_mut, text};

const ONLY: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
    additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously \
    negative)\n";

/// Every fault of a change of the spec.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
    let path = Path::new("spec");
    for key in ["containers", "initContainers"] {
        let at = path.child(key);
        if items(is, key).len() != items(was, key).len() {
            faults.forbidden(&at, "pod updates may not add or remove containers");
            return;
        }
        for (i, container) in items(is, key).iter().enumerate() {
            let image = text(container, "image");
            let at = at.index(i).child("image");
            if image.is_empty() {
                faults.required(&at, "");
            }
            if image.trim() != image {
                faults.invalid(&at, image, "must not have leading or trailing whitespace");
            }
        }
    }
    if !deadline(is, was, &path.child("activeDeadlineSeconds"), faults) {
        return;
    }
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
        if !only_adds(&is["nodeSelector"], &was["nodeSelector"]) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            faults.invalid(&path.child("nodeSelector"), &is["nodeSelector"], why);
        }
        kept.push("nodeSelector");
        let at = path.child("affinity").child("nodeAffinity");
        narrows(&is["affinity"]["nodeAffinity"], &was["affinity"]["nodeAffinity"], &at, faults);
        if is["affinity"]["nodeAffinity"] != was["affinity"]["nodeAffinity"] {
            set(&mut munged, "affinity", with_node_affinity(&is["affinity"], &was["affinity"]));
        }
    }
    for key in kept {
        set(&mut munged, key, was[key].clone());
    }
    if munged != *was {
        faults.forbidden(&path, &format!("{ONLY}{}", difference::unified(was, &munged)));
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

/// Whether the rest is still worth a look.
fn deadline(is: &Value, was: &Value, path: &Path, faults: &mut Faults) -> bool {
    let (is, was) = (is["activeDeadlineSeconds"].as_i64(), was["activeDeadlineSeconds"].as_i64());
    match (is, was) {
        (Some(is), _) if !(0..=i64::from(i32::MAX)).contains(&is) => {
            faults.invalid(path, is, "must be between 0 and 2147483647, inclusive");
            return false;
        }
        (Some(is), Some(was)) if is > was => {
            faults.invalid(path, is, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            faults.invalid(path, &json!(null), "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    true
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
        return;
    }
    // They have been judged with the whole spec; upstream tells their faults again.
    template::scheduling::tolerations(is, path, faults);
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

/// The required terms must be those of before with more in each, or the first there are.
fn narrows(is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if !has(was, REQUIRED) {
        return;
    }
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    let (now, before) = (items(&is[REQUIRED], "nodeSelectorTerms"), items(&was[REQUIRED], "nodeSelectorTerms"));
    if !before.is_empty() && now.len() != before.len() {
        let shown: Vec<_> = now.iter().map(shown_term).collect();
        let shown = if is[REQUIRED].is_null() { "null".to_owned() } else { format!("[{}]", shown.join(",")) };
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        faults.invalid(&path, Shown(shown), why);
        return;
    }
    for (i, (now, before)) in now.iter().zip(before).enumerate() {
        let adds = ["matchExpressions", "matchFields"].iter().all(|key| {
            let (now, before) = (items(now, key), items(before, key));
            now.len() >= before.len() && now[..before.len()] == *before
        });
        if !adds {
            let why = "only additions are allowed (no mutations or deletions)";
            faults.invalid(&path.index(i), Shown(shown_term(now)), why);
        }
    }
}

/// A term as Go prints its internal struct.
fn shown_term(term: &Value) -> String {
    let list = |key: &str| match term[key].as_array() {
        None => "null".to_owned(),
        Some(list) => {
            let one = |r: &Value| {
                format!("{{\"Key\":{},\"Operator\":{},\"Values\":{}}}", r["key"], r["operator"], r["values"])
            };
            format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(","))
        }
    };
    format!("{{\"MatchExpressions\":{},\"MatchFields\":{}}}", list("matchExpressions"), list("matchFields"))
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
