//! The ephemeral containers of a pod: what somebody who looks into a running pod adds to it, and never takes back
//! (the subresource `ephemeralcontainers`, Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{keep, keep_metadata};
use crate::registry::kinds::vocabulary::difference;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};

/// A pod that a kubelet read from a file carries this annotation.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Takes over from the old pod all but the ephemeral containers.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    let own = new.remove(&["spec", "ephemeralContainers"]);
    keep(new, old, &["spec", "status"]);
    keep_metadata(new, old);
    match own {
        Some(own) => new.set(&["spec", "ephemeralContainers"], own),
        None => drop(new.remove(&["spec", "ephemeralContainers"])),
    }
}

/// Every fault of a change of the ephemeral containers.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    if is_static(old) {
        *faults = Faults::new();
        faults.forbidden(&Path::new(""), "static pods do not support ephemeral containers");
        return;
    }
    let path = Path::new("spec.ephemeralContainers");
    let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
    for before in items(was, "ephemeralContainers") {
        let name = text(before, "name");
        // Of several of one name the last counts.
        match items(is, "ephemeralContainers").iter().rev().find(|now| text(now, "name") == name) {
            None => {
                let why = format!("existing ephemeral containers {} may not be removed\n", quote(&name));
                faults.forbidden(&path, &why);
            }
            Some(now) if now != before => {
                let difference = difference::unified(before, now);
                let why = format!(
                    "existing ephemeral containers {name} may not be changed\n{difference}",
                    name = quote(&name)
                );
                faults.forbidden(&path, &why);
            }
            Some(_) => {}
        }
    }
}

/// Whether a pod was read from a file by its kubelet, so that the API only mirrors it.
pub(super) fn is_static(pod: &Object) -> bool {
    pod.at(&["metadata", "annotations"]).is_some_and(|annotations| has(annotations, MIRROR))
}

#[cfg(test)]
mod tests {
    use super::super::strategy::PodStrategy;
    use super::*;
    use crate::registry::kinds::strategy::{Part, Strategy};
    use serde_json::json;

    fn pod(ephemeral: &Value) -> Object {
        let mut pod = Object::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "x", "namespace": "n", "uid": "u", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "ephemeralContainers": ephemeral},
            "status": {"phase": "Running", "qosClass": "BestEffort"},
        }))
        .expect("a map");
        PodStrategy.default(&mut pod);
        pod
    }

    fn told(new: &Value, old: &Value) -> Vec<String> {
        let (mut new, old) = (pod(new), pod(old));
        let rules = PodStrategy;
        rules.prepare_update(Part::EphemeralContainers, &mut new, &old);
        let mut faults = Faults::new();
        rules.validate_update(Part::EphemeralContainers, &new, &old, &mut faults);
        faults.told()
    }

    #[test]
    fn one_is_added_and_none_is_changed_or_removed() {
        let (one, two) =
            (json!({"name": "e", "image": "i"}), json!({"name": "f", "image": "i", "targetContainerName": "c"}));
        assert_eq!(told(&json!([one, two]), &json!([one])), [""; 0]);
        assert_eq!(
            told(&json!([two]), &json!([one])),
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"]
        );
        let changed = told(&json!([{"name": "e", "image": "other"}]), &json!([one]));
        assert!(changed[0].contains("existing ephemeral containers \"e\" may not be changed\n@@ "), "{changed:?}");
        assert_eq!(changed.len(), 1);
    }

    #[test]
    fn it_has_a_name_of_its_own_and_no_duties() {
        let wrong = json!([
            {"name": "c", "image": "i"},
            {"name": "e", "image": "i", "targetContainerName": "e", "ports": [{"containerPort": 1}],
                "resources": {"limits": {"cpu": "1"}}, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
        ]);
        assert_eq!(
            told(&wrong, &json!([])),
            [
                "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
                "spec.ephemeralContainers[1].targetContainerName: Not found: \"e\"",
                "spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[1].resources: Forbidden: cannot be set for an Ephemeral Container",
                "spec.ephemeralContainers[1].lifecycle: Forbidden: cannot be set for an Ephemeral Container",
            ]
        );
    }

    #[test]
    fn nothing_else_of_the_pod_changes_with_them() {
        let (mut new, old) = (pod(&json!([{"name": "e", "image": "i"}])), pod(&json!([])));
        new.set(&["metadata", "labels", "a"], "other");
        new.set(&["spec", "nodeName"], "elsewhere");
        prepare(&mut new, &old);
        assert_eq!(new.at(&["metadata"]), old.at(&["metadata"]));
        assert_eq!(new.at(&["spec", "nodeName"]), None);
        assert_eq!(new.at(&["spec", "ephemeralContainers"]).and_then(Value::as_array).map(Vec::len), Some(1));
    }

    #[test]
    fn a_pod_of_a_file_takes_none() {
        let (mut new, mut old) = (pod(&json!([{"name": "e", "image": "i"}])), pod(&json!([])));
        old.set(&["metadata", "annotations", MIRROR], "x");
        prepare(&mut new, &old);
        let mut faults = Faults::new();
        validate(&new, &old, &mut faults);
        let causes = faults.into_causes();
        assert_eq!(causes[0].message, "Forbidden: static pods do not support ephemeral containers");
    }
}
