//! Priority classes and what they do to pods.

use super::*;

fn classes() -> Target {
    Target::collection(kind("priorityclass"), "")
}

fn class(name: &str, value: i64, more: &[(&str, Value)]) -> Value {
    let mut class = json!({"metadata": {"name": name}, "value": value});
    for (key, value) in more {
        class[*key] = value.clone();
    }
    class
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    for (key, value) in spec.as_object().expect("a map") {
        pod["spec"][key] = value.clone();
    }
    pod
}

async fn priority(bed: &Bed, name: &str, spec: Value) -> Result<(i64, String, String), String> {
    let pod = bed.create(&pods(), &pod(name, spec)).await.map_err(|status| status.message)?;
    let pod = pod.object();
    let text = |key: &str| pod.text(&["spec", key]).to_owned();
    Ok((pod.int(&["spec", "priority"]).expect("set"), text("priorityClassName"), text("preemptionPolicy")))
}

#[tokio::test]
async fn a_pod_takes_its_priority_from_its_class() {
    let bed = bed();
    bed.create(&classes(), &class("high", 1000, &[("preemptionPolicy", json!("Never"))])).await.expect("a class");
    let told = |value: i64, class: &str, policy: &str| Ok((value, class.to_owned(), policy.to_owned()));
    assert_eq!(priority(&bed, "a", json!({})).await, told(0, "", "PreemptLowerPriority"));
    assert_eq!(priority(&bed, "b", json!({"priorityClassName": "high"})).await, told(1000, "high", "Never"));
    let critical = json!({"priorityClassName": "system-node-critical", "priority": 2_000_001_000});
    assert_eq!(
        priority(&bed, "c", critical).await,
        told(2_000_001_000, "system-node-critical", "PreemptLowerPriority")
    );
    for (spec, why) in [
        (json!({"priorityClassName": "low"}), "no PriorityClass with name low was found"),
        (
            json!({"priority": 5}),
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 \
             from the given PriorityClass name",
        ),
        (
            json!({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}),
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority \
             admission controller computed Never from the given PriorityClass name",
        ),
    ] {
        assert_eq!(priority(&bed, "d", spec).await, Err(format!("pods \"d\" is forbidden: {why}")));
    }
}

#[tokio::test]
async fn one_class_at_most_is_the_default() {
    let bed = bed();
    let default = [("globalDefault", json!(true))];
    bed.create(&classes(), &class("usual", 7, &default)).await.expect("a class");
    assert_eq!(priority(&bed, "a", json!({})).await, Ok((7, "usual".to_owned(), "PreemptLowerPriority".to_owned())));
    let why = "PriorityClass usual is already marked as default. Only one default can exist";
    let second = bed.create(&classes(), &class("other", 8, &default)).await.expect_err("a second default");
    assert_eq!(second.message, format!("priorityclasses.scheduling.k8s.io \"other\" is forbidden: {why}"));
    bed.create(&classes(), &class("other", 8, &[])).await.expect("a class");
    let other = Target::object(kind("priorityclass"), "", "other");
    let second = bed.merge(&other, json!({"globalDefault": true})).await.expect_err("a second default");
    assert_eq!(second.reason, Reason::Forbidden);
    let usual = Target::object(kind("priorityclass"), "", "usual");
    bed.merge(&usual, json!({"description": "x"})).await.expect("the default itself may change");
    let changed = bed.merge(&usual, json!({"value": 9})).await.expect_err("a value stays");
    assert_eq!(changed.causes[0].message, "Forbidden: may not be changed in an update.");
}

#[tokio::test]
async fn the_built_in_classes_stay() {
    let bed = bed();
    let page = bed.registry.list(&me(), &classes(), &ListOptions::default()).await.expect("a list");
    assert_eq!(names(&page.items), ["system-cluster-critical", "system-node-critical"]);
    let target = Target::object(kind("priorityclass"), "", "system-node-critical");
    let refused = bed.registry.delete(&me(), &target, &DeleteOptions::default()).await.expect_err("it stays");
    assert!(refused.message.ends_with("this is a system priority class and cannot be deleted"), "{}", refused.message);
}
