//! The worker of one pod: looks at what is wanted and what is there, acts, tells, and waits for the next change.
//!
//! Invariants: level-triggered, so that a missed or doubled change does no harm; strictly forward: a pod that stops
//! never starts a container again; the API's object is removed only after every container has ended.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use listwatch_proto::resource::ObjectKey;
use tokio::sync::watch;

use super::{
    super::{
        pod::{
            admission::Rejection,
            backoff::Backoffs,
            facts::{self, TokenAsk},
            spec,
            status::{self, Health, Seen, Waiting},
        },
        runtime::seam::{ContainerState, ContainerStatus, PodConfig},
    },
    Context,
    config_maps::Watched,
    probes::Probes,
    start::Failures,
    stopper::Stopper,
    tokens::{Held, TokenKey},
    volumes::Volumes,
    writer::StatusWriter,
};
use crate::{
    client::Cached,
    runtime::{Backoff, BackoffPolicy, EventType},
};

/// Pauses while something does not succeed that must.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(20), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };

/// What is wanted of a worker.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// The pod is so.
    Pod(Arc<Cached<Pod>>),
    /// The API has it no more.
    Gone,
}

/// What the node says to a pod.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It may run here; it is entered in the ledger.
    Taken,
    /// It may not.
    Rejected(Rejection),
    /// The picture of the node may be old or not there yet: it is asked for anew before a pod is turned away for good.
    AskAgain,
}

/// One pod's worker.
pub(super) struct Worker {
    pub(super) context: Arc<Context>,
    pub(super) config: PodConfig,
    orders: watch::Receiver<Order>,
    /// As last seen; `None` for a pod that only the runtime knows.
    pub(super) pod: Option<Arc<Cached<Pod>>>,
    pub(super) writer: Option<StatusWriter>,
    verdict: Verdict,
    pub(super) stage: Stage,
    pub(super) pod_ip: Option<String>,
    pub(super) crashes: Backoffs,
    pub(super) failures: Failures,
    pub(super) waiting: BTreeMap<String, Waiting>,
    pub(super) health: BTreeMap<String, Health>,
    pub(super) probes: Probes,
    /// The containers that are ended by way of a hook.
    pub(super) stoppers: HashMap<String, Stopper>,
    /// The ports of each container that are not where the pod names them.
    pub(super) ports: BTreeMap<String, String>,
    /// Why the pod as a whole has failed.
    pub(super) failed: Option<(String, String)>,
    /// The grace each running container was asked to stop with.
    pub(super) asked: HashMap<String, Duration>,
    /// When the pod was first seen to end, by the monotonic clock.
    pub(super) ending_since: Option<std::time::Instant>,
    /// The ConfigMaps that the pod names, once it runs.
    pub(super) config_maps: BTreeMap<String, Arc<Watched>>,
    /// The tokens that its volumes ask for, once it runs.
    pub(super) tokens: BTreeMap<TokenAsk, Arc<Held>>,
    pub(super) volumes: Volumes,
    /// The failure whose pause was told, by container.
    pub(super) told: HashMap<String, Timestamp>,
    /// The ephemeral containers that were told to be refused.
    pub(super) refused: BTreeSet<String>,
}

/// Where the pod is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// New to this kubelet. Next: `Running` if the node takes it, else `Stopping`.
    Unadmitted,
    /// Containers are started and kept. Next: `Stopping`.
    Running,
    /// Containers are ended; none is started any more. Next: `Stopped` when none is left.
    Stopping,
    /// No container is left and the API has the last status. Next: `Finished` when the object is gone.
    Stopped,
    /// Nothing is left.
    Finished,
}

impl Worker {
    /// A worker for a pod of the API.
    pub(super) fn new(
        context: Arc<Context>,
        pod: Arc<Cached<Pod>>,
        verdict: Verdict,
        orders: watch::Receiver<Order>,
    ) -> Self {
        let writer = StatusWriter::spawn(context.pods.clone(), context.pod_store.clone(), pod.clone());
        let config = PodConfig {
            uid: pod.uid.clone(),
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            host_network: pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true),
            grace: spec::grace(&pod),
        };
        Worker { pod: Some(pod), writer: Some(writer), verdict, ..Self::of_config(context, config, orders) }
    }

    /// A worker for a pod that the API has no more.
    pub(super) fn orphan(context: Arc<Context>, config: PodConfig, orders: watch::Receiver<Order>) -> Self {
        Worker { stage: Stage::Stopping, ..Self::of_config(context, config, orders) }
    }

    fn of_config(context: Arc<Context>, config: PodConfig, orders: watch::Receiver<Order>) -> Self {
        let backoffs = || Backoffs::new(context.backoff);
        let (crashes, failures) = (backoffs(), Failures::new(backoffs()));
        Worker {
            context,
            config,
            orders,
            pod: None,
            writer: None,
            verdict: Verdict::Taken,
            stage: Stage::Unadmitted,
            pod_ip: None,
            crashes,
            failures,
            waiting: BTreeMap::new(),
            health: BTreeMap::new(),
            probes: Probes::default(),
            stoppers: HashMap::new(),
            ports: BTreeMap::new(),
            failed: None,
            asked: HashMap::new(),
            ending_since: None,
            config_maps: BTreeMap::new(),
            tokens: BTreeMap::new(),
            volumes: Volumes::default(),
            told: HashMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Runs until nothing of the pod is left. Dropping the future leaves its containers running.
    pub(super) async fn run(mut self) {
        let mut retry = Backoff::new(RETRY);
        let mut maps = self.context.config_maps.changes();
        let mut tokens = self.context.tokens.changes();
        let mut answers = self.probes.changes();
        loop {
            maps.mark_unchanged();
            tokens.mark_unchanged();
            answers.mark_unchanged();
            // Subscribed before looking, so that no change falls between look and wait.
            let mut changes = self.context.runtime.changes(&self.config.uid);
            let wake = match self.step().await {
                Ok(wake) => {
                    retry.reset();
                    wake
                }
                Err(error) => {
                    tracing::warn!(pod = %self.config.name, namespace = %self.config.namespace, %error, "pod sync failed");
                    Some(retry.next_delay())
                }
            };
            if self.stage == Stage::Finished {
                return;
            }
            tokio::select! {
                order = self.orders.changed() => if order.is_err() { return },
                () = changed(&mut changes) => {}
                () = changed(&mut answers), if !self.probes.is_empty() => {}
                () = changed(&mut maps), if !self.config_maps.is_empty() => {}
                () = changed(&mut tokens), if !self.tokens.is_empty() => {}
                () = sleep(wake) => {}
            }
        }
    }

    /// One look and what follows from it. The answer is when to look again at the latest.
    async fn step(&mut self) -> Step {
        let gone = match &*self.orders.borrow_and_update() {
            Order::Pod(pod) => {
                self.pod = Some(pod.clone());
                false
            }
            Order::Gone => true,
        };
        if self.stage == Stage::Unadmitted {
            self.admit(gone).await?;
        }
        if self.stage == Stage::Running {
            let pod = self.pod.clone();
            let Some(pod) = pod.filter(|pod| !gone && pod.metadata.deletion_timestamp.is_none()) else {
                self.stage = Stage::Stopping;
                return Box::pin(self.stop(gone)).await;
            };
            return self.sync(&pod).await;
        }
        self.stop(gone).await
    }

    /// Decides whether the pod may run here at all.
    async fn admit(&mut self, gone: bool) -> Result<(), Failure> {
        let Some(pod) = self.pod.clone().filter(|_| !gone) else {
            self.stage = Stage::Stopping;
            return Ok(());
        };
        if is_ending(&pod) {
            self.stage = Stage::Stopping;
            // Its containers may still be there, and it takes its place until they are gone.
            let known = self.context.runtime.pods().await?.into_iter().find(|found| found.config.uid == pod.uid);
            self.pod_ip = known.map(|known| known.ip);
            return Ok(());
        }
        if matches!(self.verdict, Verdict::AskAgain) {
            let key = ObjectKey::new("", self.context.node_name.as_str());
            let node = self.context.nodes.get(&key).await?;
            self.verdict = match self.context.ledger.admit(&pod.uid, &pod, &node.object) {
                Ok(()) => Verdict::Taken,
                Err(rejection) => Verdict::Rejected(rejection),
            };
        }
        if let Verdict::Rejected(rejection) = &self.verdict {
            let message = format!("Pod was rejected: {}", rejection.message);
            self.context.recorder.event(&pod, EventType::Warning, &rejection.reason, rejection.message.clone());
            self.failed = Some((rejection.reason.clone(), message));
            self.stage = Stage::Stopping;
            return Ok(());
        }
        self.pod_ip = Some(self.context.runtime.prepare(&self.config).await?);
        let named = pod.spec.iter().filter(|_| !self.context.runtime.is_simulation()).flat_map(facts::config_maps);
        for name in named {
            let key = ObjectKey::new(pod.key.namespace.as_str(), name.as_str());
            self.config_maps.insert(name, self.context.config_maps.watch(&key));
        }
        let asked = pod.spec.iter().filter(|_| !self.context.runtime.is_simulation());
        for (spec, ask) in asked.flat_map(|spec| facts::tokens(spec).into_iter().map(move |ask| (spec, ask))) {
            let account = spec.service_account_name.as_deref().unwrap_or("default");
            let key = TokenKey {
                account: ObjectKey::new(pod.key.namespace.as_str(), account),
                pod: pod.key.name.to_string(),
                uid: pod.uid.to_string(),
                ask: ask.clone(),
            };
            self.tokens.insert(ask, self.context.tokens.hold(&key));
        }
        self.stage = Stage::Running;
        Ok(())
    }

    /// Tells the API how the pod is.
    pub(super) fn tell(&self, pod: &Arc<Cached<Pod>>, states: &[ContainerStatus]) {
        let Some(writer) = &self.writer else { return };
        let ended = states.iter().all(is_exited);
        let status = status::observe(Seen {
            pod,
            containers: states,
            waiting: &self.waiting,
            health: &self.health,
            host_ip: &self.context.host_ip,
            pod_ip: self.pod_ip.as_deref(),
            ending: self.stage != Stage::Running,
            // A pod is told as over only when its containers are really gone.
            failed: self.failed.as_ref().filter(|_| ended),
            simulated: self.context.runtime.is_simulation(),
            now: self.context.clock.now(),
        });
        writer.set(status, &self.ports);
    }
}

/// A step that did not succeed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Runtime(#[from] super::super::runtime::seam::RuntimeError),
    #[error("make the volumes: {0}")]
    Volumes(#[from] std::io::Error),
    #[error(transparent)]
    Client(#[from] crate::client::Error),
}

/// When to look again at the latest; `None`: only after a change.
pub(super) type Step = Result<Option<Duration>, Failure>;

pub(super) fn is_exited(state: &ContainerStatus) -> bool {
    matches!(state.state, ContainerState::Exited(_))
}

pub(super) fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Whether the pod is over, or on its way out.
pub(super) fn is_ending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || spec::is_terminal(pod)
}

/// A change of the pod's containers; never, if the runtime has no such pod yet.
async fn changed(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn sleep(wake: Option<Duration>) {
    match wake {
        Some(wake) => tokio::time::sleep(wake).await,
        None => std::future::pending().await,
    }
}
