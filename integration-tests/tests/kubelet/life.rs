//! The life of pods: start, restart, end, and what is said when they cannot run.

use std::net::TcpListener;

use anyhow::{Context, Result};
use listwatch_components::client::{DeleteParams, LogParams, Patch};
use listwatch_integration_tests::eventually;
use listwatch_proto::resource::ObjectKey;
use serde_json::{Value, json};

use crate::node::{LIMIT, Node, container, get, lives, myapp, pid, shell};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_serves_and_ends() -> Result<()> {
    let node = Node::start(&["--node-labels", "disk=ssd", "--node-capacity", "cpu=2"]).await?;
    let object = node.nodes.get(&ObjectKey::new("", "node01")).await?.object;
    assert_eq!(object.condition("Ready").map(|ready| &ready["status"]), Some(&json!("True")), "with the ready line");
    assert_eq!(object.label("disk"), Some("ssd"));
    assert_eq!(object.text(&["status", "allocatable", "cpu"]), "2");

    let first = node.create("one", myapp(18080)).await?;
    let second = node.create("two", myapp(18080)).await?;
    let one = node.wait_running(&first).await;
    let two = node.wait_running(&second).await;
    for pod in [&one, &two] {
        let address = format!("{}:18080", pod.text(&["status", "podIP"]));
        // Without a readiness probe a pod is Ready as soon as its process runs.
        let body = eventually(LIMIT, "it answers", || async { get(&address, "/") }).await;
        assert_eq!(body, "Hello MyApp | Version: v1 | <a href=\"hostname.html\">Pod Name</a>\n");
        assert_eq!(get(&address, "/hostname.html")?, format!("{}\n", pod.name()));
    }
    assert_eq!(node.wait_event(&first, "Started").await, "Container started");

    eventually(LIMIT, "the request is logged", || async {
        let params = LogParams { tail_lines: Some(1), ..LogParams::default() };
        let log = node.log(&first, params).await.map_err(|error| error.to_string())?;
        if log.contains("\"GET /hostname.html HTTP/1.1\" 200") && log.lines().count() == 1 { Ok(()) } else { Err(log) }
    })
    .await;

    node.pods.delete(&first, &DeleteParams::any()).await?;
    node.wait_gone(&first).await;
    assert!(!lives(pid(&one, "myapp")), "gone from the API only after the process");
    assert!(lives(pid(&two, "myapp")));
    assert_eq!(node.wait_event(&first, "Killing").await, "Stopping container myapp");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_pauses_and_its_count_survives_the_kubelet() -> Result<()> {
    let mut node = Node::start(&["--failure-backoff", "1", "--failure-backoff-max", "300"]).await?;
    let key = node.create("crash", shell("Always", "echo going; exit 3")).await?;
    let pausing = |status: &Value| status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let pod = node.wait(&key, "pauses", |s| pausing(s) && s["containerStatuses"][0]["restartCount"] == 2).await;
    let app = container(&pod, "app");
    assert_eq!(app["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(pod.text(&["status", "phase"]), "Running");
    let message = app["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert_eq!(message, format!("back-off 2s restarting failed container=app pod=crash_default({})", pod.uid()));
    assert!(
        node.wait_event(&key, "BackOff").await.starts_with("Back-off restarting failed container app in pod crash")
    );
    node.restart_kubelet(None)?;
    node.wait(&key, "is counted on", |s| s["containerStatuses"][0]["restartCount"].as_i64() >= Some(3)).await;
    let log = node.log(&key, LogParams { previous: true, ..LogParams::default() }).await?;
    assert_eq!(log, "going\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_why() -> Result<()> {
    let node = Node::start(&["--failure-backoff", "2"]).await?;
    let image = json!({"containers": [{"name": "app", "image": "nginx:1.27"}]});
    let image = node.create("image", image).await?;
    let foreign = json!({"hostPID": true, "containers": [{"name": "app", "image": "soscscs/myapp:v1"}]});
    let foreign = node.create("foreign", foreign).await?;
    let command = node.create(
        "command",
        json!({"containers": [
            {"name": "app", "image": "busybox", "command": ["no-such-command"]},
        ]}),
    );
    let command = command.await?;
    let big = json!({"containers": [
        {"name": "app", "image": "pause", "resources": {"requests": {"cpu": "64"}}},
    ]});
    let big = node.create("big", big).await?;

    let waiting = |status: &Value| status["containerStatuses"][0]["state"]["waiting"].clone();
    let pod = node.wait(&image, "pauses", |s| waiting(s)["reason"] == "ImagePullBackOff").await;
    let message = container(&pod, "app")["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no program for image \"nginx:1.27\""), "{message}");
    let pod = node.wait(&foreign, "is refused", |s| waiting(s)["reason"] == "CreateContainerConfigError").await;
    let message = container(&pod, "app")["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert_eq!(message, "spec.hostPID is not supported by the process runtime");
    let pod = node.wait(&command, "fails to start", |s| waiting(s)["reason"] == "CrashLoopBackOff").await;
    let ended = &container(&pod, "app")["lastState"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(128), &json!("StartError")));
    assert_eq!(ended["message"], "exec: \"no-such-command\": executable file not found in $PATH");
    let pod = node.wait(&big, "is rejected", |s| s["phase"] == "Failed").await;
    assert_eq!(pod.text(&["status", "reason"]), "OutOfcpu");
    let told = "Pod was rejected: Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 4000";
    assert_eq!(pod.text(&["status", "message"]), told);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_end_are_over_for_ever() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let init = json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "first", "image": "busybox", "command": ["sh", "-c", "echo init of $(POD)"], "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]},
            {"name": "second", "image": "busybox", "command": ["true"]},
        ],
        "containers": [{"name": "app", "image": "busybox", "command": ["sh", "-c", "echo \"$GREETING\""], "env": [
            {"name": "GREETING", "value": "hello"},
        ]}],
    });
    let well = node.create("well", init).await?;
    let badly = node.create("badly", shell("Never", "exit 4")).await?;
    let done = node.wait(&well, "ends well", |s| s["phase"] == "Succeeded").await;
    let failed = node.wait(&badly, "ends badly", |s| s["phase"] == "Failed").await;
    assert_eq!(container(&failed, "app")["state"]["terminated"]["exitCode"], 4);
    assert_eq!(done.condition("Ready").map(|c| &c["reason"]), Some(&json!("PodCompleted")));
    let log = |container: &str| LogParams { container: container.into(), ..LogParams::default() };
    assert_eq!(node.log(&well, log("first")).await?, "init of well\n");
    assert_eq!(node.log(&well, log("app")).await?, "hello\n");
    node.restart_kubelet(None)?;
    // A pod that is made later runs, so the kubelet has seen the others too.
    let later = node.create("later", myapp(18080)).await?;
    node.wait_running(&later).await;
    for (key, before) in [(&well, &done), (&badly, &failed)] {
        let after = node.pods.get(key).await?.object;
        assert_eq!(after.at(&["status"]), before.at(&["status"]), "{key}");
    }
    node.pods.delete(&well, &DeleteParams::any()).await?;
    node.wait_gone(&well).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_replaced_and_told() -> Result<()> {
    let node = Node::start(&[]).await?;
    let stranger = TcpListener::bind("127.0.0.1:0")?;
    let taken = stranger.local_addr()?.port();
    let mut spec = myapp(taken);
    spec["hostNetwork"] = json!(true);
    let key = node.create("web", spec).await?;
    node.wait_running(&key).await;
    let told = node.wait_event(&key, "PortReplaced").await;
    let pod = eventually(LIMIT, "the annotation is there", || async {
        let pod = node.pods.get(&key).await.map_err(|error| error.to_string())?.object;
        if pod.annotation("listwatch.dev/ports").is_some() { Ok(pod) } else { Err("not yet".to_owned()) }
    })
    .await;
    let text = pod.annotation("listwatch.dev/ports").unwrap_or_default();
    let (wanted, actual) = text.split_once(':').context("WANTED:ACTUAL")?;
    assert_eq!(wanted, taken.to_string());
    assert!(told.contains(actual), "{told}");
    eventually(LIMIT, "it answers there", || async { get(&format!("127.0.0.1:{actual}"), "/") }).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn grace_is_given_and_can_be_shortened() -> Result<()> {
    let node = Node::start(&[]).await?;
    let mut spec = shell("Always", "trap 'echo asked' TERM; echo up; while :; do sleep 60 & wait; done");
    spec["terminationGracePeriodSeconds"] = json!(3600);
    let key = node.create("stubborn", spec).await?;
    node.wait_running(&key).await;
    let logged = |text: &'static str| {
        let (node, key) = (&node, &key);
        async move {
            eventually(LIMIT, text, || async {
                let log = node.log(key, LogParams::default()).await.map_err(|error| error.to_string())?;
                if log.contains(text) { Ok(()) } else { Err(log) }
            })
            .await;
        }
    };
    logged("up").await;
    node.pods.delete(&key, &DeleteParams::any()).await?;
    logged("asked").await;
    let pod = node.pods.get(&key).await?.object;
    assert!(pod.is_terminating() && lives(pid(&pod, "app")));
    node.pods.delete(&key, &DeleteParams::any().grace(1)).await?;
    node.wait_gone(&key).await;
    assert!(!lives(pid(&pod, "app")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_image_takes_the_place_of_the_old_one() -> Result<()> {
    let node = Node::start(&[]).await?;
    let key = node.create("web", myapp(18080)).await?;
    let before = node.wait_running(&key).await;
    let image = json!({"spec": {"containers": [{
        "name": "myapp", "image": "soscscs/myapp:v2", "imagePullPolicy": "IfNotPresent",
        "ports": [{"containerPort": 18080, "protocol": "TCP"}], "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }]}});
    node.pods.patch(&key, &Patch::Merge(image)).await?;
    let after = node
        .wait(&key, "runs the new one", |s| {
            let app = &s["containerStatuses"][0];
            app["image"] == "soscscs/myapp:v2" && app["restartCount"] == 1 && app["ready"] == true
        })
        .await;
    assert!(!lives(pid(&before, "myapp")));
    assert_eq!(node.wait_event(&key, "Killing").await, "Container myapp definition changed, will be restarted");
    let address = format!("{}:18080", after.text(&["status", "podIP"]));
    let body = eventually(LIMIT, "it answers", || async { get(&address, "/") }).await;
    assert!(body.contains("Version: v2"), "{body}");
    Ok(())
}
