//! A pod that runs: what its worker does to keep it as its spec asks.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, PodSpec};

use super::{
    super::{
        pod::{
            facts::{Facts, Lookup, Token, TokenAsk},
            plan::{self, Plan, Situation, Start, backoff_name},
            probe,
            spec::{self, Role},
            status::Waiting,
        },
        runtime::seam::{ContainerState, ContainerStatus, Ports},
    },
    pod::{Failure, Stage, Step, Worker, earlier, is_exited},
    start::{Outcome, Starter, container_reference},
    volumes,
};
use crate::{
    client::Cached,
    clock::monotonic,
    runtime::{EventType, reference},
};

impl Worker {
    /// Starts what should run, ends what should not, tells how it is.
    pub(super) async fn sync(&mut self, pod: &Arc<Cached<Pod>>) -> Step {
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
        let mut wake = deadline;
        let with_cluster =
            |state: &ContainerStatus| matches!(&state.state, ContainerState::Exited(exit) if exit.interrupted);
        if states.iter().any(with_cluster) && (self.context.cluster_has_ended)() {
            // So will this kubelet, in a moment. What ended with the cluster is neither started nor told as an end of
            // its own: the next kubelet goes on from here.
            return Ok(None);
        }
        if !self.bring_volumes(pod, pod_spec).await? {
            self.waiting.clear();
            // Without its volumes a pod has no place yet, and so no address.
            let ip = self.pod_ip.take();
            self.tell(pod, &states);
            self.pod_ip = ip;
            return Ok(wake);
        }
        self.refuse_ephemeral(pod, pod_spec);
        self.look_after(pod, pod_spec, &states);
        let plan = self.plan(pod_spec, &states);
        self.pause(pod, &plan, &mut wake);
        for end in &plan.end {
            let grace = spec::grace_after(pod, end.container, end.probe);
            self.stop_container(pod, &end.container.name, end.role, grace, &end.message).await?;
        }
        if states.is_empty() && pod.status.as_ref().is_none_or(|status| status.start_time.is_none()) {
            // The pod is taken on, and whoever watches sees its containers being made, however soon they run.
            self.tell(pod, &states);
        }
        for start in &plan.start {
            let again = self.start(pod, start).await;
            wake = earlier(wake, again);
        }
        if plan.over {
            let ending_since = *self.ending_since.get_or_insert_with(monotonic);
            self.stop_running(pod, pod_spec, &states, spec::grace(pod), ending_since).await?;
        }
        let states = self.context.runtime.containers(&pod.uid);
        self.look_after(pod, pod_spec, &states);
        self.tell(pod, &states);
        if plan.over && states.iter().all(is_exited) {
            self.stage = Stage::Stopped;
            self.context.ledger.leave(&pod.uid);
        }
        Ok(wake)
    }

    /// Brings the volumes up to date. False: one was never made, so no container can be started.
    async fn bring_volumes(&mut self, pod: &Arc<Cached<Pod>>, pod_spec: &PodSpec) -> Result<bool, Failure> {
        if pod_spec.volumes.as_ref().is_none_or(Vec::is_empty) || self.context.runtime.is_simulation() {
            return Ok(true);
        }
        let dir = self.context.runtime.volumes(&pod.uid);
        let wanted = {
            let config_maps = self.config_maps.clone();
            let look = |name: &str| config_maps.get(name).map_or(Lookup::NotSeen, |watched| watched.look());
            let tokens = self.tokens.clone();
            let token = |ask: &TokenAsk| tokens.get(ask).map_or(Token::NotYet, |held| held.look());
            let facts = Facts {
                pod,
                host_ip: &self.context.host_ip,
                pod_ip: self.pod_ip.as_deref().unwrap_or_default(),
                allocatable: &self.context.allocatable,
                config_maps: &look,
                tokens: &token,
            };
            self.volumes.changed(&self.context, pod, &facts)
        };
        if !wanted.is_empty() {
            let (now, place) = (self.context.clock.now(), dir.clone());
            let outcomes = tokio::task::spawn_blocking(move || volumes::make(&place, wanted, now)).await;
            self.volumes.made(&self.context, pod, outcomes.map_err(std::io::Error::other)?);
        }
        Ok(self.volumes.all_there(pod_spec, &dir))
    }

    /// Follows the running containers by their probes, and takes down how they are.
    pub(super) fn look_after(&mut self, pod: &Arc<Cached<Pod>>, pod_spec: &PodSpec, states: &[ContainerStatus]) {
        let ip = self.pod_ip.clone().unwrap_or_default();
        self.health.clear();
        for (container, role) in spec::containers(pod_spec) {
            let state = states.iter().find(|state| state.name == container.name);
            if self.stage == Stage::Running {
                self.probes.follow(&self.context, pod, &ip, (container, role), state);
            }
            self.health.insert(container.name.clone(), self.probes.health(container));
        }
    }

    fn plan<'a>(&self, pod_spec: &'a PodSpec, states: &[ContainerStatus]) -> Plan<'a> {
        let situation = Situation {
            now: self.context.clock.now(),
            states,
            backoffs: &self.crashes,
            started: &|name| self.health.get(name).is_none_or(|health| health.started),
            sick: &|name| {
                let (container, _) = spec::containers(pod_spec).find(|(container, _)| container.name == name)?;
                self.probes.sick(container)
            },
        };
        plan::plan(pod_spec, &situation)
    }

    /// Starts a container; the answer is when to try again at the latest.
    async fn start(&mut self, pod: &Arc<Cached<Pod>>, start: &Start<'_>) -> Option<Duration> {
        if let Some(failed) = start.after {
            self.crashes.tried(&backoff_name(start.container), failed, self.context.clock.now());
        }
        self.asked.remove(&start.container.name);
        self.stoppers.remove(&start.container.name);
        let mut starter = Starter {
            context: &self.context,
            pod,
            pod_ip: self.pod_ip.as_deref().unwrap_or_default(),
            config_maps: &self.config_maps,
            failures: &mut self.failures,
        };
        match starter.start(start.container, start.role).await {
            Outcome::Started(ports) => {
                self.note_ports(pod, &start.container.name, start.role, &ports);
                self.post_start(pod, start.container, start.role);
                None
            }
            Outcome::Waits(why, again) => {
                self.waiting.insert(start.container.name.clone(), why);
                again
            }
        }
    }

    /// Runs the hook of a container that has just been started, if it has one and runs.
    fn post_start(&mut self, pod: &Arc<Cached<Pod>>, container: &Container, role: Role) {
        let handler = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
        // What it cannot do was said before the start.
        let Some(action) = handler.and_then(|handler| probe::hook(handler, container).ok()) else { return };
        let states = self.context.runtime.containers(&pod.uid);
        if let Some(state) = states.iter().find(|state| state.name == container.name && !is_exited(state)) {
            let ip = self.pod_ip.as_deref().unwrap_or_default();
            self.probes.post_start(&self.context, pod, ip, (container, role), &state.id, action);
        }
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

    /// Says of new ephemeral containers that they are not started; what the API was told by an earlier kubelet is not
    /// told again.
    fn refuse_ephemeral(&mut self, pod: &Arc<Cached<Pod>>, pod_spec: &PodSpec) {
        let statuses = pod.status.as_ref().and_then(|status| status.ephemeral_container_statuses.as_deref());
        let known = |name: &str| statuses.is_some_and(|list| list.iter().any(|status| status.name == name));
        for name in spec::ephemeral(pod_spec).filter(|name| !known(name)) {
            if self.refused.insert(name.to_owned()) {
                let field_path = Some(format!("spec.ephemeralContainers{{{name}}}"));
                let about = ObjectReference { field_path, ..reference(pod) };
                let message = format!("Error: {}", spec::EPHEMERAL_REFUSED);
                self.context.recorder.event_about(about, EventType::Warning, "Failed", message);
            }
        }
    }

    /// Ports that are elsewhere than the pod names them are told to whoever looks at the pod.
    fn note_ports(&mut self, pod: &Arc<Cached<Pod>>, container: &str, role: Role, ports: &Ports) {
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
