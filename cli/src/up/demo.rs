//! The chain from a Deployment to Running pods, shown as it happens.
//!
//! The demo is a client like any other: it applies the example and watches. Who did a step is told from the step: only
//! the controller-manager makes ReplicaSets and Pods, only the scheduler binds, only kubelets report a pod's state.
//!
//! On the data of an earlier start the objects are there already, and their status is of that time until the kubelets
//! have looked: what was found is told as found, and a pod counts as Running only while its process lives.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use listwatch_components::client::{Api, Cached, Client, Patch, Watch, WatchEvent, WatchParams, load_kubeconfig};
use listwatch_proto::resource::{Kind, Object};
use serde_json::json;
use tokio::sync::mpsc;

use super::spec::Plan;
use crate::commands::{with_causes, with_last_applied};
use crate::terminal::{Unwritten, say, tell};

/// What is applied: the example of the repository.
const EXAMPLE: &str = include_str!("../../../examples/myapp.yaml");
/// When the pods are not Running by then, the demo says what it sees instead.
const PATIENCE: Duration = Duration::from_secs(60);
/// Who is told for what an earlier start has left.
const FOUND: &str = "found in the store";
/// Events that wait to be printed.
const QUEUE: usize = 256;

/// Runs the demo; what goes wrong is told, the cluster stays up.
pub(crate) async fn run(plan: &Plan, begun: Instant) {
    if let Err(error) = chain(plan, begun).await {
        tell!("demo: {}", with_causes(error.as_ref()));
    }
}

async fn chain(plan: &Plan, begun: Instant) -> anyhow::Result<()> {
    let client = connect(&plan.layout.kubeconfig())?;
    let example: Object = serde_norway::from_str(EXAMPLE).context("read the example")?;
    let (send, mut steps) = mpsc::channel(QUEUE);
    for kind in ["Deployment", "ReplicaSet", "Pod"] {
        let kind = Kind::by_name(kind).expect("a served kind");
        let watch = open(&client, kind).await?;
        tokio::spawn(follow(kind, watch, send.clone()));
    }
    drop(send);
    say!("\n      ms  revision  who                 what")?;
    let applied = Instant::now();
    let (revision, word) = apply(&client, &example).await?;
    let replicas = example.int(&["spec", "replicas"]).unwrap_or(1);
    let image = example.at(&["spec", "template", "spec", "containers"]).and_then(|c| c[0]["image"].as_str());
    let what = format!("deployment/{} {word}: {replicas} replicas of {}", example.name(), image.unwrap_or("?"));
    line(applied, begun, revision, "lw apply", &what)?;
    let mut chain = Chain::new(begun, usize::try_from(replicas)?);
    let waited = tokio::time::timeout(PATIENCE, async {
        while let Some((at, kind, event)) = steps.recv().await {
            chain.step(at, kind, &event)?;
            if chain.running() == chain.wanted && chain.pods.len() == chain.wanted {
                return Ok(true);
            }
        }
        Ok(false)
    });
    let done = waited.await.unwrap_or(Ok::<_, Unwritten>(false))?;
    let (running, wanted, whole) = (chain.running(), chain.wanted, begun.elapsed().as_millis());
    if !done {
        table(&plan.layout.kubeconfig()).await?;
        bail!(
            "{running} of {wanted} pods are Running after {whole} ms: see `lw events` and {}",
            plan.layout.logs().display()
        );
    }
    say!(
        "\n{running} of {wanted} pods Running {whole} ms after the start, {} ms after the Deployment was applied\n",
        applied.elapsed().as_millis()
    )?;
    table(&plan.layout.kubeconfig()).await?;
    say!(
        "\nThe cluster stays up until Ctrl-C. Try: lw get pods -w; lw scale deployment/myapp --replicas=5; lw kill scheduler"
    )?;
    Ok(())
}

fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let selected = load_kubeconfig(kubeconfig, None)?;
    Ok(Client::new(&selected.config.named("lw up --demo"))?)
}

async fn open(client: &Client, kind: &'static Kind) -> anyhow::Result<Watch<Object>> {
    let params = WatchParams { namespace: "default".to_owned(), send_initial_events: true, ..WatchParams::default() };
    Api::<Object>::of_kind(client, kind).watch(&params).await.with_context(|| format!("watch {}", kind.plural))
}

type Step = (Instant, &'static Kind, WatchEvent<Object>);

async fn follow(kind: &'static Kind, mut watch: Watch<Object>, steps: mpsc::Sender<Step>) {
    while let Ok(Some(batch)) = watch.next().await {
        for event in batch.events {
            if steps.send((Instant::now(), kind, event)).await.is_err() {
                return;
            }
        }
    }
}

/// Creates the example, or brings an older one to the same spec; it remembers what was applied, so that a later
/// `lw apply` has nothing to warn of.
async fn apply(client: &Client, example: &Object) -> anyhow::Result<(i64, &'static str)> {
    let example = with_last_applied(example);
    let api = Api::<Object>::for_object(client, &example).context("the example is of a served kind")?;
    let key = example.key();
    let Some(found) = api.get_opt(&key).await? else {
        return Ok((api.create(&example).await?.revision, "created"));
    };
    let annotations = example.at(&["metadata", "annotations"]);
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}, "spec": example.at(&["spec"])}));
    let patched = api.patch(&key, &patch).await?;
    Ok((patched.revision, if patched.revision == found.revision { "unchanged" } else { "configured" }))
}

/// What has been seen of the pods, so that each step is told once.
struct Chain {
    begun: Instant,
    pods: BTreeMap<String, Pod>,
    replica_sets: BTreeMap<String, i64>,
    /// The kinds whose initial events are over: what comes now, happens now.
    live: BTreeSet<&'static str>,
    wanted: usize,
}

#[derive(Default, Clone, PartialEq, Eq)]
struct Pod {
    node: String,
    phase: String,
    ready: bool,
}

impl Chain {
    fn new(begun: Instant, wanted: usize) -> Chain {
        Chain { begun, pods: BTreeMap::new(), replica_sets: BTreeMap::new(), live: BTreeSet::new(), wanted }
    }

    fn running(&self) -> usize {
        self.pods.values().filter(|pod| pod.ready && pod.phase == "Running").count()
    }

    fn step(&mut self, at: Instant, kind: &'static Kind, event: &WatchEvent<Object>) -> Result<(), Unwritten> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => match kind.kind {
                "ReplicaSet" => self.replica_set(at, object)?,
                "Pod" => self.pod(at, object)?,
                _ => {}
            },
            WatchEvent::Deleted(object) => {
                self.pods.remove(&object.key.name);
            }
            WatchEvent::Bookmark { initial_events_end: true, .. } => {
                self.live.insert(kind.kind);
            }
            WatchEvent::Bookmark { .. } | WatchEvent::Unreadable { .. } => {}
        }
        Ok(())
    }

    fn replica_set(&mut self, at: Instant, set: &Cached<Object>) -> Result<(), Unwritten> {
        let replicas = set.object.int(&["spec", "replicas"]).unwrap_or(0);
        let before = self.replica_sets.insert(set.key.name.clone(), replicas);
        if before != Some(replicas) {
            let who = if self.live.contains("ReplicaSet") { "controller-manager" } else { FOUND };
            line(at, self.begun, set.revision, who, &format!("replicaset/{} wants {replicas} pods", set.key.name))?;
        }
        Ok(())
    }

    fn pod(&mut self, at: Instant, pod: &Cached<Object>) -> Result<(), Unwritten> {
        let object = &pod.object;
        let ready = object.condition("Ready").is_some_and(|c| c["status"] == "True");
        let now = Pod {
            node: object.text(&["spec", "nodeName"]).to_owned(),
            phase: object.text(&["status", "phase"]).to_owned(),
            ready: ready && !object.is_terminating() && lives(object),
        };
        let name = &pod.key.name;
        let before = self.pods.insert(name.clone(), now.clone());
        let say_of = |who: &str, what: &str| line(at, self.begun, pod.revision, who, &format!("pod/{name} {what}"));
        if !self.live.contains("Pod") {
            return say_of(FOUND, if now.node.is_empty() { "without a node" } else { "bound to a node" });
        }
        if before.is_none() && now.node.is_empty() {
            say_of("controller-manager", "created")?;
        }
        let before = before.unwrap_or_default();
        if before.node != now.node {
            say_of("scheduler", &format!("bound to {}", now.node))?;
        }
        if (before.phase != now.phase || before.ready != now.ready) && now.phase != "Pending" {
            let ready = if now.ready { " and ready" } else { "" };
            say_of(&format!("kubelet-{}", now.node), &format!("{}{ready}", now.phase))?;
        }
        Ok(())
    }
}

/// Whether the process of every container lives: `process://PID.STARTTICKS`, as the kubelet names it.
fn lives(pod: &Object) -> bool {
    let statuses = pod.at(&["status", "containerStatuses"]).and_then(|list| list.as_array());
    let alive = |id: &str| {
        let (pid, ticks) = id.strip_prefix("process://")?.split_once('.')?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Field 22, counted behind the command's name, which may hold anything.
        let started = stat.rsplit_once(") ")?.1.split(' ').nth(19)?;
        Some(started == ticks)
    };
    statuses.is_some_and(|list| list.iter().all(|s| s["containerID"].as_str().and_then(alive).unwrap_or(false)))
}

fn line(at: Instant, begun: Instant, revision: i64, who: &str, what: &str) -> Result<(), Unwritten> {
    say!("{:>8.1}  {revision:>8}  {who:<18}  {what}", at.duration_since(begun).as_secs_f64() * 1000.0)
}

/// The table that every user sees: printed by the command that every user has.
async fn table(kubeconfig: &Path) -> anyhow::Result<()> {
    let mut get = tokio::process::Command::new(std::env::current_exe().context("find the lw binary")?);
    get.args(["get", "pods", "-o", "wide", "--kubeconfig"]).arg(kubeconfig);
    let status = get.status().await.context("run lw get")?;
    if !status.success() {
        bail!("lw get pods ended with {status}");
    }
    Ok(())
}
