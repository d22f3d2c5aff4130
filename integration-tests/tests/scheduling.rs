//! Scheduling over a real server, scheduler and server each a process of its own, the test in the kubelets' place: where
//! pods land, what they are told while they wait, how soon they are placed when what held them up goes, and that kills and
//! stops of schedulers bind nothing twice and overload no node.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use integration_tests::{Process, eventually};
use listwatch_components::client::{Api, Client, DeleteParams, ListParams, Patch, load_kubeconfig};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

/// Within this time everything is done, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Within this time a pod is placed once it can be; far below every back-off and timer that could hide a lost event.
const SOON: Duration = Duration::from_secs(2);

/// A server and a scheduler.
struct Plane {
    folder: tempfile::TempDir,
    _server: Process,
    scheduler: Process,
    pods: Api<Object>,
    nodes: Api<Object>,
    events: Api<Object>,
    classes: Api<Object>,
}

fn kind(name: &str) -> &'static Kind {
    Kind::by_name(name).expect("a served kind")
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn scheduler(folder: &tempfile::TempDir, name: &str, flags: &[&str]) -> anyhow::Result<Process> {
    let kubeconfig = folder.path().join("data/kubeconfig").to_string_lossy().into_owned();
    let mut args = vec!["scheduler", "--kubeconfig", &kubeconfig];
    args.extend(flags);
    Process::start(name, folder.path(), &args)
}

/// A slot of its own, so that a scheduler that is killed is followed at once.
fn slot(folder: &tempfile::TempDir) -> Vec<String> {
    let lock: PathBuf = folder.path().join("scheduler.lock");
    let lock = lock.to_string_lossy().into_owned();
    ["--leader-elect-identity", "scheduler", "--slot-lock", &lock].map(str::to_owned).to_vec()
}

impl Plane {
    fn start(flags: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data").to_string_lossy().into_owned();
        // No controllers run here that would make service accounts.
        let alone = ["--disable-admission-plugins", "ServiceAccount"];
        let any = ["--listen-client-urls", "http://127.0.0.1:0", "--secure-port", "0"];
        let server =
            Process::start("server", folder.path(), &[&["server", "--data-dir", &data][..], &any, &alone].concat())?;
        let client = Client::new(&load_kubeconfig(&folder.path().join("data/kubeconfig"), None)?.config)?;
        let slot = slot(&folder);
        let flags: Vec<&str> =
            if flags.is_empty() { slot.iter().map(String::as_str).collect() } else { flags.to_vec() };
        let scheduler = scheduler(&folder, "scheduler", &flags)?;
        let api = |name: &str| Api::<Object>::of_kind(&client, kind(name));
        let (pods, nodes, events) = (api("pods"), api("nodes"), api("events"));
        let classes = api("priorityclasses");
        Ok(Plane { folder, _server: server, scheduler, pods, nodes, events, classes })
    }

    /// A ready node, of 4 cpu unless said otherwise. Nobody looks after it, so what is given at creation stays.
    async fn node(&self, name: &str, labels: Value, allocatable: Value) -> anyhow::Result<()> {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        self.nodes.create(&object(node)).await?;
        let mut amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        for (name, amount) in allocatable.as_object().into_iter().flatten() {
            amounts[name] = amount.clone();
        }
        let status = json!({"status": {"capacity": amounts, "allocatable": amounts}});
        self.nodes.patch_status(&ObjectKey::new("", name), &Patch::Merge(status)).await?;
        // The server taints a new node as not ready; in a cluster the node's kubelet and the node controller undo that.
        self.edit(name, json!({"spec": {"taints": null}})).await
    }

    async fn edit(&self, node: &str, patch: Value) -> anyhow::Result<()> {
        self.nodes.patch(&ObjectKey::new("", node), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn taint(&self, node: &str, taint: Option<(&str, &str)>) -> anyhow::Result<()> {
        let taints: Vec<_> =
            taint.iter().map(|(key, effect)| json!({"key": key, "value": "1", "effect": effect})).collect();
        self.edit(node, json!({"spec": {"taints": taints}})).await
    }

    async fn pod(&self, name: &str, cpu: &str, mut spec: Value) -> anyhow::Result<()> {
        if spec["containers"].is_null() {
            spec["containers"] = json!([{"name": "c", "image": "web:1"}]);
        }
        spec["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        let metadata = json!({"namespace": "default", "name": name});
        self.pods
            .create(&object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})))
            .await?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.pods.delete(&key(name), &DeleteParams::any().grace(0)).await?;
        Ok(())
    }

    /// The node that the pod was given, within a time.
    async fn placed_within(&self, limit: Duration, name: &str) -> String {
        eventually(limit, &format!("{name} has a node"), || async {
            let pod = self.pods.get(&key(name)).await.map_err(|e| e.to_string())?;
            let node = pod.object.text(&["spec", "nodeName"]).to_owned();
            if node.is_empty() { Err(format!("{:?}", pod.object.condition("PodScheduled"))) } else { Ok(node) }
        })
        .await
    }

    async fn placed(&self, name: &str) -> String {
        self.placed_within(LIMIT, name).await
    }

    /// What a pod without a node is told: the same in its condition and in an Event.
    async fn told(&self, name: &str, message: &str) {
        eventually(LIMIT, message, || async {
            let pod = self.pods.get(&key(name)).await.map_err(|e| e.to_string())?;
            let condition = pod.object.condition("PodScheduled").cloned().unwrap_or_default();
            let expected =
                json!({"status": "False", "reason": "Unschedulable", "message": message, "observedGeneration": 1});
            let says = expected.as_object().into_iter().flatten().all(|(field, value)| condition[field] == *value);
            if !says || !pod.object.text(&["spec", "nodeName"]).is_empty() {
                return Err(format!("{condition} {}", pod.object.text(&["spec", "nodeName"])));
            }
            let events = self.events.list(&ListParams::in_namespace("default")).await.map_err(|e| e.to_string())?;
            let told = events.items.iter().any(|event| {
                let text = |path: &[&str]| event.object.text(path).to_owned();
                text(&["involvedObject", "name"]) == name
                    && text(&["reason"]) == "FailedScheduling"
                    && text(&["type"]) == "Warning"
                    && text(&["message"]) == message
            });
            if told { Ok(()) } else { Err("no Event says so".to_owned()) }
        })
        .await;
    }

    /// Where each of several single pods lands, each alone.
    async fn ten_alone(&self, cpu: &str, spec: &Value) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for at in 0..10 {
            let name = format!("single{at}");
            self.pod(&name, cpu, spec.clone()).await?;
            *counts.entry(self.placed(&name).await).or_insert(0) += 1;
            self.delete(&name).await?;
        }
        Ok(counts)
    }

    /// How many pods each node has.
    async fn load(&self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut load = BTreeMap::new();
        for pod in self.pods.list(&ListParams::in_namespace("default")).await?.items {
            *load.entry(pod.object.text(&["spec", "nodeName"]).to_owned()).or_insert(0) += 1;
        }
        Ok(load)
    }
}

/// The tail of a message when no eviction could help on any of two nodes.
const NOT_HELPFUL: &str =
    " no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";

#[tokio::test(flavor = "multi_thread")]
async fn labels_decide_where_a_pod_may_go_and_only_when_it_is_placed() -> anyhow::Result<()> {
    let plane = Plane::start(&[])?;
    plane.node("node01", json!({"qqq": "1", "gen": "6", "kgc": "a"}), Value::Null).await?;
    plane.node("node02", json!({"qqq": "2", "gen": "x"}), Value::Null).await?;
    // All pairs of the selector must match.
    for at in 0..3 {
        let name = format!("two{at}");
        plane.pod(&name, "100m", json!({"nodeSelector": {"qqq": "2"}})).await?;
        assert_eq!(plane.placed(&name).await, "node02");
    }
    plane.pod("three", "100m", json!({"nodeSelector": {"qqq": "3"}})).await?;
    let message = format!("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.{NOT_HELPFUL}");
    plane.told("three", &message).await;
    plane.edit("node01", json!({"metadata": {"labels": {"qqq": "3"}}})).await?;
    assert_eq!(plane.placed_within(SOON, "three").await, "node01");

    // The operators, each by the nodes that it lets in.
    let terms = |terms: Value| {
        json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let one = |key: &str, operator: &str, values: Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
    let cases = [
        (one("kgc", "In", json!(["a", "b"])), "node01"),
        (one("kgc", "NotIn", json!(["a"])), "node02"),
        (one("kgc", "Exists", json!([])), "node01"),
        (one("kgc", "DoesNotExist", json!([])), "node02"),
        (one("gen", "Gt", json!(["5"])), "node01"),
        (one("gen", "Lt", json!(["7"])), "node01"),
        (json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node02"]}]}]), "node02"),
        (
            json!([{"matchExpressions": [{"key": "none", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "qqq", "operator": "In", "values": ["2"]}]}]),
            "node02",
        ),
    ];
    for (at, (rules, node)) in cases.into_iter().enumerate() {
        let name = format!("rule{at}");
        plane.pod(&name, "100m", terms(rules.clone())).await?;
        assert_eq!(plane.placed(&name).await, node, "{rules}");
    }
    plane.pod("both", "100m", terms(one("gen", "Gt", json!(["6"])))).await?;
    plane.told("both", &message).await;

    // A node that no longer matches keeps its pods; a new pod does not come.
    plane.edit("node01", json!({"metadata": {"labels": {"qqq": "9"}}})).await?;
    plane.pod("again", "100m", json!({"nodeSelector": {"qqq": "3"}})).await?;
    plane.told("again", &message).await;
    assert_eq!(plane.placed("three").await, "node01");
    plane.delete("three").await?;
    plane.pod("three", "100m", json!({"nodeSelector": {"qqq": "3"}})).await?;
    plane.told("three", &message).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wishes_decide_among_nodes_and_never_stand_in_the_way() -> anyhow::Result<()> {
    let plane = Plane::start(&[])?;
    plane.node("node01", json!({"kgc": "a"}), Value::Null).await?;
    plane.node("node02", json!({"kgc": "b"}), Value::Null).await?;
    let prefers = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "kgc", "operator": "In", "values": ["b"]}]}}]}}});
    assert_eq!(plane.ten_alone("100m", &prefers).await?, BTreeMap::from([("node02".to_owned(), 10)]));
    plane.pod("full", "3900m", json!({"nodeSelector": {"kgc": "b"}})).await?;
    assert_eq!(plane.placed("full").await, "node02");
    assert_eq!(plane.ten_alone("200m", &prefers).await?, BTreeMap::from([("node01".to_owned(), 10)]));
    plane.delete("full").await?;

    // A PreferNoSchedule taint is avoided as long as there is another place.
    plane.taint("node01", Some(("s", "PreferNoSchedule"))).await?;
    assert_eq!(plane.ten_alone("100m", &json!({})).await?, BTreeMap::from([("node02".to_owned(), 10)]));
    plane.pod("full", "3900m", json!({"nodeSelector": {"kgc": "b"}})).await?;
    assert_eq!(plane.placed("full").await, "node02");
    assert_eq!(plane.ten_alone("200m", &json!({})).await?, BTreeMap::from([("node01".to_owned(), 10)]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn taints_keep_new_pods_away_until_they_go() -> anyhow::Result<()> {
    let plane = Plane::start(&[])?;
    plane.node("node01", json!({}), Value::Null).await?;
    plane.node("node02", json!({}), Value::Null).await?;
    plane.pod("old", "100m", json!({"nodeSelector": {"kubernetes.io/hostname": "node01"}})).await?;
    plane.edit("node01", json!({"metadata": {"labels": {"kubernetes.io/hostname": "node01"}}})).await?;
    assert_eq!(plane.placed_within(SOON, "old").await, "node01");
    plane.taint("node01", Some(("qqq", "NoSchedule"))).await?;
    for at in 0..5 {
        let name = format!("new{at}");
        plane.pod(&name, "100m", json!({})).await?;
        assert_eq!(plane.placed(&name).await, "node02");
    }
    let tolerates = json!({"tolerations": [{"key": "qqq", "operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "node01"}});
    plane.pod("tolerant", "100m", tolerates).await?;
    assert_eq!(plane.placed("tolerant").await, "node01");
    plane.taint("node02", Some(("other", "NoExecute"))).await?;
    plane.pod("waits", "100m", json!({})).await?;
    plane.told("waits", &format!("0/2 nodes are available: 2 node(s) had untolerated taint(s).{NOT_HELPFUL}")).await;
    // A cordon speaks before a taint.
    plane.edit("node02", json!({"spec": {"unschedulable": true}})).await?;
    plane.pod("more", "100m", json!({})).await?;
    let both = format!(
        "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.{NOT_HELPFUL}"
    );
    plane.told("more", &both).await;
    plane.taint("node01", None).await?;
    assert_eq!(plane.placed_within(SOON, "waits").await, "node01");
    assert_eq!(plane.placed_within(SOON, "more").await, "node01");
    assert_eq!(plane.placed("old").await, "node01");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_is_waited_for() -> anyhow::Result<()> {
    let plane = Plane::start(&[])?;
    plane.node("node01", json!({}), Value::Null).await?;
    // Ports of the node.
    let port =
        json!({"containers": [{"name": "c", "image": "web:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
    plane.pod("holder", "100m", port.clone()).await?;
    assert_eq!(plane.placed("holder").await, "node01");
    plane.pod("next", "100m", port).await?;
    plane
        .told(
            "next",
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new claims to \
        deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        )
        .await;
    plane.delete("holder").await?;
    plane.placed_within(SOON, "next").await;
    // Room.
    plane.pod("large", "3", json!({})).await?;
    plane.placed("large").await;
    plane.pod("larger", "3500m", json!({})).await?;
    plane
        .told(
            "larger",
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are \
        available: 1 No preemption victims found for incoming pod.",
        )
        .await;
    plane.delete("large").await?;
    plane.placed_within(SOON, "larger").await;
    // A gate: no Event, and the API server's words.
    plane.pod("gated", "100m", json!({"schedulingGates": [{"name": "example.com/g"}]})).await?;
    let condition = plane.pods.get(&key("gated")).await?.object.condition("PodScheduled").cloned().unwrap_or_default();
    assert_eq!((&condition["reason"], &condition["status"]), (&json!("SchedulingGated"), &json!("False")));
    // Only a pod of a later try shows that the scheduler has passed the gated one by.
    plane.pod("later", "100m", json!({})).await?;
    plane.placed("later").await;
    assert!(plane.pods.get(&key("gated")).await?.object.text(&["spec", "nodeName"]).is_empty());
    plane.pods.patch(&key("gated"), &Patch::Merge(json!({"spec": {"schedulingGates": null}}))).await?;
    plane.placed_within(SOON, "gated").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_more_important_pod_takes_the_place_of_another() -> anyhow::Result<()> {
    let plane = Plane::start(&[])?;
    plane.node("node01", json!({}), Value::Null).await?;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
        "value": 1000});
    plane.classes.create(&object(class)).await?;
    plane.pod("low", "3", json!({})).await?;
    assert_eq!(plane.placed("low").await, "node01");
    plane.pod("high", "3", json!({"priorityClassName": "high"})).await?;
    plane.told("high", "0/1 nodes are available: 1 Insufficient cpu.").await;
    let uid = plane.pods.get(&key("high")).await?.uid.to_string();
    let preempted = format!("Preempted by pod {uid} on node node01");
    eventually(LIMIT, "low is told to go, and high promised its place", || async {
        let low = plane.pods.get(&key("low")).await.map_err(|e| e.to_string())?.object;
        let condition = low.condition("DisruptionTarget").cloned().unwrap_or_default();
        let high = plane.pods.get(&key("high")).await.map_err(|e| e.to_string())?.object;
        let events = plane.events.list(&ListParams::in_namespace("default")).await.map_err(|e| e.to_string())?;
        let told = events.items.iter().any(|event| event.object.text(&["message"]) == preempted);
        let reason = (&condition["reason"], &condition["message"]);
        let expected = "default-scheduler: preempting to accommodate a higher priority pod";
        let done = low.is_terminating()
            && reason == (&json!("PreemptionByScheduler"), &json!(expected))
            && high.text(&["status", "nominatedNodeName"]) == "node01"
            && told;
        if done { Ok(()) } else { Err(format!("{condition} {:?} {told}", high.at(&["status"]))) }
    })
    .await;
    // The kubelet's part: it has ended.
    plane.delete("low").await?;
    assert_eq!(plane.placed_within(SOON, "high").await, "node01");
    let high = plane.pods.get(&key("high")).await?.object;
    assert_eq!(high.text(&["status", "nominatedNodeName"]), "", "the promise is kept");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_again_and_again_binds_each_pod_once_and_overloads_no_node() -> anyhow::Result<()> {
    let mut plane = Plane::start(&[])?;
    // Exactly as much room as the pods need: a pod that is counted twice, or not at all, leaves one without a place.
    for at in 0..10 {
        plane.node(&format!("node{at}"), json!({}), json!({"cpu": "2"})).await?;
    }
    for round in 0..5 {
        for at in 0..40 {
            plane.pod(&format!("p{round}-{at}"), "100m", json!({})).await?;
            if at == 20 + round * 3 {
                // In the middle of its work.
                plane.scheduler.kill();
                let slot = slot(&plane.folder);
                let flags: Vec<_> = slot.iter().map(String::as_str).collect();
                plane.scheduler = scheduler(&plane.folder, "scheduler", &flags)?;
            }
        }
    }
    for round in 0..5 {
        for at in 0..40 {
            plane.placed(&format!("p{round}-{at}")).await;
        }
    }
    let load = plane.load().await?;
    assert!(load.len() == 10 && load.values().all(|pods| *pods == 20), "{load:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_binds_nothing_when_it_wakes() -> anyhow::Result<()> {
    let short = |identity: &'static str| {
        vec![
            "--leader-elect-identity",
            identity,
            "--leader-elect-lease-duration",
            "3s",
            "--leader-elect-renew-deadline",
            "2s",
            "--leader-elect-retry-period",
            "500ms",
        ]
    };
    let plane = Plane::start(&short("first"))?;
    for at in 0..5 {
        plane.node(&format!("node{at}"), json!({}), json!({"cpu": "2"})).await?;
    }
    plane.pod("warm", "1m", json!({})).await?;
    plane.placed("warm").await;
    plane.delete("warm").await?;
    // It has work at hand when it is stopped; the other takes that work over, and the room is just enough.
    plane.scheduler.pause();
    for at in 0..100 {
        plane.pod(&format!("p{at}"), "100m", json!({})).await?;
    }
    let began = Instant::now();
    let _second = scheduler(&plane.folder, "second", &short("second"))?;
    plane.placed("p99").await;
    assert!(began.elapsed() > Duration::from_secs(1), "the second did not wait for the lease of the first");
    plane.scheduler.resume();
    for at in 0..100 {
        plane.placed(&format!("p{at}")).await;
    }
    let load = plane.load().await?;
    assert!(load.len() == 5 && load.values().all(|pods| *pods == 20), "{load:?}");
    Ok(())
}
