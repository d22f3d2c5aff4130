//! The order of containers: init containers, sidecars, the others, and the way back.

use std::time::Duration;

use anyhow::Result;
use listwatch_components::client::DeleteParams;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::node::{Node, container};

fn step(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "busybox", "command": ["sh", "-c", script]})
}

fn sidecar(name: &str, script: &str) -> Value {
    let mut container = step(name, script);
    container["restartPolicy"] = json!("Always");
    container
}

/// A moment in the life of a container.
fn moment(pod: &Object, name: &str, state: &str, field: &str) -> String {
    container(pod, name)["state"][state][field].as_str().unwrap_or_default().to_owned()
}

/// Runs until it is asked to end, and says so in a file that all containers of the pod can see.
fn server(name: &str, log: &str) -> String {
    format!("trap 'echo {name} >> {log}; exit 0' TERM; echo {name} >> {log}; while :; do sleep 60 & wait; done")
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_in_order_and_sidecars_end_last_in_reverse() -> Result<()> {
    let node = Node::start(&[]).await?;
    let log = node.folder.path().join("order");
    let log = log.display();
    let spec = json!({
        "terminationGracePeriodSeconds": 20,
        "initContainers": [
            step("first", &format!("sleep 0.2; echo first >> {log}")),
            sidecar("side1", &server("side1", &log.to_string())),
            step("second", &format!("until grep -q side1 {log}; do sleep 0.02; done; echo second >> {log}")),
            sidecar("side2", &server("side2", &log.to_string())),
        ],
        "containers": [step("app", &format!("until grep -q side2 {log}; do sleep 0.02; done; {}", server("app", &log.to_string())))],
    });
    let key = node.create("web", spec).await?;
    let pod = node.wait_running(&key).await;
    assert!(moment(&pod, "first", "terminated", "finishedAt") <= moment(&pod, "side1", "running", "startedAt"));
    assert!(moment(&pod, "second", "terminated", "finishedAt") <= moment(&pod, "app", "running", "startedAt"));
    assert_eq!(container(&pod, "first")["ready"], true);
    assert_eq!(
        (&container(&pod, "side1")["started"], &container(&pod, "side1")["ready"]),
        (&json!(true), &json!(true))
    );
    let read = || std::fs::read_to_string(node.folder.path().join("order")).unwrap_or_default();
    listwatch_integration_tests::eventually(Duration::from_secs(10), "the app is up", || async {
        if read().lines().count() == 5 { Ok(()) } else { Err(read()) }
    })
    .await;
    node.pods.delete(&key, &DeleteParams::any()).await?;
    node.wait_gone(&key).await;
    let order: Vec<_> = read().lines().map(str::to_owned).collect();
    assert_eq!(order, ["first", "side1", "second", "side2", "app", "app", "side2", "side1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_like_pod_is_over_when_its_sidecar_is_gone_too() -> Result<()> {
    let node = Node::start(&[]).await?;
    let spec = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 20,
        "initContainers": [sidecar("side", "trap 'exit 0' TERM; while :; do sleep 60 & wait; done")],
        "containers": [step("app", "echo done")],
    });
    let key = node.create("job", spec).await?;
    let pod = node.wait(&key, "is over", |s| s["phase"] == "Succeeded").await;
    assert!(container(&pod, "side")["state"]["terminated"].is_object(), "over means that nothing runs any more");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_container_that_fails_holds_up_the_pod_or_ends_it() -> Result<()> {
    let node = Node::start(&["--failure-backoff", "300"]).await?;
    let spec = |policy: &str| {
        json!({
            "restartPolicy": policy,
            "initContainers": [step("init", "exit 5")], "containers": [step("app", "echo never")],
        })
    };
    let again = node.create("again", spec("Always")).await?;
    let pod = node
        .wait(&again, "pauses", |s| s["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff")
        .await;
    assert_eq!(pod.text(&["status", "phase"]), "Pending");
    let initialized = pod.condition("Initialized").map(|condition| condition["message"].clone());
    assert_eq!(initialized, Some(json!("containers with incomplete status: [init]")));
    let never = node.create("never", spec("Never")).await?;
    let pod = node.wait(&never, "fails", |s| s["phase"] == "Failed").await;
    assert_eq!(container(&pod, "init")["state"]["terminated"]["exitCode"], 5);
    assert_eq!(container(&pod, "app")["state"]["waiting"]["reason"], "PodInitializing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_may_not_live_longer_than_it_says() -> Result<()> {
    let node = Node::start(&[]).await?;
    let spec = json!({
        "activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": 1, "containers": [step("app", "exec sleep 3600")],
    });
    let key = node.create("brief", spec).await?;
    let pod = node.wait(&key, "is over", |s| s["phase"] == "Failed").await;
    assert_eq!(pod.text(&["status", "reason"]), "DeadlineExceeded");
    let told = "Pod was active on the node longer than the specified deadline";
    assert_eq!(pod.text(&["status", "message"]), told);
    assert!(container(&pod, "app")["state"]["terminated"].is_object());
    Ok(())
}
