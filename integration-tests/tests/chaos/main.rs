//! The whole loop under kills and standstills: a Deployment is scaled up and down while its components die or stop, one a
//! second, taken at random.
//!
//! What must hold: the end is exact; there are never many more pods than were asked for; no container has two processes at
//! any time; and whoever has nothing to do with it is left alone. `LW_CHAOS_SECONDS` says how long each storm lasts.

mod faults;
mod history;
mod processes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use faults::Fault;
use listwatch_integration_tests::{Cluster, eventually, seed};
use processes::{Lookout, running};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

/// After the storm everything is as asked within this time: the longest lease and back-off, and room.
const CALM: Duration = Duration::from_secs(90);
/// How long a storm lasts unless `LW_CHAOS_SECONDS` says otherwise.
const STORM: Duration = Duration::from_secs(20);
/// The counts between which the Deployment is scaled.
const COUNTS: [usize; 2] = [40, 3];
/// The pods of the Deployment that must not notice anything.
const STEADY: usize = 3;

/// One storm at a time: what is timed here is the product, not its tests.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn components_are_killed_every_second() -> anyhow::Result<()> {
    weather(&[], Fault::Kill).await
}

#[tokio::test(flavor = "multi_thread")]
async fn components_stand_still_for_five_seconds() -> anyhow::Result<()> {
    weather(&[], Fault::Stop).await
}

#[tokio::test(flavor = "multi_thread")]
async fn doubled_components_are_killed_every_second() -> anyhow::Result<()> {
    weather(&["--schedulers", "2", "--controller-managers", "2"], Fault::Kill).await
}

#[tokio::test(flavor = "multi_thread")]
async fn doubled_components_stand_still_for_five_seconds() -> anyhow::Result<()> {
    weather(&["--schedulers", "2", "--controller-managers", "2"], Fault::Stop).await
}

async fn weather(flags: &[&str], fault: Fault) -> anyhow::Result<()> {
    let _turn = TURN.lock().await;
    let mut random = StdRng::seed_from_u64(seed("--test chaos"));
    let time = match std::env::var("LW_CHAOS_SECONDS") {
        Ok(seconds) => Duration::from_secs(seconds.parse()?),
        Err(_) => STORM,
    };
    let cluster = Cluster::start(flags)?;
    deploy(&cluster, "steady", STEADY)?;
    cluster.wait_running(STEADY).await;
    let steady = running(&cluster.data_dir());
    let from = history::revision(&cluster).await? + 1;
    deploy(&cluster, "myapp", 3)?;
    cluster.wait_running(STEADY + 3).await;

    let lookout = Lookout::start(cluster.data_dir());
    let mut counts = StdRng::seed_from_u64(random.random());
    let (done, orders) = tokio::join!(
        faults::storm(&cluster, fault, time, &mut random),
        scale_up_and_down(&cluster, Instant::now() + time, &mut counts)
    );
    println!("done: {:?}, scaled {} times", done?, orders?);

    settled(&cluster, 3).await;
    let seen = lookout.end();
    assert!(seen.twice.is_empty(), "two processes of one container: {:#?}", seen.twice);
    assert!(seen.looks > time.as_secs(), "the lookout looked {} times only", seen.looks);
    let summary = history::check(&cluster, from, history::revision(&cluster).await?).await?;
    println!(
        "{} revisions, {} pods made, at most {} beyond what was asked for, {} looks",
        summary.revisions, summary.created, summary.most_beyond, seen.looks
    );
    let now = running(&cluster.data_dir());
    let touched: BTreeMap<&PathBuf, _> = steady.iter().filter(|(of, pids)| now.get(*of) != Some(pids)).collect();
    assert!(touched.is_empty(), "pods that nobody touched have other processes: {touched:?}");
    Ok(())
}

fn deploy(cluster: &Cluster, name: &str, replicas: usize) -> anyhow::Result<()> {
    let manifest = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "soscscs/myapp:v1"}]},
            },
        },
    });
    let file = cluster.data_dir().with_file_name(format!("{name}.json"));
    std::fs::write(&file, manifest.to_string())?;
    cluster.lw(&["apply", "-f", &file.display().to_string()])?;
    Ok(())
}

/// Orders the other count whenever the last one is reached, or has not been for some seconds; says how often it did. At the
/// end the small count is ordered.
async fn scale_up_and_down(cluster: &Cluster, end: Instant, random: &mut StdRng) -> anyhow::Result<u32> {
    let mut orders = 0;
    while Instant::now() < end {
        let count = COUNTS[orders % COUNTS.len()];
        order(cluster, count, end).await;
        orders += 1;
        let patience = Instant::now() + Duration::from_millis(random.random_range(3_000..12_000));
        while Instant::now() < patience.min(end) && !reached(cluster, count) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    order(cluster, 3, Instant::now() + CALM).await;
    Ok(u32::try_from(orders + 1)?)
}

/// Gives the order until it is taken: the server may be down.
async fn order(cluster: &Cluster, count: usize, end: Instant) {
    let replicas = format!("--replicas={count}");
    while Instant::now() < end {
        let said = tokio::task::block_in_place(|| cluster.output(&["scale", "deployment/myapp", &replicas]));
        if said.is_ok_and(|output| output.status.success()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn reached(cluster: &Cluster, count: usize) -> bool {
    let ready = tokio::task::block_in_place(|| cluster.lw(&["get", "deployment", "myapp", "-o", "json"]));
    let ready = ready.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    ready.is_some_and(|deployment| deployment["status"]["readyReplicas"] == count)
}

/// Waits until pods, processes and every count in every status are exact.
async fn settled(cluster: &Cluster, count: usize) {
    eventually(CALM, "everything is as it was asked for", || async {
        let pods = cluster.objects("pods").map_err(|e| e.to_string())?;
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
            conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let ready = pods.iter().filter(ready).count();
        let processes = running(&cluster.data_dir());
        let live: usize = processes.values().map(Vec::len).sum();
        let whole = STEADY + count;
        if pods.len() != whole || ready != whole || live != whole {
            return Err(format!("{} pods, {ready} ready, {live} processes", pods.len()));
        }
        for kind in ["replicasets", "deployments"] {
            let objects = cluster.objects(kind).map_err(|e| e.to_string())?;
            let exact = |o: &Value| {
                let (spec, status) = (&o["spec"]["replicas"], &o["status"]);
                ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| status[field] == *spec)
                    && status["observedGeneration"] == o["metadata"]["generation"]
            };
            if let Some(wrong) = objects.iter().find(|o| !exact(o)) {
                return Err(format!(
                    "{}: {} but {}",
                    wrong["metadata"]["name"], wrong["spec"]["replicas"], wrong["status"]
                ));
            }
        }
        Ok(())
    })
    .await;
}
