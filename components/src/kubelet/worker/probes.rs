//! The probes and start hooks of one pod's running containers, a task for each.
//!
//! Invariant: an answer belongs to one run of a container; a new run begins without any, but for what the API was told
//! of the same run by an earlier kubelet.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{
        pod::{
            probe::{Action, Answers, Kind, Settings},
            spec::Role,
            status::Health,
        },
        runtime::seam::{ContainerState, ContainerStatus},
    },
    Context,
    actions::{Done, Target, act},
    start::container_reference,
};
use crate::{client::Cached, runtime::EventType};

/// How long a start hook may take: the container's own start is over long before.
const HOOK_MAX: Duration = Duration::from_secs(24 * 3600);

/// All that ask about one pod.
#[derive(Debug)]
pub(super) struct Probes {
    asking: HashMap<(String, Kind), Asking>,
    /// Moves with every answer that counts.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Asking {
    /// The run that is asked about.
    run: String,
    said: watch::Receiver<Option<bool>>,
    /// Who asks; `None`: the answer was known.
    _task: Option<AbortOnDropHandle<()>>,
}

/// What a task needs to know.
struct Job {
    context: Arc<Context>,
    pod: Arc<Cached<Pod>>,
    role: Role,
    target: Target,
    kind: Kind,
    say: watch::Sender<Option<bool>>,
    changes: watch::Sender<u64>,
}

impl Default for Probes {
    fn default() -> Self {
        Probes { asking: HashMap::new(), changes: watch::Sender::new(0) }
    }
}

impl Probes {
    /// Moves with every answer that counts.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether anything is asked.
    pub(super) fn is_empty(&self) -> bool {
        self.asking.is_empty()
    }

    /// Asks what is to be asked of this container, and nothing of earlier runs.
    pub(super) fn follow(
        &mut self,
        context: &Arc<Context>,
        pod: &Arc<Cached<Pod>>,
        ip: &str,
        (container, role): (&Container, Role),
        state: Option<&ContainerStatus>,
    ) {
        let run = state.filter(|state| matches!(state.state, ContainerState::Running { .. }));
        let id = run.map(|state| state.id.as_str());
        self.asking.retain(|(name, _), asking| *name != container.name || Some(asking.run.as_str()) == id);
        let Some(ContainerStatus { state: ContainerState::Running { started_at }, id, .. }) = run else { return };
        for kind in [Kind::Startup, Kind::Readiness, Kind::Liveness] {
            let Some(probe) = kind.of(container) else { continue };
            let key = (container.name.clone(), kind);
            // The others begin when the container has come up.
            let due = kind == Kind::Startup || self.has_started(container);
            if !due || self.asking.contains_key(&key) {
                continue;
            }
            let command = probe.exec.as_ref().and_then(|exec| exec.command.as_deref()).unwrap_or_default();
            if let Some(answer) = context.runtime.answer(kind == Kind::Readiness, command) {
                let (_, said) = watch::channel(Some(answer));
                self.asking.insert(key, Asking { run: id.clone(), said, _task: None });
                continue;
            }
            // What it cannot do was said when the container was to be started.
            let Ok(settings) = Settings::of(probe, container) else { continue };
            let told = told(pod, &container.name, id, kind);
            let (say, said) = watch::channel(told);
            let job = self.job(context, pod, ip, (container, role), kind, say);
            let task = tokio::spawn(job.probe(settings, *started_at, told));
            self.asking.insert(key, Asking { run: id.clone(), said, _task: Some(AbortOnDropHandle::new(task)) });
        }
    }

    /// Runs the hook of a container that has just been started.
    pub(super) fn post_start(
        &mut self,
        context: &Arc<Context>,
        pod: &Arc<Cached<Pod>>,
        ip: &str,
        container: (&Container, Role),
        run: &str,
        action: Action,
    ) {
        let (say, said) = watch::channel(None);
        let job = self.job(context, pod, ip, container, Kind::PostStart, say);
        let task = Some(AbortOnDropHandle::new(tokio::spawn(job.hook(action))));
        let key = (container.0.name.clone(), Kind::PostStart);
        self.asking.insert(key, Asking { run: run.to_owned(), said, _task: task });
    }

    fn job(
        &self,
        context: &Arc<Context>,
        pod: &Arc<Cached<Pod>>,
        ip: &str,
        (container, role): (&Container, Role),
        kind: Kind,
        say: watch::Sender<Option<bool>>,
    ) -> Job {
        let target = Target { uid: pod.uid.clone(), container: container.name.clone(), ip: ip.to_owned() };
        let (context, pod, changes) = (context.clone(), pod.clone(), self.changes.clone());
        Job { context, pod, role, target, kind, say, changes }
    }

    /// The pod is to end: only who asks for requests still wants to know.
    pub(super) fn end(&mut self) {
        // That it has come up once stays known.
        let stays = |kind: Kind, asking: &Asking| kind != Kind::Liveness && *asking.said.borrow() == Some(true);
        self.asking.retain(|(_, kind), asking| *kind == Kind::Readiness || stays(*kind, asking));
    }

    /// How a running container is.
    pub(super) fn health(&self, container: &Container) -> Health {
        let started = self.has_started(container);
        let ready = container.readiness_probe.is_none() || self.said(container, Kind::Readiness) == Some(true);
        Health { started, ready: started && ready }
    }

    /// What a running container must be ended for.
    pub(super) fn sick(&self, container: &Container) -> Option<Kind> {
        let kinds = [Kind::PostStart, Kind::Liveness, Kind::Startup];
        kinds.into_iter().find(|kind| self.said(container, *kind) == Some(false))
    }

    fn has_started(&self, container: &Container) -> bool {
        let hook = (container.name.clone(), Kind::PostStart);
        let hooked = !self.asking.contains_key(&hook) || self.said(container, Kind::PostStart) == Some(true);
        hooked && (container.startup_probe.is_none() || self.said(container, Kind::Startup) == Some(true))
    }

    fn said(&self, container: &Container, kind: Kind) -> Option<bool> {
        self.asking.get(&(container.name.clone(), kind)).and_then(|asking| *asking.said.borrow())
    }
}

impl Job {
    /// Asks again and again, until nothing more is to be learned of this run.
    async fn probe(self, settings: Settings, started_at: Timestamp, told: Option<bool>) {
        if self.kind == Kind::Startup && told == Some(true) {
            return;
        }
        let age = Duration::try_from(self.context.clock.now().duration_since(started_at)).unwrap_or_default();
        tokio::time::sleep(settings.delay.saturating_sub(age)).await;
        let mut answers = Answers::default();
        loop {
            let good = match act(&self.context, &self.target, &settings.action, settings.timeout).await {
                Done::Good => Some(true),
                Done::Bad(why) => {
                    self.event("Unhealthy", format!("{} probe failed: {why}", capital(self.kind.word())));
                    Some(false)
                }
                Done::Unknown(why) => {
                    let word = capital(self.kind.word());
                    self.event("Unhealthy", format!("{word} probe errored and resulted in unknown state: {why}"));
                    None
                }
            };
            if let Some(said) = good.and_then(|good| answers.note(good, &settings)) {
                self.tell(said);
                let last = match self.kind {
                    Kind::Startup => true,
                    Kind::Liveness => !said,
                    Kind::Readiness | Kind::PostStart => false,
                };
                if last {
                    return;
                }
            }
            tokio::time::sleep(settings.period).await;
        }
    }

    async fn hook(self, action: Action) {
        match act(&self.context, &self.target, &action, HOOK_MAX).await {
            Done::Good => self.tell(true),
            Done::Bad(why) | Done::Unknown(why) => {
                tracing::warn!(pod = %self.pod.key, container = self.target.container, why, "a postStart hook failed");
                self.event("FailedPostStartHook", "PostStartHook failed".to_owned());
                self.tell(false);
            }
        }
    }

    fn tell(&self, said: bool) {
        if self.say.send_replace(Some(said)) != Some(said) {
            self.changes.send_modify(|n| *n += 1);
        }
    }

    fn event(&self, reason: &str, message: String) {
        let about = container_reference(&self.pod, &self.target.container, self.role);
        self.context.recorder.event_about(about, EventType::Warning, reason, message);
    }
}

/// What the API was told of this run: a kubelet's restart is no news of a container.
fn told(pod: &Pod, container: &str, run: &str, kind: Kind) -> Option<bool> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let same =
        all.into_iter().find(|status| status.name == container && status.container_id.as_deref() == Some(run))?;
    match kind {
        Kind::Startup => same.started.filter(|started| *started),
        Kind::Readiness => same.ready.then_some(true),
        Kind::Liveness | Kind::PostStart => None,
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
