//! The scheduling cycle against answers recorded from the real kube-scheduler 1.36.3: verdicts, messages, the set of best
//! nodes and each plugin's score on each node.
//!
//! The data holds every recorded case; [`needs`] tells by content which of them need something that is not built yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use listwatch_components::scheduler::framework::{Nomination, Profile};
use listwatch_components::scheduler::{Algorithm, Budget, Cache, Node, Pod, Scores, Snapshot};
use listwatch_proto::resource::LabelSelector;
use serde_json::{Value, json};

/// How many cases the data holds; a case that is lost must not go unnoticed.
const CASES: usize = 486;
/// How many of them need nothing but what is built.
const REPLAYED: usize = 268;

/// What is told of this test.
const CONFORMANCE: &str = include_str!("../../docs/conformance.md");

/// What a pod is told while those who make room for it are still going.
const WAITS: &str =
    "no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.";

struct Recorded {
    data: Value,
}

impl Recorded {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/scheduler_cases.json");
        let text = std::fs::read_to_string(path).expect("the recorded cases");
        Recorded { data: serde_json::from_str(&text).expect("JSON") }
    }

    fn class<'a>(&'a self, list: &str, name: &Value) -> Option<&'a Value> {
        self.data[list].as_array().expect("classes").iter().find(|class| class["name"] == *name)
    }

    /// The pod as the API server would have stored it: classes resolved, a container put in where none is given.
    fn pod(&self, given: &Value) -> Pod {
        let mut spec = given["spec"].clone();
        if spec["containers"].is_null() {
            spec["containers"] = json!([{"name": "c", "image": "registry.k8s.io/pause:3.10"}]);
        }
        if let Some(class) = self.class("priorityClasses", &spec["priorityClassName"]) {
            spec["priority"] = class["value"].clone();
            spec["preemptionPolicy"] =
                class.get("preemptionPolicy").cloned().unwrap_or_else(|| "PreemptLowerPriority".into());
        }
        if let Some(class) = self.class("runtimeClasses", &spec["runtimeClassName"]) {
            spec["overhead"] = class["overhead"]["podFixed"].clone();
        }
        let mut metadata =
            json!({"namespace": given["ns"], "name": given["name"], "uid": given["name"], "labels": given["labels"]});
        if given["terminating"] == true {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let phase = given.get("phase").cloned().unwrap_or_else(|| "Running".into());
        let status = json!({"phase": phase, "startTime": given["startTime"]});
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        Pod::from_json(pod.to_string().as_bytes()).expect("a pod")
    }
}

fn node(given: &Value) -> Node {
    let node = json!({
        "metadata": {"name": given["name"], "labels": given["labels"]},
        "spec": {"unschedulable": given["unschedulable"] == true, "taints": given["taints"]},
        "status": {"allocatable": given["allocatable"], "images": given["images"]}
    });
    Node::from_json(node.to_string().as_bytes()).expect("a node")
}

fn budget(given: &Value) -> Budget {
    let number = |name: &str| given[name].as_i64().expect("a number");
    let selector = LabelSelector::from_json(&json!({"matchLabels": given["selector"]})).expect("a selector");
    Budget {
        namespace: given["ns"].as_str().expect("a namespace").to_owned(),
        selector,
        allowed: (number("healthy") - number("minAvailable")).max(0),
        disrupted: std::collections::HashSet::new(),
    }
}

/// Compares who has to go and from where, lets them go and looks where the pod lands. `Err` holds what came instead.
fn check_preemption(
    profile: &Profile,
    algorithm: &mut Algorithm,
    cache: &mut Cache,
    pod: &Pod,
    nomination: &Nomination,
    golden: &Value,
) -> Result<(), String> {
    let Nomination::Node { node, victims } = nomination else {
        return if golden["nominated"].is_null() { Ok(()) } else { Err(format!("{nomination:?}")) };
    };
    let mut names: Vec<String> = victims.iter().map(|v| v.key.to_string()).collect();
    names.sort();
    if golden["nominated"] != **node || golden["victims"] != json!(names) {
        return Err(format!("{node} {names:?}"));
    }
    cache.nominate(Arc::new(pod.clone()), node);
    let mut nodes = Snapshot::default();
    // Another snapshot than that of the caller: a node that comes and goes makes it complete.
    let rearrange = |cache: &mut Cache| {
        cache.set_node(Arc::new(Node { name: Arc::from("(another)"), ..Node::default() }));
        cache.remove_node("(another)");
    };
    // As long as one of them is still going, nobody else is told to go.
    let last = victims.last().expect("somebody has to go");
    for victim in victims {
        cache.remove_pod(&victim.key);
    }
    cache.set_pod(Arc::new(Pod { terminating: true, preempted: true, ..Pod::clone(last) }));
    rearrange(cache);
    cache.refresh(&mut nodes);
    match algorithm.schedule(profile, &nodes, pod) {
        Ok(placement) => return Err(format!("placed on {} while victims are going", placement.node)),
        Err(waits) if waits.nomination != Nomination::Keep || !waits.message().ends_with(WAITS) => {
            return Err(waits.message());
        }
        Err(_) => {}
    }
    cache.remove_pod(&last.key);
    cache.refresh(&mut nodes);
    rearrange(cache);
    match algorithm.schedule(profile, &nodes, pod) {
        Ok(placement) if golden["node"] == *placement.node => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// The names of the nodes with the best total.
fn best(nodes: &Snapshot, scores: &Scores) -> BTreeSet<String> {
    let top = scores.totals.iter().max();
    let places = scores.places.iter().zip(&scores.totals).filter(|(_, total)| Some(*total) == top);
    places.map(|(place, _)| nodes.node(*place).object().name.to_string()).collect()
}

/// The scores as they were recorded: by node and plugin, zeros left out.
fn table(nodes: &Snapshot, scores: &Scores) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut table = BTreeMap::new();
    for (at, place) in scores.places.iter().enumerate() {
        let mut row: BTreeMap<String, i64> = scores
            .plugins
            .iter()
            .map(|(plugin, of)| ((*plugin).to_owned(), of[at]))
            .filter(|cell| cell.1 != 0)
            .collect();
        row.insert("total".into(), scores.totals[at]);
        table.insert(nodes.node(*place).object().name.to_string(), row);
    }
    table
}

/// Schedules the incoming pods one after another and compares each step with what was recorded.
fn check(recorded: &Recorded, case: &Value) -> Result<(), String> {
    let (profile, mut algorithm, mut cache) = (Profile::standard(), Algorithm::new(0, 1), Cache::default());
    let mut nodes = Snapshot::default();
    for given in case["nodes"].as_array().expect("nodes") {
        cache.set_node(Arc::new(node(given)));
    }
    cache.set_budgets(case["pdbs"].as_array().into_iter().flatten().map(budget).collect());
    for pod in case["placed"].as_array().expect("placed pods").iter().map(|p| recorded.pod(p)) {
        if pod.is_placed() {
            cache.set_pod(Arc::new(pod));
        }
    }
    let mut golden = &case["golden"];
    for (step, given) in case["incoming"].as_array().expect("incoming pods").iter().enumerate() {
        let mut pod = recorded.pod(given);
        cache.refresh(&mut nodes);
        let differs = |what: &str, expected: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
            Err(format!("step {step}: {what}\n   recorded {expected:?}\n   got      {got:?}"))
        };
        // The API server tells of gates, the scheduler leaves such a pod alone until they are gone.
        let told_gated = golden["reason"] == "SchedulingGated" || golden["gated"] == true;
        if profile.may_be_tried(&pod) == told_gated {
            return differs("whether it may be tried", golden, &!told_gated);
        }
        if golden["reason"] == "SchedulingGated" {
            return Ok(());
        }
        if told_gated {
            let mut open = given.clone();
            open["spec"]["schedulingGates"] = Value::Null;
            pod = recorded.pod(&open);
        }
        let chosen = match algorithm.schedule(&profile, &nodes, &pod) {
            Err(diagnosis) => {
                if golden["reason"] != "Unschedulable" || golden["message"] != diagnosis.message() {
                    return differs("message", golden, &diagnosis.message());
                }
                if let Err(got) =
                    check_preemption(&profile, &mut algorithm, &mut cache, &pod, &diagnosis.nomination, golden)
                {
                    return differs("preemption", golden, &got);
                }
                String::new()
            }
            Ok(placement) => {
                let expected: BTreeSet<String> = golden["nodes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|n| n.as_str().map(Into::into))
                    .collect();
                let scored = !placement.scores.totals.is_empty();
                let got =
                    if scored { best(&nodes, &placement.scores) } else { BTreeSet::from([placement.node.to_string()]) };
                if got != expected || !got.contains(&*placement.node) {
                    return differs("nodes", golden, &(got, &placement));
                }
                if scored == golden["scores"].is_null() {
                    return differs("whether nodes were scored", golden, &placement);
                }
                let table = json!(table(&nodes, &placement.scores));
                if scored && golden["scores"] != table {
                    return differs("scores", &golden["scores"], &table);
                }
                let then = golden["then"].as_object();
                let chosen = then.and_then(|t| t.keys().next()).cloned().unwrap_or_else(|| placement.node.to_string());
                cache.assume(Arc::new(pod.placed_on(&chosen)));
                chosen
            }
        };
        golden = &golden["then"][&chosen];
    }
    Ok(())
}

/// What the answer to a case needs beyond what is built.
fn needs(case: &Value) -> BTreeSet<&'static str> {
    let mut needs = BTreeSet::new();
    let list = |name: &str| case[name].as_array().cloned().unwrap_or_default();
    for pod in list("placed").iter().chain(&list("incoming")) {
        let (affinity, spread) = (&pod["spec"]["affinity"], &pod["spec"]["topologySpreadConstraints"]);
        if affinity["podAffinity"].is_object() || affinity["podAntiAffinity"].is_object() {
            needs.insert("pod affinity");
        }
        // A pod that a Service selects is spread by default.
        if spread.is_array() || !list("services").is_empty() {
            needs.insert("topology spread");
        }
    }
    let mut steps = vec![&case["golden"]];
    while let Some(step) = steps.pop() {
        for (plugin, _) in
            step["scores"].as_object().into_iter().flatten().flat_map(|(_, row)| row.as_object()).flatten()
        {
            match plugin.as_str() {
                "InterPodAffinity" => drop(needs.insert("pod affinity")),
                "PodTopologySpread" => drop(needs.insert("topology spread")),
                _ => {}
            }
        }
        steps.extend(step["then"].as_object().into_iter().flat_map(|then| then.values()));
    }
    needs
}

#[test]
fn every_recorded_case_of_what_is_built_is_answered_the_same() {
    let recorded = Recorded::read();
    let cases = recorded.data["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), CASES);
    let (mut faults, mut replayed) = (Vec::new(), 0);
    for case in cases.iter().filter(|case| needs(case).is_empty()) {
        replayed += 1;
        if let Err(fault) = check(&recorded, case) {
            faults.push(format!("{} {}: {fault}", case["id"], case["feature"]));
        }
    }
    assert!(faults.is_empty(), "{} of {replayed} cases differ:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(replayed, REPLAYED);
    let row = format!("| Scheduler | {replayed} | {replayed} | 0 |");
    assert!(CONFORMANCE.lines().any(|line| line == row), "docs/conformance.md has no line {row:?}");
}
