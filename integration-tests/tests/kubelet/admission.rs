//! Pods that name their node: what the scheduler would mind and a node does not, and what a node turns away.

use anyhow::Result;
use listwatch_proto::resource::ObjectKey;
use serde_json::{Value, json};

use crate::node::{Node, lives, pid, shell};

fn sleeper(more: Value) -> Value {
    let mut spec = shell("Always", "sleep 3600");
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// Waits until the pod is turned away, and gives reason and message.
async fn rejected(node: &Node, key: &ObjectKey) -> (String, String) {
    let pod = node.wait(key, "is turned away", |status| status["phase"] == "Failed").await;
    (pod.text(&["status", "reason"]).to_owned(), pod.text(&["status", "message"]).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_ignores_no_schedule_and_turns_away_at_no_execute() -> Result<()> {
    let node = Node::start(&[]).await?;
    node.patch_node(json!({"spec": {
        "unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    }}))
    .await?;
    let runs = node.create("runs", sleeper(json!({}))).await?;
    let before = node.wait_running(&runs).await;
    node.patch_node(json!({"spec": {"taints": [{"key": "k2", "value": "v", "effect": "NoExecute"}]}})).await?;
    let late = node.create("late", sleeper(json!({}))).await?;
    let told = "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    assert_eq!(rejected(&node, &late).await, ("TaintToleration".into(), told.into()));
    assert_eq!(
        node.wait_event(&late, "TaintToleration").await,
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    );
    let tolerant = sleeper(json!({"tolerations": [{"key": "k2", "operator": "Exists"}]}));
    let tolerant = node.create("tolerant", tolerant).await?;
    node.wait_running(&tolerant).await;
    assert!(lives(pid(&before, "app")), "who runs is the business of the taint manager");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_judges_by_what_it_is_now() -> Result<()> {
    let mut node = Node::start(&["--node-capacity", "cpu=2"]).await?;
    let picky = |value: &str| sleeper(json!({"nodeSelector": {"disk": value}}));
    let misfit = node.create("misfit", picky("ssd")).await?;
    let told = "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    assert_eq!(rejected(&node, &misfit).await, ("NodeAffinity".into(), told.into()));
    // The label may not have come to the kubelet when the pod does: it looks once more before it says no.
    node.patch_node(json!({"metadata": {"labels": {"disk": "ssd"}}})).await?;
    let fits = node.create("fits", picky("ssd")).await?;
    let before = node.wait_running(&fits).await;

    let asks = |cpu: &str| {
        let mut spec = sleeper(json!({}));
        spec["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        spec
    };
    let half = node.create("half", asks("1500m")).await?;
    let half_before = node.wait_running(&half).await;
    let full = node.create("full", asks("600m")).await?;
    let told = "Pod was rejected: Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000";
    assert_eq!(rejected(&node, &full).await, ("OutOfcpu".into(), told.into()));

    // A node that would not take them now keeps those it has taken, also over a restart of its kubelet.
    node.patch_node(json!({"metadata": {"labels": {"disk": null}}})).await?;
    node.restart_kubelet(None)?;
    let later = node.create("later", asks("600m")).await?;
    assert_eq!(rejected(&node, &later).await.0, "OutOfcpu", "the book is the same after a restart");
    for (key, before) in [(&fits, before), (&half, half_before)] {
        assert_eq!(node.pods.get(key).await?.text(&["status", "phase"]), "Running");
        assert!(lives(pid(&before, "app")), "{key}");
    }
    Ok(())
}
