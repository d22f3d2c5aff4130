//! The scheduler as a program: watches, election, the loop, the bindings.
//!
//! Invariants: a candidate that is not the leader keeps its caches warm and writes nothing; a new leader first lets its
//! caches come to everything that was written before it became the leader, so it never places pods on room that its
//! predecessor has given away; the loop sleeps until something happens, it never polls.

use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::{Kind, Object};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::bind::{Binder, Bound};
use super::budget::Budget;
use super::evict::Evictor;
use super::framework::{Nomination, Profile};
use super::report::{Reporter, Reports, SCHEDULER_ERROR, UNSCHEDULABLE, reference, shorten};
use super::{Algorithm, Backoff, Core, Cycle, DEFAULT_SCHEDULER, Decision, Node, Pod, Queued};
use crate::client::{Client, Decode, Fence};
use crate::clock::{SharedClock, timer_now};
use crate::runtime::{
    Change, Controller, Doing, ElectionConfig, ElectionError, EventType, IndexerBuilder, Informer, LeaderElection,
    Outcome, Recorder, ReflectorConfig, catch_up,
};

/// Bindings under way at the same time: enough to hide the way to the server, few enough for one connection.
const BINDINGS_MAX: usize = 256;

/// How long bindings that are under way are let end: as long as a run of a controller. A pod whose binding is dropped is
/// bound already, or taken up by whoever leads next.
const LET_FINISH: Duration = Duration::from_secs(3);

/// What is told of a pod that got a node.
const BOUND: Doing = Doing { action: "Binding", reason: "Scheduled", kind: EventType::Normal };
/// Of one that got none.
const FAILED: Doing = Doing { action: "Scheduling", reason: "FailedScheduling", kind: EventType::Warning };
/// Of one that makes room.
const PREEMPTED: Doing = Doing { action: "Preempting", reason: "Preempted", kind: EventType::Normal };

/// What a scheduler may be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which pods are its own: those whose `spec.schedulerName` says so.
    pub scheduler_name: String,
    /// How many nodes must fit before the search ends, in percent; 0: fewer the more nodes there are.
    pub percentage_of_nodes_to_score: u8,
    /// Waits of pods that failed.
    pub backoff: Backoff,
    /// Seed of the generator that breaks ties; `None`: another one each time.
    pub seed: Option<u64>,
    /// The Lease to lead by; `None`: work without asking.
    pub election: Option<ElectionConfig>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            scheduler_name: DEFAULT_SCHEDULER.to_owned(),
            percentage_of_nodes_to_score: 0,
            backoff: Backoff::default(),
            seed: None,
            election: None,
        }
    }
}

/// Why a scheduler ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The election cannot be held.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// Another candidate leads, or none could be asked for too long: a fresh start is the way back.
    #[error("the scheduler has lost its lease")]
    LeaseLost,
}

impl Decode for Arc<Pod> {
    fn decode(wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
        Pod::from_json(&wire.json).map(Arc::new)
    }
}

impl Decode for Arc<Node> {
    fn decode(wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
        Node::from_json(&wire.json).map(Arc::new)
    }
}

/// What the watches, the loop and the bindings share.
struct Shared {
    /// Held for one change or one cycle at a time, never over an await.
    core: Mutex<Core>,
    /// Something has changed.
    changed: Notify,
    binder: Binder,
    evictor: Evictor,
    reports: Reports,
    recorder: Recorder,
}

/// Runs a scheduler until told to stop. `ready` is called once its caches have synced.
pub async fn run(
    options: Options,
    client: Client,
    clock: SharedClock,
    shutdown: CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), Error> {
    let pod_kind = Kind::by_plural("", "v1", "pods").expect("pods are a served kind");
    let node_kind = Kind::by_plural("", "v1", "nodes").expect("nodes are a served kind");
    let (recorder, recorder_task) = Recorder::new(&client, &options.scheduler_name, "", clock.clone());
    // What a leader writes goes through a fence, so that one that was stopped and wakes binds nothing.
    let fence = Fence::shut();
    let writer = if options.election.is_some() { client.fenced(fence.clone()) } else { client.clone() };
    let reporter = Reporter::new(&writer, pod_kind, clock.clone());
    let reporting = Controller::new("pod-condition", reporter.clone()).workers(16);
    let profile = Arc::new(Profile::standard());
    let algorithm = Algorithm::new(options.percentage_of_nodes_to_score, options.seed.unwrap_or_else(rand::random));
    let shared = Arc::new(Shared {
        core: Mutex::new(Core::new(&options.scheduler_name, profile.clone(), options.backoff, std_now())),
        changed: Notify::new(),
        binder: Binder::new(&writer, pod_kind),
        evictor: Evictor::new(&writer, pod_kind, &options.scheduler_name, clock.clone()),
        reports: reporter.reports(reporting.queue()),
        recorder: recorder.clone(),
    });

    let unfinished = unfinished();
    let mut pods = Informer::<Arc<Pod>>::with(&client, pod_kind, unfinished.clone(), IndexerBuilder::new());
    let mut nodes = Informer::<Arc<Node>>::with(&client, node_kind, ReflectorConfig::default(), IndexerBuilder::new());
    pods.on_change({
        let shared = shared.clone();
        move |change| shared.pod_changed(change)
    });
    nodes.on_change({
        let shared = shared.clone();
        move |change| shared.node_changed(change)
    });
    let budgets = budgets(&client, &shared);
    let (pod_store, node_store, budget_store) = (pods.store(), nodes.store(), budgets.store());

    let cycle = Cycle::new(profile, algorithm);
    let stop = CancellationToken::new();
    let _stop_on_drop = stop.clone().drop_guard();
    let mut tasks = JoinSet::new();
    tasks.spawn(pods.run(stop.clone()));
    tasks.spawn(nodes.run(stop.clone()));
    tasks.spawn(budgets.run(stop.clone()));
    tasks.spawn(reporting.run(stop.clone()));
    tasks.spawn(recorder_task.run(stop.clone()));

    let synced = async { tokio::join!(pod_store.wait_synced(), node_store.wait_synced(), budget_store.wait_synced()) };
    let outcome = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        _ = synced => {
            ready();
            Box::pin(lead(&options, &client, clock, (recorder, fence), shutdown.clone(), |token| {
                let client = client.clone();
                async move {
                    let written_before = client.seen_revision();
                    let caught_up = async {
                        catch_up(&client, pod_kind, &unfinished, &pod_store, written_before).await?;
                        catch_up(&client, node_kind, &ReflectorConfig::default(), &node_store, written_before).await
                    };
                    tokio::select! {
                        () = token.cancelled() => return,
                        // A feeder only ends when the program does.
                        _ = caught_up => {}
                    }
                    work(shared, cycle, token).await;
                }
            }))
            .await
        }
    };
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    outcome
}

/// Pods that have finished take nothing: they leave the selection, which the watch tells as a delete.
fn unfinished() -> ReflectorConfig {
    ReflectorConfig {
        field_selector: "status.phase!=Succeeded,status.phase!=Failed".to_owned(),
        ..ReflectorConfig::default()
    }
}

/// The feeder of disruption budgets.
fn budgets(client: &Client, shared: &Arc<Shared>) -> Informer<Object> {
    let kind = Kind::by_plural("policy", "v1", "poddisruptionbudgets").expect("budgets are a served kind");
    let mut budgets = Informer::<Object>::with(client, kind, ReflectorConfig::default(), IndexerBuilder::new());
    budgets.on_change({
        let (shared, store) = (shared.clone(), budgets.store());
        // They are few, and preemption looks at all of them.
        move |_| shared.core.lock().set_budgets(store.list().iter().filter_map(|budget| Budget::of(budget)).collect())
    });
    budgets
}

/// Waits to be the leader, if that is asked for, and works.
async fn lead<F: Future<Output = ()>>(
    options: &Options,
    client: &Client,
    clock: SharedClock,
    (recorder, fence): (Recorder, Fence),
    shutdown: CancellationToken,
    work: impl FnOnce(CancellationToken) -> F,
) -> Result<(), Error> {
    let Some(config) = options.election.clone() else {
        work(shutdown).await;
        return Ok(());
    };
    let election = LeaderElection::new(client, config, clock).recorder(recorder).fence(fence);
    match election.run(shutdown, work).await? {
        Outcome::Lost => Err(Error::LeaseLost),
        Outcome::Stopped | Outcome::Finished => Ok(()),
    }
}

/// The loop of a leader: one decision after another, bindings beside it.
async fn work(shared: Arc<Shared>, mut cycle: Cycle, stop: CancellationToken) {
    let mut bindings = JoinSet::new();
    while !stop.is_cancelled() {
        let decision = cycle.next(&shared.core, std_now);
        let wake_at = shared.core.lock().wake_at();
        match decision {
            Some(Decision::Bind { queued, node }) => {
                bindings.spawn(shared.clone().bind(queued, node));
                while bindings.try_join_next().is_some() {}
                if bindings.len() >= BINDINGS_MAX {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        _ = bindings.join_next() => {}
                    }
                }
                tokio::task::yield_now().await;
            }
            Some(Decision::Refuse { pod, message, nomination, displaced }) => {
                let nominated = match &nomination {
                    Nomination::Keep => None,
                    Nomination::Withdraw => Some(String::new()),
                    Nomination::Node { node, .. } => Some(node.to_string()),
                };
                shared.refused(pod.clone(), UNSCHEDULABLE, message, nominated);
                displaced.into_iter().for_each(|other| shared.reports.withdraw_nomination(other));
                if let Nomination::Node { node, victims } = nomination {
                    bindings.spawn(shared.clone().evict(pod, node, victims));
                }
                tokio::task::yield_now().await;
            }
            Some(Decision::Skip(pod)) => {
                let message = format!("skip schedule deleting pod: {}", pod.key);
                shared.recorder.deed(reference(&pod), None, FAILED, message);
                tokio::task::yield_now().await;
            }
            None => tokio::select! {
                // The end.
                () = stop.cancelled() => {}
                // Something has changed.
                () = shared.changed.notified() => {}
                // A pod's time has come.
                () = sleep_until(wake_at.map(Instant::from_std)) => {}
                // A binding has ended.
                Some(_) = bindings.join_next() => {}
            },
        }
    }
    let finish = async { while bindings.join_next().await.is_some() {} };
    if timeout(LET_FINISH, finish).await.is_err() {
        tracing::debug!(bindings = bindings.len(), "bindings that the server keeps waiting are dropped");
    }
}

impl Shared {
    fn pod_changed(&self, change: &Change<Arc<Pod>>) {
        let now = std_now();
        let mut core = self.core.lock();
        match change {
            Change::Added(pod) | Change::Updated { new: pod, .. } => core.set_pod(pod.object.clone(), now),
            Change::Deleted(pod) => core.remove_pod(&pod.key, now),
        }
        drop(core);
        self.changed.notify_one();
    }

    fn node_changed(&self, change: &Change<Arc<Node>>) {
        let mut core = self.core.lock();
        match change {
            Change::Added(node) | Change::Updated { new: node, .. } => {
                core.set_node(node.object.clone(), std_now());
            }
            Change::Deleted(node) => core.remove_node(&node.key.name),
        }
        drop(core);
        self.changed.notify_one();
    }

    async fn bind(self: Arc<Self>, queued: Queued, node: Arc<str>) {
        let pod = queued.pod.clone();
        match self.binder.bind(&queued, &node).await {
            Bound::Done => {
                tracing::debug!(pod = %pod.key, %node, attempts = queued.attempts, "bound");
                let message = format!("Successfully assigned {} to {node}", pod.key);
                self.recorder.deed(reference(&pod), None, BOUND, message);
            }
            Bound::Failed { error, live } => {
                tracing::debug!(pod = %pod.key, %node, %error, "binding failed");
                let again = live.as_ref().is_some_and(|live| live.uid == pod.uid && live.node_name.is_empty());
                // A leader that leads no more has nothing to say.
                if again && !live.as_ref().is_some_and(|live| live.terminating) && !error.is_not_leading() {
                    self.refused(
                        pod,
                        SCHEDULER_ERROR,
                        format!("binding rejected: running Bind plugin \"DefaultBinder\": {error}"),
                        None,
                    );
                }
                self.core.lock().bind_failed(queued, live, std_now());
                self.changed.notify_one();
            }
        }
    }

    /// Tells those to go who are in the way of a more important pod.
    async fn evict(self: Arc<Self>, pod: Arc<Pod>, node: Arc<str>, victims: Vec<Arc<Pod>>) {
        let mut told = true;
        for victim in victims {
            match self.evictor.evict(&victim).await {
                Ok(()) => {
                    let message = format!("Preempted by pod {} on node {node}", pod.uid);
                    self.recorder.deed(reference(&victim), Some(reference(&pod)), PREEMPTED, message);
                }
                Err(error) => {
                    tracing::debug!(pod = %pod.key, victim = %victim.key, %error, "cannot preempt");
                    told = false;
                    break;
                }
            }
        }
        if !told {
            self.reports.withdraw_nomination(pod.clone());
        }
        self.core.lock().evicted(&pod.key, told, std_now());
        self.changed.notify_one();
    }

    /// Tells why a pod has no node, and which one it was promised.
    fn refused(&self, pod: Arc<Pod>, reason: &'static str, message: String, nominated: Option<String>) {
        self.recorder.deed(reference(&pod), None, FAILED, shorten(&message));
        self.reports.say(pod, reason, message, nominated);
    }
}

fn std_now() -> std::time::Instant {
    timer_now().into_std()
}

/// Waits for an instant; for ever, if there is none.
async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
