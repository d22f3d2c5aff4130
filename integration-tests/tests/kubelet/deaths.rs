//! What becomes of pods when their kubelet, their shims or their cluster die.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};
use listwatch_components::client::DeleteParams;
use listwatch_integration_tests::eventually;
use listwatch_proto::resource::Object;
use serde_json::json;

use crate::node::{LIMIT, Node, container, get, lives, myapp, pid, shell};

#[tokio::test(flavor = "multi_thread")]
async fn containers_outlive_the_kubelet_and_orphans_are_ended() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let kept = node.create("kept", myapp(18080)).await?;
    let orphan = node.create("orphan", shell("Always", "sleep 3600")).await?;
    let before = node.wait_running(&kept).await;
    let lost = node.wait_running(&orphan).await;
    node.kubelet.kill();
    assert!(lives(pid(&before, "myapp")) && lives(pid(&lost, "app")));
    node.pods.delete(&orphan, &DeleteParams::any().grace(0)).await?;
    node.restart_kubelet(None)?;
    eventually(LIMIT, "the orphan is ended", || async {
        if lives(pid(&lost, "app")) { Err("still there") } else { Ok(()) }
    })
    .await;
    let after = node.wait_running(&kept).await;
    assert_eq!(container(&after, "myapp"), container(&before, "myapp"), "the same process, and nothing counted");
    assert!(lives(pid(&before, "myapp")));
    let untouched = |pod: &Object| pod.condition("Ready").map(|ready| ready["lastTransitionTime"].clone());
    assert_eq!(untouched(&after), untouched(&before), "Ready all the time");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_cluster_ends_containers_and_the_next_start_goes_on() -> Result<()> {
    let pipe = || -> Result<(OwnedFd, OwnedFd)> {
        let (read, write) = rustix::pipe::pipe()?;
        rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::CLOEXEC)?;
        Ok((read, write))
    };
    let (read, write) = pipe()?;
    let mut node = Node::start_with(&[], Some(&read)).await?;
    let key = node.create("app", myapp(18080)).await?;
    let before = node.wait_running(&key).await;
    let address = format!("{}:18080", before.text(&["status", "podIP"]));
    eventually(LIMIT, "it answers", || async { get(&address, "/") }).await;
    drop((read, write));
    let status = node.kubelet.wait(LIMIT)?;
    ensure!(status.success(), "the kubelet ends well with its cluster: {status}");
    node.wait_no_shims().await;
    assert!(!lives(pid(&before, "myapp")));

    let (read, _write) = pipe()?;
    node.restart_kubelet(Some(&read))?;
    let after = node
        .wait(&key, "runs once more", |s| {
            s["containerStatuses"][0]["restartCount"] == 1 && s["containerStatuses"][0]["ready"] == true
        })
        .await;
    assert_eq!(after.uid(), before.uid());
    assert_eq!(container(&after, "myapp")["lastState"]["terminated"]["exitCode"], 0);
    assert_ne!(pid(&after, "myapp"), pid(&before, "myapp"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_the_kubelet_is_away_is_told_and_counted_once() -> Result<()> {
    let mut node = Node::start(&["--failure-backoff", "1"]).await?;
    let ends =
        "trap 'exit 0' TERM; until [ -e go ]; do sleep 0.02; done; [ -e again ] && sleep 3600; touch again; exit 7";
    let always = node.create("always", shell("Always", ends)).await?;
    let never = node.create("never", shell("Never", ends)).await?;
    let before = [node.wait_running(&always).await, node.wait_running(&never).await];
    node.kubelet.kill();
    for pod in &before {
        let work = node.folder.path().join("root/pods").join(pod.uid()).join("app/work/go");
        std::fs::write(work, "")?;
        let ended = pid(pod, "app");
        eventually(LIMIT, "it ends", || async { if lives(ended) { Err("still there") } else { Ok(()) } }).await;
    }
    node.restart_kubelet(None)?;
    let failed = node.wait(&never, "has failed", |s| s["phase"] == "Failed").await;
    assert_eq!(container(&failed, "app")["state"]["terminated"]["exitCode"], 7);
    assert_eq!(container(&failed, "app")["restartCount"], 0);
    let again = node.wait(&always, "runs again", |s| s["containerStatuses"][0]["restartCount"] == 1).await;
    assert_eq!(container(&again, "app")["lastState"]["terminated"]["exitCode"], 7);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shim_takes_its_container_along_and_the_end_is_told_as_unknown() -> Result<()> {
    let node = Node::start(&["--failure-backoff", "1"]).await?;
    let key = node.create("app", shell("Always", "sleep 3600 & sleep 3600")).await?;
    let before = node.wait_running(&key).await;
    let shim = parent(pid(&before, "app"))?;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(shim).context("a process id")?,
        rustix::process::Signal::KILL,
    )?;
    let after = node.wait(&key, "runs again", |s| {
        let app = &s["containerStatuses"][0];
        app["restartCount"] == 1 && app["state"]["running"].is_object()
    });
    let after = after.await;
    assert!(!lives(pid(&before, "app")), "never two of one container");
    let last = &container(&after, "app")["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(137), &json!("ContainerStatusUnknown")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_the_same_name_waits_for_the_end_of_the_one_before() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let slow = "trap 'until [ -e go ]; do sleep 0.02; done; exit 0' TERM; echo up; while :; do sleep 60 & wait; done";
    let mut spec = shell("Always", slow);
    spec["terminationGracePeriodSeconds"] = json!(3600);
    let key = node.create("web", spec.clone()).await?;
    let first = node.wait_running(&key).await;
    node.wait_log(&key, "app", "up").await;
    node.kubelet.kill();
    node.pods.delete(&key, &DeleteParams::any().grace(0)).await?;
    node.create("web", spec).await?;
    node.restart_kubelet(None)?;
    // Only now the one before may end, and until then its successor must not run.
    let second = node.pods.get(&key).await?.object;
    assert_ne!(second.uid(), first.uid());
    assert!(second.at(&["status", "containerStatuses"]).is_none() && lives(pid(&first, "app")));
    std::fs::write(node.folder.path().join("root/pods").join(first.uid()).join("app/work/go"), "")?;
    let second = node.wait_running(&key).await;
    assert!(!lives(pid(&first, "app")) && lives(pid(&second, "app")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_over_can_be_deleted_while_its_kubelet_is_away() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let key = node.create("done", shell("Never", "exit 0")).await?;
    node.wait(&key, "is over", |s| s["phase"] == "Succeeded").await;
    let running = node.create("running", shell("Always", "sleep 3600")).await?;
    let before = node.wait_running(&running).await;
    node.kubelet.kill();
    for key in [&key, &running] {
        node.pods.delete(key, &DeleteParams::any()).await?;
    }
    node.restart_kubelet(None)?;
    node.wait_gone(&key).await;
    node.wait_gone(&running).await;
    assert!(!lives(pid(&before, "app")));
    Ok(())
}

fn parent(pid: i32) -> Result<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("a process has a name")?;
    Ok(rest.split_ascii_whitespace().nth(1).context("a process has a parent")?.parse()?)
}
