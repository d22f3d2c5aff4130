//! The worker of one pod: looks at what is wanted and what is there, acts, tells, and waits for the next change.
//!
//! Invariants: level-triggered, so that a missed or doubled change does no harm; strictly forward: a pod that stops
//! never starts a container again; the API's object is removed only after every container has ended.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use tokio::sync::watch;

use super::{
    super::{
        pod::{
            backoff::Backoffs,
            plan::{self, Plan},
            spec::{self, Role},
            status::{self, Seen, Waiting},
        },
        runtime::seam::{ContainerState, ContainerStatus, PodConfig},
    },
    Context,
    start::{Failures, Outcome, Starter, container_reference},
    writer::StatusWriter,
};
use crate::{
    client::{Cached, DeleteParams},
    runtime::{Backoff, BackoffPolicy, EventType},
};

/// What a pod removed without grace still has: an end without a word would lose what its containers hold in memory.
const GRACE_FORCED: Duration = Duration::from_secs(2);

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

/// One pod's worker.
pub(super) struct Worker {
    context: Arc<Context>,
    config: PodConfig,
    orders: watch::Receiver<Order>,
    /// As last seen; `None` for a pod that only the runtime knows.
    pod: Option<Arc<Cached<Pod>>>,
    writer: Option<StatusWriter>,
    stage: Stage,
    pod_ip: Option<String>,
    crashes: Backoffs,
    failures: Failures,
    waiting: BTreeMap<String, Waiting>,
    /// The ports of each container that are not where the pod names them.
    ports: BTreeMap<String, String>,
    /// Why the pod as a whole has failed.
    failed: Option<(String, String)>,
    /// The grace each running container was asked to stop with.
    asked: HashMap<String, Duration>,
    /// The failure whose pause was told, by container.
    told: HashMap<String, Timestamp>,
}

/// Where the pod is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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
    pub(super) fn new(context: Arc<Context>, pod: Arc<Cached<Pod>>, orders: watch::Receiver<Order>) -> Self {
        let writer = StatusWriter::spawn(context.pods.clone(), context.pod_store.clone(), pod.clone());
        let config = PodConfig {
            uid: pod.uid.clone(),
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            host_network: pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true),
            grace: spec::grace(&pod),
        };
        Worker { pod: Some(pod), writer: Some(writer), ..Self::of_config(context, config, orders) }
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
            stage: Stage::Unadmitted,
            pod_ip: None,
            crashes,
            failures,
            waiting: BTreeMap::new(),
            ports: BTreeMap::new(),
            failed: None,
            asked: HashMap::new(),
            told: HashMap::new(),
        }
    }

    /// Runs until nothing of the pod is left. Dropping the future leaves its containers running.
    pub(super) async fn run(mut self) {
        let mut retry = Backoff::new(RETRY);
        loop {
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
        let known = self.context.runtime.pods().await?.into_iter().any(|found| found.config.uid == pod.uid);
        let seen_before = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        if pod.metadata.deletion_timestamp.is_some() || spec::is_terminal(&pod) {
            self.stage = Stage::Stopping;
            if known {
                self.context.ledger.enter(&pod.uid, &pod);
                self.pod_ip = Some(self.context.runtime.prepare(&self.config).await?);
            }
            return Ok(());
        }
        // A kubelet's restart never turns away what runs already.
        if known || seen_before {
            self.context.ledger.enter(&pod.uid, &pod);
        } else if let Err(rejection) = self.judge(&pod).await {
            let message = format!("Pod was rejected: {}", rejection.message);
            self.context.recorder.event(&pod, EventType::Warning, &rejection.reason, rejection.message);
            self.failed = Some((rejection.reason, message));
            self.stage = Stage::Stopping;
            return Ok(());
        }
        self.pod_ip = Some(self.context.runtime.prepare(&self.config).await?);
        self.stage = Stage::Running;
        Ok(())
    }

    async fn judge(&self, pod: &Cached<Pod>) -> Result<(), super::super::pod::admission::Rejection> {
        let key = listwatch_proto::resource::ObjectKey::new("", self.context.node_name.as_str());
        let cached = self.context.node_store.get(&key).map(|node| node.object.clone());
        let first = self.context.ledger.admit(&pod.uid, pod, &cached.unwrap_or_default());
        match first {
            // The picture of the node may be old or not there yet: look once more before turning a pod away for good.
            Err(rejection) if rejection.reason == "NodeAffinity" || rejection.reason == "TaintToleration" => {
                match self.context.nodes.get(&key).await {
                    Ok(live) => self.context.ledger.admit(&pod.uid, pod, &live.object),
                    Err(_) => Err(rejection),
                }
            }
            outcome => outcome,
        }
    }

    /// Starts what should run, ends what should not, tells how it is.
    async fn sync(&mut self, pod: &Arc<Cached<Pod>>) -> Step {
        let empty = PodSpec::default();
        let pod_spec = pod.spec.as_ref().unwrap_or(&empty);
        let deadline = self.deadline_left(pod, pod_spec);
        if deadline == Some(Duration::ZERO) {
            let message = "Pod was active on the node longer than the specified deadline";
            self.context.recorder.event(pod, EventType::Normal, "DeadlineExceeded", message);
            self.failed = Some(("DeadlineExceeded".into(), message.into()));
            self.stage = Stage::Stopping;
            return self.stop(false).await;
        }
        let states = self.context.runtime.containers(&pod.uid);
        let now = self.context.clock.now();
        let plan = plan::plan(pod_spec, now, &states, &self.crashes);
        let mut wake = deadline;
        self.pause(pod, &plan, &mut wake);
        for (container, role) in &plan.replace {
            let message = format!("Container {} definition changed, will be restarted", container.name);
            self.stop_container(pod, &container.name, *role, spec::grace(pod), &message).await?;
        }
        for start in &plan.start {
            if let Some(failed) = start.after {
                self.crashes.tried(&start.container.name, failed, now);
            }
            self.asked.remove(&start.container.name);
            let mut starter = Starter {
                context: &self.context,
                pod,
                pod_ip: self.pod_ip.as_deref().unwrap_or_default(),
                failures: &mut self.failures,
            };
            match starter.start(start.container, start.role).await {
                Outcome::Started(ports) => self.note_ports(pod, &start.container.name, start.role, &ports),
                Outcome::Waits(why, again) => {
                    self.waiting.insert(start.container.name.clone(), why);
                    wake = earlier(wake, again);
                }
            }
        }
        if plan.over {
            self.stop_running(pod, pod_spec, &states, spec::grace(pod)).await?;
        }
        let states = self.context.runtime.containers(&pod.uid);
        self.tell(pod, &states);
        if plan.over && states.iter().all(is_exited) {
            self.stage = Stage::Stopped;
            self.context.ledger.leave(&pod.uid);
        }
        Ok(wake)
    }

    /// Containers that pause after failures are told as such.
    fn pause(&mut self, pod: &Arc<Cached<Pod>>, plan: &Plan<'_>, wake: &mut Option<Duration>) {
        self.waiting.clear();
        for paused in &plan.paused {
            let name = &paused.container.name;
            let message = format!(
                "back-off {}s restarting failed container={name} pod={}",
                paused.whole.as_secs(),
                spec::long_name(pod)
            );
            self.waiting.insert(name.clone(), Waiting { reason: "CrashLoopBackOff", message });
            *wake = earlier(*wake, Some(paused.left));
            let states = self.context.runtime.containers(&pod.uid);
            let ended = states.iter().find(|state| state.name == *name).and_then(|state| match &state.state {
                ContainerState::Exited(exit) => Some(exit.finished_at),
                ContainerState::Running { .. } => None,
            });
            if let Some(ended) = ended
                && self.told.insert(name.clone(), ended) != Some(ended)
            {
                let message = format!("Back-off restarting failed container {name} in pod {}", spec::long_name(pod));
                let about = container_reference(pod, name, paused.role);
                self.context.recorder.event_about(about, EventType::Warning, "BackOff", message);
            }
        }
    }

    /// Ends the pod's containers, tells the last status, and has the object removed.
    async fn stop(&mut self, gone: bool) -> Step {
        let uid = self.config.uid.clone();
        let states = self.context.runtime.containers(&uid);
        if self.stage == Stage::Stopping {
            let grace = self.grace(gone);
            let running = match self.pod.clone() {
                Some(pod) => {
                    let empty = PodSpec::default();
                    let pod_spec = pod.spec.as_ref().unwrap_or(&empty);
                    let running = self.stop_running(&pod, pod_spec, &states, grace).await?;
                    self.waiting.clear();
                    // Of a pod that was over before, and whose traces are gone, the API knows more than we do.
                    if !(spec::is_terminal(&pod) && states.is_empty()) {
                        self.tell(&pod, &states);
                    }
                    running
                }
                None => self.stop_orphan(&states, grace).await?,
            };
            if running {
                return Ok(None);
            }
            self.context.ledger.leave(&uid);
            self.stage = Stage::Stopped;
        }
        if gone {
            self.context.runtime.remove(&uid).await?;
            self.stage = Stage::Finished;
            return Ok(None);
        }
        if let Some(pod) = self.pod.clone().filter(|pod| pod.metadata.deletion_timestamp.is_some()) {
            self.delete(&pod).await?;
        }
        Ok(None)
    }

    /// The time that running containers are given.
    fn grace(&self, gone: bool) -> Duration {
        match &self.pod {
            Some(_) if gone => GRACE_FORCED.min(self.config.grace),
            Some(pod) => spec::grace(pod),
            None => self.config.grace,
        }
    }

    /// Asks the running containers to stop, sidecars after all others. Tells whether any still runs.
    async fn stop_running(
        &mut self,
        pod: &Arc<Cached<Pod>>,
        pod_spec: &PodSpec,
        states: &[ContainerStatus],
        grace: Duration,
    ) -> Result<bool, Failure> {
        let running: Vec<_> = states.iter().filter(|state| !is_exited(state)).collect();
        let role_of = |name: &str| {
            spec::containers(pod_spec).find(|(container, _)| container.name == name).map_or(Role::App, |(_, role)| role)
        };
        let mains_run = running.iter().any(|state| role_of(&state.name) != Role::Sidecar);
        for state in &running {
            let role = role_of(&state.name);
            if role != Role::Sidecar || !mains_run {
                let message = format!("Stopping container {}", state.name);
                self.stop_container(pod, &state.name, role, grace, &message).await?;
            }
        }
        Ok(!running.is_empty())
    }

    async fn stop_orphan(&mut self, states: &[ContainerStatus], grace: Duration) -> Result<bool, Failure> {
        let running: Vec<_> = states.iter().filter(|state| !is_exited(state)).collect();
        for state in &running {
            if self.asked.insert(state.name.clone(), grace).is_none() {
                self.context.runtime.stop(&self.config.uid, &state.name, grace).await?;
            }
        }
        Ok(!running.is_empty())
    }

    /// Asks a container to stop, once for each shorter grace.
    async fn stop_container(
        &mut self,
        pod: &Arc<Cached<Pod>>,
        name: &str,
        role: Role,
        grace: Duration,
        message: &str,
    ) -> Result<(), Failure> {
        let before = self.asked.get(name).copied();
        if before.is_some_and(|before| before <= grace) {
            return Ok(());
        }
        if before.is_none() {
            let about = container_reference(pod, name, role);
            self.context.recorder.event_about(about, EventType::Normal, "Killing", message);
        }
        self.context.runtime.stop(&self.config.uid, name, grace).await?;
        self.asked.insert(name.to_owned(), grace);
        Ok(())
    }

    /// Has the object removed: the API keeps it only for us.
    async fn delete(&mut self, pod: &Arc<Cached<Pod>>) -> Result<(), Failure> {
        if let Some(writer) = &mut self.writer {
            writer.flush().await;
        }
        let params = DeleteParams::uid(pod.uid.as_str()).grace(0);
        match self.context.pods.delete(&pod.key, &params).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the API how the pod is.
    fn tell(&self, pod: &Arc<Cached<Pod>>, states: &[ContainerStatus]) {
        let Some(writer) = &self.writer else { return };
        let ended = states.iter().all(is_exited);
        let status = status::observe(Seen {
            pod,
            containers: states,
            waiting: &self.waiting,
            host_ip: &self.context.host_ip,
            pod_ip: self.pod_ip.as_deref(),
            ending: self.stage != Stage::Running,
            // A pod is told as over only when its containers are really gone.
            failed: self.failed.as_ref().filter(|_| ended),
            now: self.context.clock.now(),
        });
        writer.set(status, &self.ports);
    }

    /// Ports that are elsewhere than the pod names them are told to whoever looks at the pod.
    fn note_ports(
        &mut self,
        pod: &Arc<Cached<Pod>>,
        container: &str,
        role: Role,
        ports: &super::super::runtime::seam::Ports,
    ) {
        let moved: Vec<_> = ports.iter().filter(|(wanted, actual)| wanted != actual).collect();
        if moved.is_empty() {
            self.ports.remove(container);
            return;
        }
        let text = moved.iter().map(|(wanted, actual)| format!("{wanted}:{actual}")).collect::<Vec<_>>().join(",");
        if self.ports.insert(container.to_owned(), text.clone()) == Some(text) {
            return;
        }
        let ip = self.pod_ip.as_deref().unwrap_or_default();
        for (wanted, actual) in moved {
            let message =
                format!("Port {wanted} needs root or is taken: container {container} has {ip}:{actual} instead");
            let about = container_reference(pod, container, role);
            self.context.recorder.event_about(about, EventType::Normal, "PortReplaced", message);
        }
    }

    /// What is left of `activeDeadlineSeconds`.
    fn deadline_left(&self, pod: &Pod, pod_spec: &PodSpec) -> Option<Duration> {
        let limit = Duration::from_secs(u64::try_from(pod_spec.active_deadline_seconds?).ok()?);
        let now = self.context.clock.now();
        let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(now, |time| time.0);
        Some(limit.saturating_sub(Duration::try_from(now.duration_since(start)).unwrap_or_default()))
    }
}

/// A step that did not succeed; it is tried again.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Runtime(#[from] super::super::runtime::seam::RuntimeError),
    #[error(transparent)]
    Client(#[from] crate::client::Error),
}

/// When to look again at the latest; `None`: only after a change.
type Step = Result<Option<Duration>, Failure>;

fn is_exited(state: &ContainerStatus) -> bool {
    matches!(state.state, ContainerState::Exited(_))
}

fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
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
