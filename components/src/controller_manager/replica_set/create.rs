//! The pods that a set makes: their names, their content, and how many at once.
//!
//! Invariant: at most [`IN_FLIGHT_MAX`] creates are on their way to the server at any time, over all sets. Whatever is
//! killed or stopped, no more pods than that can appear which the next leader did not see when it made its plan.

use listwatch_proto::resource::Object;
use rand::Rng;
use serde_json::json;

use crate::controller_manager::ownership::controller_reference;

/// Creates on their way at the same time. A leader that dies or is stopped leaves as many behind at most; they may be
/// carried out after its successor has counted. Sixteen at a time
/// still make thousands a second.
pub const IN_FLIGHT_MAX: usize = 16;
/// What generated names are made of: no vowels, so no words; no digits that look like letters.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Random characters at the end of a generated name.
const NAME_SUFFIX: usize = 5;
/// The longest beginning of a generated name.
const NAME_BASE_MAX: usize = 58;

/// The sizes of the batches in which so many pods are made: 1, 2, 4, 8, 16, 16, … (Kubernetes 1.36, `slowStartBatch`,
/// but for the cap). The first batch that is not good ends it, so that a set whose pods are refused asks once a try, not
/// five hundred times, and one Event says so. Beginning with more would save a set of three one way to the server, about
/// a millisecond of the 150 that it may take until they run.
pub fn batches(count: usize) -> impl Iterator<Item = usize> {
    let (mut left, mut size) = (count, 1);
    std::iter::from_fn(move || {
        let batch = size.min(left);
        left -= batch;
        size = (size * 2).min(IN_FLIGHT_MAX);
        (batch > 0).then_some(batch)
    })
}

/// A fresh name for a pod of a set. It is chosen here, not by the server, so that a create can be repeated.
pub fn new_name(set: &Object) -> String {
    let mut random = rand::rng();
    let suffix = (0..NAME_SUFFIX).map(|_| char::from(NAME_ALPHABET[random.random_range(0..NAME_ALPHABET.len())]));
    name_base(set).chars().chain(suffix).collect()
}

fn name_base(set: &Object) -> String {
    format!("{}-", set.name()).chars().take(NAME_BASE_MAX).collect()
}

/// A pod of a set under this name.
pub fn pod_of(set: &Object, name: &str) -> Object {
    let template = set.at(&["spec", "template"]).cloned().unwrap_or_else(|| json!({}));
    let mut metadata = json!({
        "namespace": set.namespace(),
        "name": name,
        "generateName": name_base(set),
        "ownerReferences": [controller_reference(set)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        let value = &template["metadata"][field];
        if !value.is_null() {
            metadata[field] = value.clone();
        }
    }
    let mut pod = Object::default();
    pod.set(&["apiVersion"], "v1");
    pod.set(&["kind"], "Pod");
    pod.set(&["metadata"], metadata);
    pod.set(&["spec"], template["spec"].clone());
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_begin_with_one_and_double_up_to_what_may_be_on_its_way() {
        let check = |count, expected: &[usize]| assert_eq!(batches(count).collect::<Vec<_>>(), expected, "{count}");
        check(0, &[]);
        check(1, &[1]);
        check(3, &[1, 2]);
        check(10, &[1, 2, 4, 3]);
        check(50, &[1, 2, 4, 8, 16, 16, 3]);
        assert_eq!(batches(500).sum::<usize>(), 500);
    }

    #[test]
    fn a_pod_is_made_of_the_template_alone() {
        let mut set = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web-5d", "namespace": "shop", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                                  "spec": {"containers": [{"name": "c", "future": 1}]}}}}))
        .expect("an object");
        let pod = pod_of(&set, &new_name(&set));
        assert!(pod.name().starts_with("web-5d-") && pod.name().len() == "web-5d-".len() + NAME_SUFFIX);
        assert_eq!((pod.namespace(), pod.label("app")), ("shop", Some("web")));
        assert_eq!(pod.text(&["metadata", "generateName"]), "web-5d-");
        assert_eq!(pod.at(&["spec", "containers"]), Some(&json!([{"name": "c", "future": 1}])));
        assert_eq!(pod.controller().map(|o| (o.uid, o.block_owner_deletion)), Some(("u".into(), Some(true))));
        set.set(&["metadata", "name"], "x".repeat(63));
        assert_eq!(new_name(&set).len(), 63);
    }
}
