//! The resources of a running pod: what its containers may use is changed in place (the subresource `resize`,
//! Kubernetes 1.36).

use listwatch_proto::resource::Object;
use listwatch_proto::resource::requests::{CPU, MEMORY, PodResources};
use serde_json::{Map, Value, json};

use super::ephemeral::is_static;
use crate::registry::kinds::strategy::{keep, keep_metadata};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items, items_mut, text};

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Takes over from the old pod all but resources and how containers take a change of them. A pod whose containers are not
/// those of before is left as it is, for the rules to refuse.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    let was = old.at(&["spec"]).cloned().unwrap_or(Value::Null);
    let is = new.at(&["spec"]).cloned().unwrap_or(Value::Null);
    if LISTS.iter().any(|key| items(&is, key).len() != items(&was, key).len()) {
        return;
    }
    keep(new, old, &["spec", "status"]);
    keep_metadata(new, old);
    let spec = new.at_mut(&["spec"]);
    set(spec, "resources", &is["resources"]);
    for key in LISTS {
        let (now, before) = (items(&is, key), items(&was, key));
        if now.iter().zip(before).any(|(now, before)| text(now, "name") != text(before, "name")) {
            spec[key] = is[key].clone();
            continue;
        }
        for (container, now) in items_mut(spec, key).iter_mut().zip(now) {
            set(container, "resources", &now["resources"]);
            set(container, "resizePolicy", &now["resizePolicy"]);
        }
    }
}

fn set(value: &mut Value, key: &str, to: &Value) {
    if let Some(map) = value.as_object_mut() {
        match to {
            Value::Null => drop(map.remove(key)),
            to => drop(map.insert(key.to_owned(), to.clone())),
        }
    }
}

/// Every fault of a change of resources, beside those of the pod as it comes out.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    for (refused, why) in [
        (is_static(old), "static pods cannot be resized"),
        (old.text(&["spec", "os", "name"]) == "windows", "windows pods cannot be resized"),
    ] {
        if refused {
            *faults = Faults::new();
            faults.forbidden(&Path::new(""), why);
            return;
        }
    }
    let path = Path::new("spec");
    let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
    let class = old.text(&["status", "qosClass"]);
    let before = if class.is_empty() { qos_class(was) } else { class };
    if before != qos_class(is) {
        let shown = new.text(&["status", "qosClass"]);
        faults.invalid(&path, shown, "Pod QOS Class may not change as a result of resizing");
    }
    let status = old.at(&["status"]).unwrap_or(&Value::Null);
    if !can_resize(status) {
        faults.forbidden(&path, "Pod running on node without support for resize");
    }
    let told = faults.len();
    let mut masked = is.clone();
    of_pod(is, was, &mut masked, &path, faults);
    if !items(status, "nodeAllocatableResourceClaimStatuses").is_empty() {
        faults.forbidden(&path, "pods with node allocatable resource claims cannot be resized");
    }
    let in_order = faults.len();
    LISTS.iter().for_each(|key| order(is, was, key, &path, faults));
    if faults.len() != in_order {
        return;
    }
    for key in ["initContainers", "containers"] {
        for (i, (now, before)) in items(is, key).iter().zip(items(was, key)).enumerate() {
            let path = path.child(key).index(i).child("resources");
            removed(&now["resources"], &before["resources"], &path, ["resource requests", "resource limits"], faults);
        }
    }
    containers(&mut masked, was, &path, faults);
    if faults.len() == told && told == 0 && bare(&masked) != bare(was) {
        faults.forbidden(&path, "only cpu and memory resources are mutable");
    }
}

fn qos_class(spec: &Value) -> &'static str {
    PodResources::of_spec(spec).unwrap_or_default().qos_class().as_str()
}

/// Whether the node can do it; as long as nothing runs nobody knows, and it is taken for granted.
fn can_resize(status: &Value) -> bool {
    let running = items(status, "containerStatuses").iter().find(|own| !own["state"]["running"].is_null());
    running.is_none_or(|own| !own["resources"].is_null())
}

/// The resources of the pod as a whole; what may change is made equal in `masked`.
fn of_pod(is: &Value, was: &Value, masked: &mut Value, path: &Path, faults: &mut Faults) {
    let is_set = |spec: &Value| {
        ["requests", "limits"].iter().any(|key| spec["resources"][key].as_object().is_some_and(|map| !map.is_empty()))
    };
    if !is_set(is) && !is_set(was) {
        return;
    }
    let at = path.child("resources");
    if !was["resources"].is_null() && is["resources"].is_null() {
        faults.forbidden(&at, "pod-level resources cannot be removed");
        return;
    }
    if !was["resources"].is_null() {
        let words = ["pod-level resource requests", "pod-level resource limits"];
        removed(&is["resources"], &was["resources"], &at, words, faults);
    }
    mask(&mut masked["resources"], &was["resources"], true);
    if bare(&masked["resources"]) != bare(&was["resources"]) {
        faults.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// What was asked for may become more or less, and not nothing.
fn removed(is: &Value, was: &Value, path: &Path, words: [&str; 2], faults: &mut Faults) {
    for (key, what) in ["requests", "limits"].iter().zip(words) {
        let mut names = was[key].as_object().into_iter().flat_map(Map::keys);
        if names.any(|name| is[key].get(name).is_none()) {
            faults.forbidden(&path.child(key), &format!("{what} cannot be removed"));
        }
    }
}

fn order(is: &Value, was: &Value, key: &str, path: &Path, faults: &mut Faults) {
    let path = path.child(key);
    let (now, before) = (items(is, key), items(was, key));
    if now.len() != before.len() {
        faults.forbidden(&path, &format!("{key} may not be added or removed on resize"));
        return;
    }
    for (i, (now, before)) in now.iter().zip(before).enumerate() {
        if text(now, "name") != text(before, "name") {
            let why = format!("{key} may not be renamed or reordered on resize");
            faults.forbidden(&path.index(i).child("name"), &why);
        }
    }
}

/// What may change of the containers is made equal; whatever still differs may not.
fn containers(masked: &mut Value, was: &Value, path: &Path, faults: &mut Faults) {
    for (container, before) in items_mut(masked, "containers").iter_mut().zip(items(was, "containers")) {
        mask(&mut container["resources"], &before["resources"], false);
        if bare(container) != bare(before) {
            faults.forbidden(path, "only cpu and memory resources are mutable");
        }
    }
    let of_start = items_mut(masked, "initContainers").iter_mut().zip(items(was, "initContainers"));
    for (i, (container, before)) in of_start.enumerate() {
        let path = path.child("initContainers").index(i);
        let is_changed = bare(container) != bare(before);
        mask(&mut container["resources"], &before["resources"], false);
        if bare(container) != bare(before) {
            faults.forbidden(&path, "only cpu and memory resources for init or sidecar containers are mutable");
        }
        if !is_changed || text(container, "restartPolicy") == "Always" {
            continue;
        }
        for policy in items(container, "resizePolicy") {
            if text(policy, "restartPolicy") == "RestartContainer" {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                faults.forbidden(&path, why);
            }
        }
    }
}

/// Gives resources the processor and memory of before. Of a container, claims are not looked at, as upstream.
fn mask(resources: &mut Value, before: &Value, with_claims: bool) {
    if resources.is_null() && before.is_null() {
        return;
    }
    if !resources.is_object() {
        *resources = json!({});
    }
    for key in ["requests", "limits"] {
        for name in [CPU, MEMORY] {
            let list = &mut resources[key];
            if let Some(map) = list.as_object_mut() {
                map.remove(name);
            }
            if let Some(amount) = before[key].get(name) {
                list[name] = amount.clone();
            }
        }
    }
    if !with_claims && let Some(map) = resources.as_object_mut() {
        map.remove("claims");
    }
}

/// A value without what is empty: absent and empty are the same.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().map(|(key, value)| (key.clone(), bare(value))).filter(|(_, value)| !is_empty(value));
            Value::Object(kept.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(bare).collect()),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::strategy::PodStrategy;
    use super::*;
    use crate::registry::kinds::strategy::{Part, Strategy};

    fn pod(resources: &Value) -> Object {
        let mut pod = Object::from_value(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "n", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}, {"name": "d", "image": "i", "resources": {}}],
                "initContainers": [{"name": "i", "image": "i", "resources": {}}]},
            "status": {"phase": "Running"},
        }))
        .expect("a map");
        PodStrategy.default(&mut pod);
        let class = qos_class(pod.at(&["spec"]).expect("a spec"));
        pod.set(&["status", "qosClass"], class);
        pod
    }

    fn told(mut new: Object, old: &Object) -> Vec<String> {
        let rules = PodStrategy;
        rules.prepare_update(Part::Resize, &mut new, old);
        let mut faults = Faults::new();
        rules.validate_update(Part::Resize, &new, old, &mut faults);
        faults.told()
    }

    #[test]
    fn processor_and_memory_change_and_nothing_else() {
        let old = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        let mut new = pod(&json!({"requests": {"cpu": "2", "memory": "2Gi"}}));
        new.at_mut(&["spec", "containers"])[0]["image"] = json!("other");
        new.set(&["metadata", "labels", "a"], "b");
        let mut prepared = new.clone();
        prepare(&mut prepared, &old);
        let containers = prepared.at(&["spec", "containers"]).expect("there");
        assert_eq!(containers[0]["image"], "i");
        assert_eq!(containers[0]["resources"]["requests"]["cpu"], "2");
        assert_eq!(prepared.at(&["metadata"]), old.at(&["metadata"]));
        assert_eq!(told(new, &old), [""; 0]);
        assert_eq!(
            told(pod(&json!({"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}})), &old),
            ["spec: Forbidden: only cpu and memory resources are mutable"]
        );
    }

    #[test]
    fn a_class_stays_and_nothing_that_was_asked_for_goes() {
        let old = pod(&json!({}));
        assert_eq!(
            told(pod(&json!({"requests": {"cpu": "1"}})), &old),
            ["spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing"]
        );
        let old = pod(&json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
        assert_eq!(
            told(pod(&json!({"requests": {"cpu": "1"}})), &old),
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]
        );
    }

    #[test]
    fn containers_keep_their_places() {
        let old = pod(&json!({"requests": {"cpu": "1"}}));
        let mut swapped = old.clone();
        swapped.at_mut(&["spec", "containers"]).as_array_mut().expect("a list").swap(0, 1);
        assert_eq!(
            told(swapped, &old),
            [
                "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
                "spec.containers[1].name: Forbidden: containers may not be renamed or reordered on resize",
            ]
        );
        let mut fewer = old.clone();
        fewer.at_mut(&["spec", "containers"]).as_array_mut().expect("a list").pop();
        assert!(
            told(fewer, &old)
                .contains(&"spec.containers: Forbidden: containers may not be added or removed on resize".to_owned())
        );
    }

    #[test]
    fn a_node_that_tells_no_resources_cannot_do_it() {
        let mut old = pod(&json!({"requests": {"cpu": "1"}}));
        old.set(&["status", "containerStatuses"], json!([{"name": "c", "state": {"running": {}}}]));
        let mut new = old.clone();
        new.at_mut(&["spec", "containers"])[0]["resources"]["requests"]["cpu"] = json!("2");
        assert_eq!(told(new.clone(), &old), ["spec: Forbidden: Pod running on node without support for resize"]);
        old.set(&["spec", "os"], json!({"name": "windows"}));
        assert_eq!(told(new.clone(), &old), [": Forbidden: windows pods cannot be resized"]);
        old.set(&["metadata", "annotations", super::super::ephemeral::MIRROR], "x");
        assert_eq!(told(new, &old), [": Forbidden: static pods cannot be resized"]);
    }
}
