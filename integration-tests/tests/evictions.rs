//! Pods that must leave their node: taints of every sort on a cluster of real kubelets, and a node that falls silent.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use integration_tests::{Cluster, Objects, cluster::LIMIT, eventually};
use listwatch_components::client::{ListParams, Patch, WatchEvent, WatchParams};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Object, ObjectKey, time};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

struct Bed {
    cluster: Cluster,
    objects: Objects,
}

impl Bed {
    fn start(env: &[(&str, &str)]) -> anyhow::Result<Self> {
        let cluster = Cluster::start_with(&[], env)?;
        let objects = Objects::of(&cluster.data_dir().join("kubeconfig"))?;
        Ok(Bed { cluster, objects })
    }

    async fn pod(&self, name: &str) -> Option<Object> {
        self.objects.api("pods").get_opt(&key(name)).await.expect("the server answers").map(|cached| cached.object)
    }

    async fn pods(&self) -> Result<Vec<Object>, String> {
        let list =
            self.objects.api("pods").list(&ListParams::in_namespace("default")).await.map_err(|e| e.to_string())?;
        Ok(list.items.into_iter().map(|cached| cached.object).collect())
    }

    async fn taint(&self, node: &str, taints: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        self.objects.api("nodes").patch(&ObjectKey::new("", node), &patch).await?;
        Ok(())
    }

    async fn running(&self, names: &[&str]) {
        eventually(LIMIT, &format!("{names:?} run"), || async {
            for name in names {
                let pod = self.pod(name).await.ok_or("no pod")?;
                if pod.text(&["status", "phase"]) != "Running" {
                    return Err(format!("{name}: {:?}", pod.at(&["status"])));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until exactly so many pods of the application run, all on this node (empty: on any), others are on their way out.
    async fn spread(&self, app: &str, count: usize, node: &str) {
        eventually(LIMIT, &format!("{count} of {app} on {node:?}"), || async {
            let pods = self.pods().await?;
            let active: Vec<_> = pods.iter().filter(|p| p.label("app") == Some(app) && !p.is_terminating()).collect();
            let right = |pod: &&&Object| {
                pod.condition("Ready").is_some_and(|c| c["status"] == "True")
                    && (node.is_empty() || pod.text(&["spec", "nodeName"]) == node)
            };
            let running = active.iter().filter(right).count();
            if (active.len(), running) == (count, count) {
                Ok(())
            } else {
                Err(format!("{running} of {}", active.len()))
            }
        })
        .await;
    }

    async fn ready(&self, name: &str, status: &str) {
        eventually(LIMIT, &format!("{name} Ready={status}"), || async {
            let ready = self.pod(name).await.and_then(|pod| pod.condition("Ready").cloned()).unwrap_or_default();
            if ready["status"] == status { Ok(()) } else { Err(ready.to_string()) }
        })
        .await;
    }

    async fn event(&self, reason: &str, message: &str) {
        eventually(LIMIT, message, || async {
            let list = self.objects.api("events").list(&ListParams::all()).await.map_err(|e| e.to_string())?;
            let events: Vec<_> = list.items.into_iter().map(|cached| cached.object).collect();
            let found = events.iter().any(|e| e.text(&["reason"]) == reason && e.text(&["message"]) == message);
            let said = || events.iter().map(|e| e.text(&["message"])).collect::<Vec<_>>().join("; ");
            if found { Ok(()) } else { Err(said()) }
        })
        .await;
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn spec(tolerations: &Value) -> Value {
    json!({"terminationGracePeriodSeconds": 2, "tolerations": tolerations,
        "containers": [{"name": "c", "image": "soscscs/myapp:v1"}]})
}

/// A pod on node01.
fn pod(name: &str, tolerations: &Value, finalizers: &Value) -> Value {
    let mut spec = spec(tolerations);
    spec["nodeName"] = "node01".into();
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"namespace": "default", "name": name, "finalizers": finalizers}})
}

fn deployment(name: &str, replicas: i64, tolerations: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": spec(tolerations)}}})
}

fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = seconds.into();
    }
    toleration
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taint_evicts_what_does_not_tolerate_it_and_the_rest_decides() -> anyhow::Result<()> {
    let bed = Bed::start(&[])?;
    bed.objects.make("deployments", deployment("web", 4, &json!([]))).await?;
    bed.objects.make("pods", pod("bare", &json!([]), &json!(["example.com/hold"]))).await?;
    bed.objects.make("pods", pod("both", &json!([{"key": "key1", "operator": "Exists"}]), &Value::Null)).await?;
    bed.spread("web", 4, "").await;
    bed.running(&["bare", "both"]).await;

    // NoExecute: what runs there leaves, its replacements go elsewhere, a pod of nobody is gone for good.
    let key1 = [
        json!({"key": "key1", "value": "value1", "effect": "NoSchedule"}),
        json!({"key": "key1", "value": "value1", "effect": "NoExecute"}),
    ];
    bed.taint("node01", json!([key1[0], key1[1], {"key": "key2", "value": "value2", "effect": "NoSchedule"}])).await?;
    bed.spread("web", 4, "node02").await;
    bed.event("TaintManagerEviction", "Marking for deletion Pod default/bare").await;
    let bare = bed.pod("bare").await.expect("its finalizer holds it");
    let target = bare.condition("DisruptionTarget").expect("why it goes");
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (&json!("True"), &json!("DeletionByTaintManager"), &json!("Taint manager: deleting due to NoExecute taint"))
    );
    bed.objects.api("pods").patch(&key("bare"), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    eventually(LIMIT, "the bare pod is gone", || async {
        bed.pod("bare").await.map_or(Ok(()), |pod| Err(format!("{:?}", pod.at(&["status"]))))
    })
    .await;

    // Several taints: what is tolerated stays though another one keeps new pods away, also those that tolerate as much.
    bed.objects.make("deployments", deployment("late", 2, &json!([{"key": "key1", "operator": "Exists"}]))).await?;
    bed.spread("late", 2, "node02").await;
    let both = bed.pod("both").await.expect("it tolerates what evicts");
    assert!(!both.is_terminating() && both.text(&["status", "phase"]) == "Running");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_stay_ends_on_time_whatever_happens_to_the_controller() -> anyhow::Result<()> {
    let bed = Bed::start(&[])?;
    let waits = |seconds| json!([tolerates("e", Some(seconds))]);
    for (name, seconds) in [("short", 6), ("first", 1), ("edited", 600), ("spared", 600)] {
        bed.objects.make("pods", pod(name, &waits(seconds), &Value::Null)).await?;
    }
    bed.running(&["short", "first", "edited", "spared"]).await;
    let tainted = Instant::now();
    let now = time(listwatch_components::clock::system().now());
    bed.taint("node01", json!([{"key": "e", "value": "1", "effect": "NoExecute", "timeAdded": now}])).await?;

    // A controller that is killed in the middle neither forgets the end nor starts the time anew.
    let leaves = async |name: &str| {
        eventually(LIMIT, &format!("{name} leaves"), || async {
            let pod = bed.pod(name).await;
            if pod.is_none_or(|pod| pod.is_terminating()) { Ok(()) } else { Err("it is still there") }
        })
        .await;
    };
    leaves("first").await;
    bed.cluster.order(&["kill", "controller-manager"])?;
    leaves("short").await;
    let stayed = tainted.elapsed();
    assert!(stayed >= Duration::from_secs(6), "it left after {stayed:?}");
    assert!(stayed < Duration::from_secs(12), "it stayed for {stayed:?}");

    // An edit moves the end; without the taint there is none.
    let shorter = json!({"spec": {"tolerations": [tolerates("e", Some(1))]}});
    let tolerations = bed.pod("edited").await.expect("it stays").at(&["spec", "tolerations"]).cloned();
    let mut edited = shorter.clone();
    for other in tolerations.iter().flat_map(|t| t.as_array().into_iter().flatten()).filter(|t| t["key"] != "e") {
        edited["spec"]["tolerations"].as_array_mut().expect("a list").push(other.clone());
    }
    bed.objects.api("pods").patch(&key("edited"), &Patch::Merge(edited)).await?;
    leaves("edited").await;
    bed.taint("node01", Value::Null).await?;
    bed.event("TaintManagerEviction", "Cancelling deletion of Pod default/spared").await;
    assert!(bed.pod("spared").await.is_some_and(|pod| !pod.is_terminating()));
    Ok(())
}

/// `True`, or `Unknown unreachable:NoExecute …`.
async fn state_of(bed: &Bed, node: &str) -> String {
    let node = bed.objects.api("nodes").get(&ObjectKey::new("", node)).await.expect("the node").object;
    let taints = node.at(&["spec", "taints"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |t: &Value| format!("{}:{}", t["key"].as_str().unwrap_or(""), t["effect"].as_str().unwrap_or(""));
    let taints: BTreeSet<_> = taints.iter().map(text).collect();
    let ready = node.condition("Ready").map_or("none", |c| c["status"].as_str().unwrap_or("none")).to_owned();
    std::iter::once(ready).chain(taints).collect::<Vec<_>>().join(" ").replace("node.kubernetes.io/", "")
}

async fn becomes(bed: &Bed, node: &str, state: &str) {
    eventually(LIMIT, state, || async {
        let now = state_of(bed, node).await;
        if now == state { Ok(()) } else { Err(now) }
    })
    .await;
}

fn signal(bed: &Bed, component: &str, signal: Signal) -> anyhow::Result<()> {
    let status = bed.cluster.status()?;
    let components = status["components"].as_array().cloned().unwrap_or_default();
    let found = components.iter().find(|c| c["name"] == component).and_then(|c| c["pid"].as_i64());
    let pid = found.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.expect("the component runs"), signal)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_stands_still_loses_its_pods_and_comes_back_clean() -> anyhow::Result<()> {
    let bed = Bed::start(&[("LW_NODE_MONITOR_GRACE_PERIOD", "4s"), ("LW_NODE_LEASE_DURATION_SECONDS", "4")])?;
    let patience = json!([
        tolerates("node.kubernetes.io/unreachable", Some(3)),
        tolerates("node.kubernetes.io/not-ready", Some(3))
    ]);
    bed.objects.make("deployments", deployment("web", 4, &patience)).await?;
    bed.spread("web", 4, "").await;
    // One that is patient: it sits the silence out.
    let mut patient = pod("patient", &json!([]), &Value::Null);
    patient["spec"]["nodeName"] = "node02".into();
    bed.objects.make("pods", patient).await?;
    bed.ready("patient", "True").await;
    let sat_out = bed.pod("patient").await.expect("it runs").at(&["status", "containerStatuses"]).cloned();
    let before: BTreeSet<_> =
        bed.pods().await.map_err(anyhow::Error::msg)?.iter().map(|p| p.uid().to_owned()).collect();
    assert_eq!(bed.cluster.container_pids()?.len(), 5);
    becomes(&bed, "node02", "True").await;

    signal(&bed, "kubelet-node02", Signal::STOP)?;
    becomes(&bed, "node02", "Unknown unreachable:NoExecute unreachable:NoSchedule").await;
    assert_eq!(state_of(&bed, "node01").await, "True");
    bed.event("NodeNotReady", "Node node02 status is now: NodeNotReady").await;
    bed.event("NodeNotReady", "Node is not ready").await;
    bed.ready("patient", "False").await;
    // The pods there are marked and replaced; nobody is there who could end them.
    bed.spread("web", 4, "node01").await;
    let stuck = bed.pods().await.map_err(anyhow::Error::msg)?;
    let stuck: Vec<_> = stuck.iter().filter(|pod| pod.is_terminating()).collect();
    assert!(!stuck.is_empty() && stuck.iter().all(|pod| pod.text(&["spec", "nodeName"]) == "node02"));
    assert!(stuck.iter().all(|pod| before.contains(pod.uid())));

    signal(&bed, "kubelet-node02", Signal::CONT)?;
    becomes(&bed, "node02", "True").await;
    eventually(LIMIT, "five pods and five containers, no more", || async {
        let (pods, pids) = (bed.pods().await?, bed.cluster.container_pids().map_err(|e| e.to_string())?);
        if (pods.len(), pids.len()) == (5, 5) { Ok(()) } else { Err(format!("{} pods, {pids:?}", pods.len())) }
    })
    .await;
    bed.spread("web", 4, "node01").await;
    bed.ready("patient", "True").await;
    assert_eq!(bed.pod("patient").await.expect("it stays").at(&["status", "containerStatuses"]).cloned(), sat_out);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_makes_no_node_lost() -> anyhow::Result<()> {
    let grace = Duration::from_secs(4);
    let bed = Bed::start(&[("LW_NODE_MONITOR_GRACE_PERIOD", "4s"), ("LW_NODE_LEASE_DURATION_SECONDS", "4")])?;
    for node in ["node01", "node02"] {
        becomes(&bed, node, "True").await;
    }
    let from = bed.objects.client().seen_revision();
    signal(&bed, "server", Signal::STOP)?;
    let stopped = Instant::now();
    eventually(LIMIT, "longer than the grace", || async {
        if stopped.elapsed() > grace * 3 / 2 { Ok(()) } else { Err(stopped.elapsed()) }
    })
    .await;
    signal(&bed, "server", Signal::CONT)?;
    let resumed = Instant::now();
    // Everything goes on: within the next grace the leader looks at each node, and the kubelets have renewed.
    eventually(LIMIT, "the next grace is over", || async {
        if resumed.elapsed() > grace + Duration::from_secs(1) { Ok(()) } else { Err(resumed.elapsed()) }
    })
    .await;
    bed.objects.make("deployments", deployment("web", 2, &json!([]))).await?;
    bed.spread("web", 2, "").await;
    let params = WatchParams {
        start_revision: from,
        until_revision: bed.objects.client().seen_revision(),
        ..Default::default()
    };
    let mut watch = bed.objects.api("nodes").watch(&params).await?;
    while let Some(batch) = watch.next().await? {
        for event in batch.events {
            if let WatchEvent::Added(node) | WatchEvent::Modified(node) = event {
                let ready = node.object.condition("Ready").map(|c| c["status"].clone());
                assert_eq!(ready, Some(json!("True")), "{:?}", node.object.at(&["status", "conditions"]));
            }
        }
    }
    Ok(())
}
