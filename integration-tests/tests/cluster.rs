//! A whole cluster as a person runs it: `lw up`, a Deployment, kills, stops, and starts on the same data.

use std::collections::BTreeSet;

use integration_tests::{
    Cluster,
    cluster::{LIMIT, processes_with},
    eventually,
};
use listwatch_integration_tests as integration_tests;
use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/myapp.yaml");

/// A component that was killed is back within this time (the product's promise), measured by the condition's own poll.
const BACK: std::time::Duration = std::time::Duration::from_secs(2);

fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|o| format!("{} {}", o["metadata"]["name"], o["metadata"]["uid"])).collect()
}

fn running_example(cluster: &Cluster) -> anyhow::Result<()> {
    let said = cluster.lw(&["apply", "-f", EXAMPLE])?;
    assert_eq!(said, "deployment.apps/myapp created\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_on_both_nodes_and_survives_a_restart_of_the_cluster() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(&[])?;
    running_example(&cluster)?;
    let pods = cluster.wait_running(3).await;
    let nodes: BTreeSet<_> = pods.iter().map(|p| p["spec"]["nodeName"].to_string()).collect();
    assert_eq!(nodes.len(), 2, "pods on both nodes: {nodes:?}");
    let before = (names(&pods), names(&cluster.objects("replicasets")?));

    let data = cluster.data_dir().display().to_string();
    cluster.supervisor().stop()?;
    assert_eq!(processes_with(&data)?, Vec::<String>::new(), "a stopped cluster leaves no process");

    cluster.start_again()?;
    // Until the kubelets have looked, the pods are told as they were when the cluster ended.
    let pods = eventually(LIMIT, "each container was started once more", || async {
        let pods = cluster.wait_running(3).await;
        let again = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
        if pods.iter().all(again) { Ok(pods) } else { Err(names(&pods)) }
    })
    .await;
    assert_eq!((names(&pods), names(&cluster.objects("replicasets")?)), before, "the same objects, none made twice");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_component_is_back_and_running_pods_keep_their_processes() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    running_example(&cluster)?;
    let before = names(&cluster.wait_running(3).await);
    let pids = cluster.container_pids()?;
    assert_eq!(pids.len(), 3, "{pids:?}");
    for component in ["scheduler", "controller-manager", "kubelet-node01", "kubelet-node02", "server"] {
        let restarts = |status: &Value| component_of(status, component)["restarts"].as_u64().unwrap_or(0);
        let count = restarts(&cluster.status()?);
        cluster.order(&["kill", component])?;
        eventually(BACK, &format!("{component} is back"), || async {
            let status = cluster.status().map_err(|e| e.to_string())?;
            let now = component_of(&status, component);
            let back = now["state"] == "Running" && restarts(&status) == count + 1;
            if back { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        assert_eq!(cluster.container_pids()?, pids, "after {component} was killed");
    }
    // Everybody works again, not only runs: a scale goes through, and the old pods are still the same.
    cluster.lw(&["scale", "deployment/myapp", "--replicas=5"])?;
    let after = names(&cluster.wait_running(5).await);
    assert!(after.is_superset(&before), "{before:?} in {after:?}");
    cluster.lw(&["delete", "deployment", "myapp"])?;
    cluster.wait_running(0).await;
    eventually(LIMIT, "no container is left", || async {
        let left = cluster.container_pids().map_err(|e| e.to_string())?;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_supervisor_takes_everything_with_it_and_the_next_finds_the_same_pods() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(&[])?;
    running_example(&cluster)?;
    let before = names(&cluster.wait_running(3).await);
    let data = cluster.data_dir().display().to_string();
    cluster.kill_supervisor();
    eventually(LIMIT, "every process is gone", || async {
        let left = processes_with(&data).map_err(|e| e.to_string())?;
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    })
    .await;
    cluster.start_again()?;
    assert_eq!(names(&cluster.wait_running(3).await), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_on_the_same_data_is_refused_by_name() -> anyhow::Result<()> {
    let cluster = Cluster::start(&["--nodes", "0"])?;
    let refused = cluster.order(&["up"]).expect_err("the first one runs").to_string();
    assert!(refused.contains("is already running (pid "), "{refused}");
    Ok(())
}

#[test]
fn a_start_without_hope_ends_with_what_the_component_said() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let state = data.join("server/state");
    std::fs::create_dir_all(&state)?;
    std::fs::write(data.join("up.lock"), "")?;
    std::fs::write(state.join("db"), "x\n")?;
    std::fs::write(data.join("server/state.mark"), "")?;
    for flags in [&["--detach"][..], &[]] {
        let output = up(folder.path(), &data, flags)?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {said}");
        let log = data.join("logs/server.log");
        for word in ["error: the cluster did not start: server ended 3 times", "state", &*log.to_string_lossy()] {
            assert!(said.contains(word), "{flags:?}: {word:?} is not in: {said}");
        }
        assert_eq!(said.matches("error: ").count(), 1, "{flags:?}: one message: {said}");
        assert_eq!(processes_with(&data.display().to_string())?, Vec::<String>::new(), "{flags:?}: nothing is left");
    }
    Ok(())
}

#[test]
fn a_cluster_and_a_server_keep_out_of_each_others_folders() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(&["--nodes", "0", "--name", "a"])?;
    let data = cluster.data_dir();
    let refused = cluster.order(&["up", "--name", "b"]).expect_err("it is a").to_string();
    assert!(refused.contains("is the folder of cluster \"a\""), "{refused}");
    cluster.supervisor().stop()?;
    let kubeconfig = std::fs::read(data.join("kubeconfig"))?;
    for durability in ["sync", "memory"] {
        let refused = cluster.order(&["server", "--durability", durability]).expect_err("a cluster's").to_string();
        assert!(refused.contains("this is the folder of a cluster"), "{refused}");
    }
    assert_eq!(std::fs::read(data.join("kubeconfig"))?, kubeconfig);

    let folder = tempfile::tempdir()?;
    let theirs = folder.path().join("theirs");
    std::fs::create_dir(&theirs)?;
    std::fs::write(theirs.join("notes.txt"), "mine")?;
    for (place, word) in [(theirs.clone(), "\"notes.txt\""), (data.join("server"), "lw server --data-dir")] {
        let before = std::fs::read_dir(&place)?.count();
        for flags in [&["--detach"][..], &[]] {
            let output = up(folder.path(), &place, flags)?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(word), "{said}");
        }
        assert_eq!(std::fs::read_dir(&place)?.count(), before, "{}: nothing was put there", place.display());
    }
    Ok(())
}

/// A start that is expected to fail, with what it said.
fn up(folder: &std::path::Path, data: &std::path::Path, flags: &[&str]) -> anyhow::Result<std::process::Output> {
    let mut command = std::process::Command::new(integration_tests::binary::lw());
    command.args(["up", "--client-port", "0", "--secure-port", "0", "--data-dir"]).arg(data).args(flags);
    Ok(command.env("XDG_STATE_HOME", folder.join("state")).output()?)
}

fn component_of(status: &Value, name: &str) -> Value {
    let components = status["components"].as_array().map_or(&[][..], Vec::as_slice);
    components.iter().find(|c| c["name"] == name).cloned().unwrap_or_default()
}
