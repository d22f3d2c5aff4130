//! A pod that ends: its containers, its last status, and the end of its object.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::{
    super::{
        pod::{
            plan,
            probe::{self, Action},
            spec::{self, Role},
        },
        runtime::seam::ContainerStatus,
    },
    actions::Target,
    pod::{Failure, Stage, Step, Worker, is_exited},
    start::container_reference,
    stopper::Stopper,
};
use crate::{
    client::{Cached, DeleteParams},
    clock::monotonic,
    runtime::EventType,
};

/// What a pod removed without grace still has: an end without a word would lose what its containers hold in memory.
const GRACE_FORCED: Duration = Duration::from_secs(2);

/// What a container has even if others have used up the pod's grace (Kubernetes 1.36: `minimumGracePeriodInSeconds`).
const GRACE_LEAST: Duration = Duration::from_secs(2);

impl Worker {
    /// Ends the pod's containers, tells the last status, and has the object removed.
    pub(super) async fn stop(&mut self, gone: bool) -> Step {
        let uid = self.config.uid.clone();
        let states = self.context.runtime.containers(&uid);
        if self.stage == Stage::Stopping {
            let grace = self.grace(gone);
            let ending_since = *self.ending_since.get_or_insert_with(monotonic);
            let running = match self.pod.clone() {
                Some(pod) => {
                    let empty = PodSpec::default();
                    let pod_spec = pod.spec.as_ref().unwrap_or(&empty);
                    let running = self.stop_running(&pod, pod_spec, &states, grace, ending_since).await?;
                    self.waiting.clear();
                    self.probes.end();
                    self.look_after(&pod, pod_spec, &states);
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
    pub(super) async fn stop_running(
        &mut self,
        pod: &Arc<Cached<Pod>>,
        pod_spec: &PodSpec,
        states: &[ContainerStatus],
        grace: Duration,
        ending_since: Instant,
    ) -> Result<bool, Failure> {
        let running: Vec<_> =
            states.iter().filter(|state| !is_exited(state)).map(|state| state.name.as_str()).collect();
        for (container, role) in plan::next_to_stop(pod_spec, &running) {
            let grace = match role {
                // The pod has one grace for all: who ends last has what the others left.
                Role::Sidecar => grace.saturating_sub(ending_since.elapsed()).max(GRACE_LEAST.min(grace)),
                _ => grace,
            };
            let message = format!("Stopping container {}", container.name);
            self.stop_container(pod, &container.name, role, grace, &message).await?;
        }
        // What the spec does not name any more cannot be of use to it.
        for state in states.iter().filter(|state| !is_exited(state)) {
            if spec::containers(pod_spec).all(|(container, _)| container.name != state.name) {
                self.stop_container(pod, &state.name, Role::App, grace, "Stopping container").await?;
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
    pub(super) async fn stop_container(
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
        match (self.stoppers.get(name), self.pre_stop(pod, name)) {
            (Some(stopper), _) => stopper.shorten(grace),
            (None, Some(hook)) if before.is_none() => {
                let target = Target {
                    uid: self.config.uid.clone(),
                    container: name.to_owned(),
                    ip: self.pod_ip.clone().unwrap_or_default(),
                };
                let (recorder, about) = (self.context.recorder.clone(), container_reference(pod, name, role));
                let failed = move |why: String| {
                    tracing::warn!(why, "a preStop hook failed");
                    recorder.event_about(about, EventType::Warning, "FailedPreStopHook", "PreStopHook failed");
                };
                let stopper = Stopper::start(self.context.clone(), target, hook, grace, failed);
                self.stoppers.insert(name.to_owned(), stopper);
            }
            _ => self.context.runtime.stop(&self.config.uid, name, grace).await?,
        }
        self.asked.insert(name.to_owned(), grace);
        Ok(())
    }

    /// What is to be done before the container is ended.
    fn pre_stop(&self, pod: &Pod, name: &str) -> Option<Action> {
        let spec = pod.spec.as_ref()?;
        let (container, _) = spec::containers(spec).find(|(container, _)| container.name == name)?;
        let handler = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
        probe::hook(handler, container).ok()
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
}
