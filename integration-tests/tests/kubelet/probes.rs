//! Probes and hooks, as a user sees them.

use std::path::PathBuf;

use anyhow::Result;
use listwatch_components::client::DeleteParams;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::node::{Node, container, lives, mounts_are_possible, pid, shell};

fn with(script: &str, of_container: Value) -> Value {
    let mut spec = shell("Always", script);
    for (key, value) in of_container.as_object().into_iter().flatten() {
        spec["containers"][0][key] = value.clone();
    }
    spec
}

/// A file in the container's directory, where its commands look for it.
fn file(node: &Node, pod: &Object, name: &str) -> PathBuf {
    node.folder.path().join("root/pods").join(pod.uid()).join("app/work").join(name)
}

fn ready(status: &Value) -> bool {
    status["containerStatuses"][0]["ready"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_ready_when_its_probe_says_so_and_a_new_kubelet_believes_it() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let probe = |name: &str| json!({"exec": {"command": ["sh", "-c", format!("[ -e {name} ] || {{ echo no {name}; exit 1; }}")]}});
    let mut readiness = probe("ready");
    readiness["periodSeconds"] = json!(1);
    readiness["failureThreshold"] = json!(1);
    let mut startup = probe("up");
    startup["periodSeconds"] = json!(1);
    startup["failureThreshold"] = json!(1000);
    let probes = json!({"readinessProbe": readiness, "startupProbe": startup});
    let key = node.create("web", with("exec sleep 3600", probes)).await?;
    let running = |s: &Value| s["containerStatuses"][0]["state"]["running"].is_object();
    let pod = node.wait(&key, "runs", running).await;
    assert_eq!((&container(&pod, "app")["started"], &container(&pod, "app")["ready"]), (&json!(false), &json!(false)));
    assert_eq!(node.wait_event(&key, "Unhealthy").await, "Startup probe failed: no up\n");
    std::fs::write(file(&node, &pod, "up"), "")?;
    let pod = node.wait(&key, "has come up", |s| s["containerStatuses"][0]["started"] == true).await;
    assert_eq!(container(&pod, "app")["ready"], false);
    let told = pod.condition("Ready").map(|condition| condition["message"].clone());
    assert_eq!(told, Some(json!("containers with unready status: [app]")));
    std::fs::write(file(&node, &pod, "ready"), "")?;
    let before = node.wait_running(&key).await;
    node.restart_kubelet(None)?;
    // A pod that comes later is handled, so this one has been looked at too.
    let later = node.create("later", shell("Always", "exec sleep 3600")).await?;
    node.wait_running(&later).await;
    let after = node.pods.get(&key).await?.object;
    assert_eq!(after.condition("Ready"), before.condition("Ready"), "a new kubelet is no news of the pod");
    std::fs::remove_file(file(&node, &pod, "ready"))?;
    node.wait(&key, "is not ready any more", |s| !ready(s)).await;
    assert_eq!(pid(&node.pods.get(&key).await?.object, "app"), pid(&before, "app"), "and goes on running");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_liveness_probe_is_started_again() -> Result<()> {
    if !mounts_are_possible() {
        return Ok(());
    }
    let node = Node::start(&["--failure-backoff", "1"]).await?;
    node.config_map("flag", json!({"alive": "yes"})).await?;
    // In the container's own place: the file is nowhere else.
    let mut spec = with(
        "exec sleep 3600",
        json!({
            "livenessProbe": {
                "exec": {"command": ["grep", "-q", "yes", "/listwatch-pod/flag/alive"]},
                "periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 1,
            },
            "volumeMounts": [{"name": "flag", "mountPath": "/listwatch-pod/flag"}],
        }),
    );
    spec["volumes"] = json!([{"name": "flag", "configMap": {"name": "flag"}}]);
    let key = node.create("web", spec).await?;
    let http = |path: &str| {
        json!({"containers": [{
            "name": "app", "image": "soscscs/myapp:v1", "ports": [{"name": "web", "containerPort": 18080}],
            "livenessProbe": {"httpGet": {"port": "web", "path": path}, "periodSeconds": 1, "failureThreshold": 5},
            "readinessProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1},
        }]})
    };
    let good = node.create("good", http("/")).await?;
    let bad = node.create("bad", http("/no-such-page")).await?;
    let before = node.wait_running(&key).await;
    let good_before = node.wait_running(&good).await;
    node.config_map("flag", json!({"alive": "no"})).await?;
    let after = node.wait(&key, "was started again", |s| s["containerStatuses"][0]["restartCount"] == 1).await;
    assert!(!lives(pid(&before, "app")));
    assert_eq!(after.text(&["status", "phase"]), "Running");
    assert_eq!(node.wait_event(&key, "Killing").await, "Container app failed liveness probe, will be restarted");
    node.wait(&bad, "was started again", |s| s["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)).await;
    node.wait_event_saying(&bad, "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404").await;
    assert_eq!(pid(&node.wait_running(&good).await, "app"), pid(&good_before, "app"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_after_the_start_and_before_the_end() -> Result<()> {
    let node = Node::start(&["--failure-backoff", "300"]).await?;
    let log = node.folder.path().join("hooks");
    let say = |what: &str| json!({"exec": {"command": ["sh", "-c", format!("echo {what} >> {}", log.display())]}});
    let script = format!("trap 'echo asked >> {}; exit 0' TERM; while :; do sleep 60 & wait; done", log.display());
    let mut spec = with(&script, json!({"lifecycle": {"postStart": say("started"), "preStop": say("stopping")}}));
    spec["terminationGracePeriodSeconds"] = json!(20);
    let key = node.create("web", spec).await?;
    node.wait_running(&key).await;
    assert_eq!(std::fs::read_to_string(&log)?, "started\n", "a pod is ready only after its hook");
    // The trap is set a moment after the start.
    node.wait_log(&key, "app", "").await;
    node.pods.delete(&key, &DeleteParams::any()).await?;
    node.wait_gone(&key).await;
    let text = std::fs::read_to_string(&log)?;
    assert!(text.starts_with("started\nstopping\n"), "{text}");

    let fails = json!({"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}});
    let mut spec = with("exec sleep 3600", fails);
    spec["terminationGracePeriodSeconds"] = json!(1);
    let key = node.create("fails", spec).await?;
    assert_eq!(node.wait_event(&key, "FailedPostStartHook").await, "PostStartHook failed");
    node.wait(&key, "is ended for it", |s| s["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)).await;

    let endless = json!({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "3600"]}}}});
    let mut spec = with("exec sleep 3600", endless);
    spec["terminationGracePeriodSeconds"] = json!(3600);
    let key = node.create("endless", spec).await?;
    let pod = node.wait_running(&key).await;
    node.pods.delete(&key, &DeleteParams::any()).await?;
    node.wait_event(&key, "Killing").await;
    assert!(lives(pid(&pod, "app")));
    node.pods.delete(&key, &DeleteParams::any().grace(1)).await?;
    node.wait_gone(&key).await;
    assert_eq!(node.wait_event(&key, "FailedPreStopHook").await, "PreStopHook failed");
    Ok(())
}
