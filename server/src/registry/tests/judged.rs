//! Thousands of small changes of whole objects, judged as the code of Kubernetes 1.36.3 judges them.
//!
//! The data and its origin are told in `tests/data/README.md`. Each group has an object that is created (or updated, or
//! whose status is written) and what becomes of it; each case changes one place of that object, and the answer must be the
//! same list of faults, or the same object.

use std::collections::BTreeMap;

use super::*;
use crate::registry::FieldValidation;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kubernetes-judgements.json");

/// What differs on purpose: mode, group, place, the value that is set there, and why.
const INTENDED: &[(&str, &str, &str, &str, &str)] = &[
    ("create", "deployment", LABELS, "{}", EMPTY),
    ("create", "deployment-min", LABELS, "{}", EMPTY),
    ("create", "replicaset", LABELS, "{}", EMPTY),
    ("update", "deployment", LABELS, "{}", EMPTY),
    ("update", "deployment-min", LABELS, "{}", EMPTY),
    ("update", "replicaset", LABELS, "{}", EMPTY),
    ("create", "node", r#"["status","allocatable"]"#, "{}", EMPTY),
    ("update", "node", r#"["status","allocatable"]"#, "{}", EMPTY),
    ("status", "node-status", r#"["status","allocatable"]"#, "{}", EMPTY),
    ("update", "pod-schedule", r#"["spec","nodeSelector"]"#, "{}", EMPTY),
    ("update", "pod-security", SELINUX, "", GATE),
];
const LABELS: &str = r#"["spec","template","metadata","labels"]"#;
const SELINUX: &str = r#"["spec","securityContext","seLinuxChangePolicy"]"#;
const EMPTY: &str = "an empty map is the same as none here: both are stored alike, and a message shows both as null";
const GATE: &str = "a word whose gate is off is not offered here, also not by the message for an update";

/// How many judgements there are, and how many are equal: the counts never fall.
const CASES: usize = 5626;
const EQUAL: usize = 5616;

/// A registry in which the group's object is, if it must be.
struct Judge {
    registry: Registry,
    target: Target,
    updates: bool,
}

impl Judge {
    async fn of(group: &Value) -> Self {
        // What a pod costs beside its containers was judged without a class that says so.
        let bed = bed_without(&[AdmissionPlugin::RuntimeClass]);
        bed.create(&Target::collection(kind("namespace"), ""), &json!({"metadata": {"name": "ns"}})).await.expect("ns");
        let (mode, kind) = (group["mode"].as_str().expect("a mode"), kind(group["kind"].as_str().expect("a kind")));
        let namespace = if kind.namespaced { "ns" } else { "" };
        let mut target = Target::collection(kind, namespace);
        if mode != "create" {
            let made = group.get("made").unwrap_or(&group["object"]);
            let made = made.to_string();
            let options = WriteOptions { field_validation: FieldValidation::Ignore, ..WriteOptions::default() };
            let written = bed.registry.create(&me(), &target, made.as_bytes(), &options).await;
            target = Target::object(kind, namespace, written.expect("the object to be updated").object.name());
        }
        let judge = Self { registry: bed.registry, target, updates: mode != "create" };
        if mode == "status" {
            let target = judge.target.clone().with_subresource("status");
            let judge = Self { target, ..judge };
            judge.write(&group["object"], false).await.expect("the status before");
            return judge;
        }
        judge
    }

    async fn write(&self, object: &Value, dry_run: bool) -> Result<crate::registry::Written, Status> {
        let options = WriteOptions { dry_run, field_validation: FieldValidation::Ignore, ..WriteOptions::default() };
        if !self.updates {
            return self.registry.create(&me(), &self.target, object.to_string().as_bytes(), &options).await;
        }
        let mut object = object.clone();
        if self.target.kind.kind == "Lease" && object["metadata"].is_object() {
            let plain = Target { subresource: String::new(), ..self.target.clone() };
            let now = self.registry.get(&me(), &plain, 0).await.expect("there");
            object["metadata"]["resourceVersion"] = json!(now.revision().to_string());
        }
        self.registry.update(&me(), &self.target, object.to_string().as_bytes(), &options).await
    }

    /// The answer in the terms that are compared: the faults in order, another refusal, or the object as stored.
    async fn judge(&self, object: &Value) -> Value {
        match self.write(object, true).await {
            Ok(written) => {
                let mut value = written.object.object().clone();
                let born = value.creation_timestamp().to_owned();
                let conditions = value.0.get_mut("status").and_then(|status| status.get_mut("conditions"));
                for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
                    if condition["lastTransitionTime"] == born {
                        condition["lastTransitionTime"] = json!("<now>");
                    }
                }
                for key in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
                    value.remove(&["metadata", key]);
                }
                json!({"taken": value.into_value(), "warnings": written.warnings})
            }
            Err(status) if status.reason != Reason::Invalid => json!({"refused": status.message}),
            Err(status) => {
                let causes = status.causes.into_iter();
                sorted(causes.map(|c| [c.reason, c.field, c.message]).collect())
            }
        }
    }
}

/// The value at a path, which is made as far as it is missing.
fn place<'a>(value: &'a mut Value, path: &[Value]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        Value::String(key) => &mut value[key.as_str()],
        step => &mut value[usize::try_from(step.as_u64().expect("an index")).expect("small")],
    })
}

fn without(value: &mut Value, path: &[Value]) {
    let (last, steps) = path.split_last().expect("a path");
    match (place(value, steps), last) {
        (Value::Object(map), Value::String(key)) => drop(map.remove(key)),
        (Value::Array(list), index) => {
            drop(list.remove(usize::try_from(index.as_u64().expect("an index")).expect("small")))
        }
        (other, _) => panic!("{other} has no part {last}"),
    }
}

fn changed(object: &Value, case: &Value) -> Value {
    let mut object = object.clone();
    let path = case["at"].as_array().expect("a path");
    match case["do"].as_str().expect("what to do") {
        "-" => without(&mut object, path),
        "+" => {
            let list = place(&mut object, path).as_array_mut().expect("a list");
            list.push(list[0].clone());
        }
        _ => *place(&mut object, path) = case["to"].clone(),
    }
    object
}

/// Faults in order: upstream tells those of maps in any.
fn sorted(mut faults: Vec<[String; 3]>) -> Value {
    const CHANGED: &str = "if it was previously negative)\n";
    for [_, _, message] in &mut faults {
        // What follows is a picture of the difference, which upstream draws differently each time.
        if let Some(at) = message.find(CHANGED) {
            message.truncate(at + CHANGED.len());
        }
    }
    faults.sort_unstable();
    json!({"faults": faults})
}

fn expected(group: &Value, case: &Value) -> Value {
    if case["causes"].is_array() {
        return sorted(serde_json::from_value(case["causes"].clone()).expect("three texts each"));
    }
    if case["message"].is_string() {
        return json!({"refused": case["message"]});
    }
    let mut answer = group["answer"].clone();
    for change in case["changed"].as_array().into_iter().flatten() {
        let path = change[0].as_array().expect("a path");
        match change.get(1) {
            None => without(&mut answer, path),
            Some(value) => *place(&mut answer, path) = value.clone(),
        }
    }
    let warnings = case.get("warnings").unwrap_or(&group["warnings"]);
    json!({"taken": answer, "warnings": warnings.as_array().cloned().unwrap_or_default()})
}

fn differs_on_purpose(group: &Value, case: &Value) -> bool {
    let (place, value) = (case["at"].to_string(), case["to"].to_string());
    INTENDED.iter().any(|(mode, name, at, to, _)| {
        group["mode"] == *mode && group["name"] == *name && place == *at && (to.is_empty() || value == *to)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_field_is_judged_as_kubernetes_judges_it() {
    let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(DATA).expect("the data")).expect("JSON");
    let (mut equal, mut intended, mut wrong) = (0, 0, BTreeMap::new());
    for group in &groups {
        let judge = Judge::of(group).await;
        for case in group["cases"].as_array().expect("cases") {
            let object = changed(&group["object"], case);
            let (answer, wanted) = (judge.judge(&object).await, expected(group, case));
            let (name, at) = (group["name"].as_str().expect("a name"), case["at"].to_string());
            if answer == wanted {
                equal += 1;
            } else if differs_on_purpose(group, case) {
                intended += 1;
            } else {
                let head = format!("{} {name} {at} {} {}", group["mode"], case["do"], case["to"]);
                wrong.insert(head, format!("{answer}\n  instead of\n    {wanted}"));
            }
        }
    }
    let total = equal + intended + wrong.len();
    let told: Vec<String> = wrong.iter().map(|(head, why)| format!("{head}:\n    {why}")).collect();
    assert!(told.is_empty(), "{} of {total} differ:\n{}", told.len(), told.join("\n"));
    assert_eq!((total, equal), (CASES, EQUAL), "another number of judgements, or of equal ones");
    let row = format!("| API: single fields, judged | {total} | {equal} | {intended} |");
    assert!(recorded::CONFORMANCE.lines().any(|line| line == row), "docs/conformance.md has no line {row:?}");
}
