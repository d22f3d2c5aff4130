//! A kubelet that is killed again and again, at any moment of its start and its work: the kernel is asked all the time who
//! runs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use listwatch_components::client::DeleteParams;
use listwatch_integration_tests::{eventually, seed};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::node::{LIMIT, Node, mounts_are_possible, pid, shell};

/// How many kubelets die.
const DEATHS: usize = 30;

/// The container `UID/NAME` of each process that leads one, below the pods of a kubelet.
fn running(pods: &Path) -> BTreeMap<PathBuf, Vec<u32>> {
    let mut found: BTreeMap<PathBuf, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(container) = container_of(pid, pods) {
            found.entry(container).or_default().push(pid);
        }
    }
    found
}

/// Its working directory names the container, also when it has a view of the machine of its own.
fn container_of(pid: u32, pods: &Path) -> Option<PathBuf> {
    let at = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let container: PathBuf = at.strip_prefix(pods).ok()?.iter().take(2).collect();
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // Between fork and exec a child of the shim stands there already, but is not the container yet.
    let is_shim = command.split(|byte| *byte == 0).nth(1) == Some(b"shim");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X");
    let leads = fields.nth(1)?.parse::<u32>().ok()? == pid;
    (lives && leads && !is_shim).then_some(container)
}

/// Containers that had two processes at one moment, until it is told to stop.
fn look_out(pods: &Path, stop: &AtomicBool) -> Vec<String> {
    let mut twice = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for (container, pids) in running(pods).into_iter().filter(|(_, pids)| pids.len() > 1) {
            // One may have ended before the other began, within this look: both must be there still.
            let still = |pid: &&u32| container_of(**pid, pods).as_ref() == Some(&container);
            if pids.iter().filter(still).count() > 1 {
                twice.push(format!("{} as {pids:?}", container.display()));
            }
        }
    }
    twice
}

fn with_volume(policy: &str, script: &str) -> Value {
    let mut spec = shell(policy, script);
    spec["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/listwatch-pod/scratch"}]);
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_dies_again_and_again_never_runs_a_container_twice() -> Result<()> {
    if !mounts_are_possible() {
        return Ok(());
    }
    let mut random = StdRng::seed_from_u64(seed("--test kubelet storm"));
    let mut node = Node::start(&["--failure-backoff", "0", "--failure-backoff-max", "0", "--wait-for-lock"]).await?;
    let pods = node.folder.path().join("root/pods");
    let steady = node.create("steady", with_volume("Always", "exec sleep 3600")).await?;
    let steady_before = node.wait_running(&steady).await;
    let seen = running(&pods).remove(&Path::new(steady_before.uid()).join("app"));
    assert_eq!(seen.map(|pids| pids.len()), Some(1), "who looks sees it");
    let stop = Arc::new(AtomicBool::new(false));
    let lookout = std::thread::spawn({
        let (pods, stop) = (pods.clone(), stop.clone());
        move || look_out(&pods, &stop)
    });
    node.create("restless", shell("Always", "sleep 0.05; exit 1")).await?;
    node.create("restless-mounts", with_volume("Always", "sleep 0.03; exit 1")).await?;
    node.kubelet.kill();
    let mut last = None;
    for n in 0..DEATHS {
        let mut kubelet = node.start_blindly()?;
        let key = node.create(&format!("passing-{n}"), with_volume("Always", "exec sleep 3600")).await?;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
        if let Some(key) = last.replace(key) {
            let grace = random.random_range(0..2);
            node.pods.delete(&key, &DeleteParams::any().grace(grace)).await?;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..100))).await;
        kubelet.kill()?;
        kubelet.wait()?;
    }
    node.restart_kubelet(None)?;
    let last = last.expect("some were made");
    node.wait_running(&last).await;
    for n in 0..DEATHS - 1 {
        node.wait_gone(&listwatch_proto::resource::ObjectKey::new("default", format!("passing-{n}"))).await;
    }
    eventually(LIMIT, "only the pods of the API have processes", || async {
        let list = node.pods.list(&Default::default()).await.map_err(|error| error.to_string())?;
        let known: Vec<_> = list.items.iter().map(|pod| pod.uid().to_owned()).collect();
        let strange: Vec<_> =
            running(&pods).into_keys().filter(|of| !known.iter().any(|uid| of.starts_with(uid))).collect();
        if strange.is_empty() { Ok(()) } else { Err(format!("{strange:?}")) }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let twice = lookout.join().expect("it does not panic");
    assert!(twice.is_empty(), "two processes of one container: {twice:#?}");
    let after = node.pods.get(&steady).await?.object;
    assert_eq!(pid(&after, "app"), pid(&steady_before, "app"), "who was left alone has kept its process");
    Ok(())
}
