//! What a container is told: environment, ConfigMaps, the downward API, volumes, and what it says at its end.

use anyhow::Result;
use listwatch_components::client::{DeleteParams, Patch};
use listwatch_proto::resource::ObjectKey;
use serde_json::{Value, json};

use crate::node::{Node, container, mounts_are_possible, pid, shell};

/// A shell with more fields of its container, and more of its pod.
fn with(script: &str, of_container: Value, of_pod: Value) -> Value {
    let mut spec = shell("Always", script);
    for (key, value) in of_container.as_object().into_iter().flatten() {
        spec["containers"][0][key] = value.clone();
    }
    for (key, value) in of_pod.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_told_of_its_pod_and_of_config_maps() -> Result<()> {
    let node = Node::start(&[]).await?;
    node.config_map("settings", json!({"COLOR": "blue", "SIZE": "big"})).await?;
    let from = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let env = json!({
        "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "CM_"}],
        "env": [
            {"name": "POD", "valueFrom": from("metadata.name")},
            {"name": "NODE", "valueFrom": from("spec.nodeName")},
            {"name": "POD_IP", "valueFrom": from("status.podIP")},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "COLOR"}}},
            {"name": "TEXT", "value": "$(POD) on $(NODE) is $(COLOR), $(NOBODY)"},
        ],
        "resources": {"limits": {"cpu": "250m"}},
    });
    let script = "echo \"$TEXT/$CPU/$CM_SIZE/$POD_IP\"; exec sleep 3600";
    let key = node.create("told", with(script, env, json!({}))).await?;
    let pod = node.wait_running(&key).await;
    let expected = format!("told on node01 is blue, $(NOBODY)/250/big/{}", pod.text(&["status", "podIP"]));
    node.wait_log(&key, "app", &expected).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_config_map_reach_the_files_of_a_running_container() -> Result<()> {
    if !mounts_are_possible() {
        return Ok(());
    }
    let mut node = Node::start(&[]).await?;
    node.config_map("settings", json!({"color": "blue", "size": "big"})).await?;
    let mounts = json!({"volumeMounts": [
        {"name": "settings", "mountPath": "/etc/listwatch-pod/settings"},
        {"name": "settings", "mountPath": "/listwatch-pod/one", "subPath": "here/color"},
        {"name": "about", "mountPath": "/listwatch-pod/about"},
        {"name": "scratch", "mountPath": "/listwatch-pod/scratch"},
    ]});
    let volumes = json!({"volumes": [
        {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o440, "items": [
            {"key": "color", "path": "here/color"},
        ]}},
        {"name": "about", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        ]}},
        {"name": "scratch", "emptyDir": {}},
    ], "initContainers": [{
        "name": "prepare", "image": "busybox", "command": ["sh", "-c", "echo prepared > /work-here/note"],
        "volumeMounts": [{"name": "scratch", "mountPath": "/work-here"}],
    }]});
    let script = "
        cat /listwatch-pod/scratch/note /listwatch-pod/one
        stat -L -c %a /etc/listwatch-pod/settings/here/color
        touch /etc/listwatch-pod/settings/mine 2>/dev/null || echo read-only
        before=; while :; do
            now=\"$(cat /etc/listwatch-pod/settings/here/color) $(cat /listwatch-pod/about/labels)\"
            [ \"$now\" = \"$before\" ] || echo \"now $now\"; before=$now; sleep 0.05
        done";
    let key = node.create("reader", with(script, mounts, volumes)).await?;
    let before = node.wait_running(&key).await;
    let log = node.wait_log(&key, "app", "now blue").await;
    assert!(log.starts_with("prepared\nblue"), "{log}");
    assert!(log.contains("440\nread-only\n"), "{log}");
    node.config_map("settings", json!({"color": "green"})).await?;
    node.wait_log(&key, "app", "now green").await;
    node.pods.patch(&key, &Patch::Merge(json!({"metadata": {"labels": {"team": "red"}}}))).await?;
    node.wait_log(&key, "app", "now green team=\"red\"").await;
    // A kubelet that is new to it all goes on.
    node.restart_kubelet(None)?;
    node.config_map("settings", json!({"color": "white"})).await?;
    node.wait_log(&key, "app", "now white").await;
    let after = node.wait_running(&key).await;
    assert_eq!(pid(&after, "app"), pid(&before, "app"));
    let dir = node.folder.path().join("root/pods").join(before.uid());
    assert!(dir.exists() && !std::path::Path::new("/listwatch-pod").exists(), "the machine itself is not touched");
    node.pods.delete(&key, &DeleteParams::any()).await?;
    node.wait_gone(&key).await;
    listwatch_integration_tests::eventually(crate::node::LIMIT, "its volumes are gone", || async {
        if dir.exists() { Err("still there") } else { Ok(()) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_that_is_missing_holds_up_what_needs_it_and_no_longer() -> Result<()> {
    if !mounts_are_possible() {
        return Ok(());
    }
    let node = Node::start(&[]).await?;
    let needs = json!({"env": [
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
    ]});
    let in_env = node.create("in-env", with("echo it is $COLOR; exec sleep 3600", needs, json!({}))).await?;
    let mounts = json!({"volumeMounts": [{"name": "settings", "mountPath": "/listwatch-pod/settings"}]});
    let volumes = json!({"volumes": [{"name": "settings", "configMap": {"name": "settings"}}]});
    let script = "cat /listwatch-pod/settings/color; exec sleep 3600";
    let in_volume = node.create("in-volume", with(script, mounts, volumes)).await?;
    let optional = json!({"env": [
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color", "optional": true}}},
    ]});
    let optional = node.create("optional", with("echo it is ${COLOR:-nothing}; exec sleep 3600", optional, json!({})));
    let optional = optional.await?;

    let waiting = |status: &Value| status["containerStatuses"][0]["state"]["waiting"].clone();
    let pod = node.wait(&in_env, "waits", |s| waiting(s)["reason"] == "CreateContainerConfigError").await;
    assert_eq!(container(&pod, "app")["state"]["waiting"]["message"], "configmap \"settings\" not found");
    assert_eq!(node.wait_event(&in_env, "Failed").await, "Error: configmap \"settings\" not found");
    let told = "MountVolume.SetUp failed for volume \"settings\" : configmap \"settings\" not found";
    assert_eq!(node.wait_event(&in_volume, "FailedMount").await, told);
    let pod = node.pods.get(&in_volume).await?.object;
    assert_eq!(container(&pod, "app")["state"]["waiting"]["reason"], "ContainerCreating");
    let place = pod.condition("PodReadyToStartContainers").map(|condition| condition["status"].clone());
    assert_eq!(place, Some(json!("False")));
    node.wait_log(&optional, "app", "it is nothing").await;

    node.config_map("settings", json!({"size": "big"})).await?;
    let no_key = "couldn't find key color in ConfigMap default/settings";
    node.wait(&in_env, "waits for the key", |s| waiting(s)["message"] == no_key).await;
    node.config_map("settings", json!({"color": "blue"})).await?;
    node.wait_log(&in_env, "app", "it is blue").await;
    node.wait_running(&in_volume).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_words_are_told() -> Result<()> {
    if !mounts_are_possible() {
        return Ok(());
    }
    let node = Node::start(&[]).await?;
    let never = |script: &str, more: Value| {
        let mut spec = with(script, more, json!({}));
        spec["restartPolicy"] = json!("Never");
        spec
    };
    let message =
        |pod: &listwatch_proto::resource::Object| container(pod, "app")["state"]["terminated"]["message"].clone();
    let own = node.create("own", never("echo farewell > /dev/termination-log; exit 3", json!({}))).await?;
    let path = json!({"terminationMessagePath": "/listwatch-pod/why"});
    let path = node.create("path", never("printf because > /listwatch-pod/why", path)).await?;
    let log = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    let log = node.create("log", never("echo it broke; exit 1", log)).await?;
    for (key, expected) in [(&own, "farewell\n"), (&path, "because"), (&log, "it broke\n")] {
        let over = |status: &Value| matches!(status["phase"].as_str(), Some("Failed" | "Succeeded"));
        let pod = node.wait(key, "is over", over).await;
        assert_eq!(message(&pod), expected, "{key}");
    }
    let gone: Option<()> = std::path::Path::new("/dev/termination-log").exists().then_some(());
    assert_eq!(gone, None, "the machine itself is not touched");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_given_is_named() -> Result<()> {
    let node = Node::start(&[]).await?;
    let claim = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]});
    let key = node.create("claim", with("exec sleep 3600", json!({}), claim)).await?;
    let told = node.wait_event(&key, "FailedMount").await;
    assert_eq!(
        told,
        "MountVolume.SetUp failed for volume \"data\" : volume source persistentVolumeClaim is not supported"
    );
    assert_eq!(node.pods.get(&ObjectKey::new("default", "claim")).await?.text(&["status", "phase"]), "Pending");
    Ok(())
}
