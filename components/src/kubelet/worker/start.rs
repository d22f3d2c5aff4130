//! One container from its image to a process, with the Events of the way.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, PodSpec};

use super::{
    super::{
        pod::{
            backoff::Backoffs,
            env,
            facts::{FactError, Facts, Lookup, Token},
            spec::{self, Role},
            status::{self, Waiting},
            volumes,
        },
        runtime::seam::{ContainerConfig, ContainerState, Ports, PullError, RuntimeError, Termination},
    },
    Context,
    config_maps::Watched,
};
use crate::{
    client::Cached,
    runtime::{EventType, reference},
};

/// How soon a failed pull is told as a pause.
const PULL_PAUSE_TOLD: Duration = Duration::from_secs(1);

/// Where a container says why it ended, unless it names another place (Kubernetes 1.36).
const TERMINATION_PATH: &str = "/dev/termination-log";

/// How a start went.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The container runs, or has run and ended; these are its ports.
    Started(Ports),
    /// It waits; if a time is given, it is to be tried again then.
    Waits(Waiting, Option<Duration>),
}

/// What is remembered of failed starts, so that they pause and are told once.
#[derive(Debug)]
pub(super) struct Failures {
    backoffs: Backoffs,
    /// The last failure by image or container.
    last: HashMap<String, (Timestamp, String)>,
    /// The Events that were told already, so that a retry does not tell them again.
    told: HashMap<String, String>,
}

impl Failures {
    pub(super) fn new(backoffs: Backoffs) -> Self {
        Failures { backoffs, last: HashMap::new(), told: HashMap::new() }
    }
}

/// Starts containers of one pod.
pub(super) struct Starter<'a> {
    pub(super) context: &'a Context,
    pub(super) pod: &'a Cached<Pod>,
    pub(super) pod_ip: &'a str,
    pub(super) config_maps: &'a BTreeMap<String, Arc<Watched>>,
    pub(super) failures: &'a mut Failures,
}

impl Starter<'_> {
    /// Starts the container, or says why it waits.
    pub(super) async fn start(&mut self, container: &Container, role: Role) -> Outcome {
        let Some(pod_spec) = &self.pod.spec else {
            return Outcome::Waits(waiting("CreateContainerConfigError", "the pod has no spec"), None);
        };
        let simulated = self.context.runtime.is_simulation();
        if let Some(demand) = spec::unsupported(pod_spec, container).filter(|_| !simulated) {
            return self.refuse(container, role, "CreateContainerConfigError", demand);
        }
        if let Err(outcome) = self.fetch_image(container, role).await {
            return outcome;
        }
        let config = match if simulated { Ok(self.bare_config(container, role)) } else { self.config(container, role) }
        {
            Ok(config) => config,
            // The change that makes it known brings us back here.
            Err(FactError::NotSeen(_)) => return Outcome::Waits(waiting("ContainerCreating", ""), None),
            Err(FactError::Failed(why)) => return self.refuse(container, role, "CreateContainerConfigError", why),
        };
        self.failures.told.remove(&container.name);
        let now = self.context.clock.now();
        let name = format!("start/{}", container.name);
        if let Some((failed, message)) = self.failures.last.get(&name)
            && let Some(pause) = self.failures.backoffs.wait(&name, *failed, now)
        {
            return Outcome::Waits(waiting("CreateContainerError", message), Some(pause.left));
        }
        match self.context.runtime.start(&self.pod.uid, &config).await {
            Ok(ports) => {
                self.failures.last.remove(&name);
                self.tell_start(container, role);
                Outcome::Started(ports)
            }
            Err(error) => {
                let reason = match &error {
                    RuntimeError::Unsupported(_) => "CreateContainerConfigError",
                    _ => "CreateContainerError",
                };
                let message = error.to_string();
                self.event(container, role, EventType::Warning, "Failed", format!("Error: {message}"));
                let failed = self.context.clock.now();
                self.failures.backoffs.tried(&name, failed, failed);
                let again = self.failures.backoffs.wait(&name, failed, failed).map(|pause| pause.left);
                self.failures.last.insert(name, (failed, message.clone()));
                Outcome::Waits(waiting(reason, &message), again)
            }
        }
    }

    /// A demand that will not be met however often it is tried.
    fn refuse(&mut self, container: &Container, role: Role, reason: &'static str, message: String) -> Outcome {
        let told = self.failures.told.insert(container.name.clone(), message.clone());
        if told.as_ref() != Some(&message) {
            self.event(container, role, EventType::Warning, "Failed", format!("Error: {message}"));
        }
        Outcome::Waits(waiting(reason, &message), None)
    }

    async fn fetch_image(&mut self, container: &Container, role: Role) -> Result<(), Outcome> {
        let image = container.image.as_deref().unwrap_or_default();
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        let present = match self.context.runtime.has_image(image).await {
            Ok(present) => present,
            Err(error) => return Err(self.refuse(container, role, "InvalidImageName", error.to_string())),
        };
        match (policy, present) {
            ("Always", _) | ("IfNotPresent", false) => self.pull(container, role, image).await,
            ("Never", false) => {
                let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                Err(self.refuse(container, role, "ErrImageNeverPull", message))
            }
            _ => {
                let message =
                    format!("Container image \"{image}\" already present on machine and can be accessed by the pod");
                self.event(container, role, EventType::Normal, "Pulled", message);
                Ok(())
            }
        }
    }

    async fn pull(&mut self, container: &Container, role: Role, image: &str) -> Result<(), Outcome> {
        let name = format!("pull/{image}");
        let now = self.context.clock.now();
        if let Some((failed, why)) = self.failures.last.get(&name).cloned()
            && let Some(pause) = self.failures.backoffs.wait(&name, failed, now)
        {
            let message = format!("Back-off pulling image \"{image}\"");
            if self.failures.told.insert(name, failed.to_string()) != Some(failed.to_string()) {
                self.event(container, role, EventType::Normal, "BackOff", message.clone());
                self.event(container, role, EventType::Warning, "Failed", "Error: ImagePullBackOff".into());
            }
            let full = format!("{message}: ErrImagePull: {why}");
            return Err(Outcome::Waits(waiting("ImagePullBackOff", &full), Some(pause.left)));
        }
        self.event(container, role, EventType::Normal, "Pulling", format!("Pulling image \"{image}\""));
        let begin = tokio::time::Instant::from_std(crate::clock::monotonic());
        match self.context.runtime.pull(image).await {
            Ok(()) => {
                self.failures.last.remove(&name);
                let took = begin.elapsed().as_millis();
                let message = format!(
                    "Successfully pulled image \"{image}\" in {took}ms ({took}ms including waiting). Image size: 0 bytes."
                );
                self.event(container, role, EventType::Normal, "Pulled", message);
                Ok(())
            }
            Err(PullError::InvalidName(why)) => Err(self.refuse(container, role, "InvalidImageName", why)),
            Err(PullError::Failed(why)) => {
                self.event(
                    container,
                    role,
                    EventType::Warning,
                    "Failed",
                    format!("Failed to pull image \"{image}\": {why}"),
                );
                self.event(container, role, EventType::Warning, "Failed", "Error: ErrImagePull".into());
                let failed = self.context.clock.now();
                self.failures.backoffs.tried(&name, failed, failed);
                self.failures.last.insert(name, (failed, why.clone()));
                Err(Outcome::Waits(waiting("ErrImagePull", &why), Some(PULL_PAUSE_TOLD)))
            }
        }
    }

    fn config(&self, container: &Container, role: Role) -> Result<ContainerConfig, FactError> {
        let look = |name: &str| self.config_maps.get(name).map_or(Lookup::NotSeen, |watched| watched.look());
        let facts = Facts {
            pod: self.pod,
            host_ip: &self.context.host_ip,
            pod_ip: self.pod_ip,
            allocatable: &self.context.allocatable,
            config_maps: &look,
            // Only volumes hold tokens, and they are made before.
            tokens: &|_| Token::NotYet,
        };
        let mut env = env::environment(&facts, container)?;
        let empty = PodSpec::default();
        let pod_spec = self.pod.spec.as_ref().unwrap_or(&empty);
        let seen = volumes::seen(pod_spec, container, &env)?;
        let dir = self.context.runtime.volumes(&self.pod.uid);
        let mounts = super::volumes::mounts(&dir, pod_spec, &seen).map_err(FactError::Failed)?;
        let (command, args) =
            (env::expand_all(container.command.as_ref(), &env), env::expand_all(container.args.as_ref(), &env));
        if let Some(hostname) = pod_spec.hostname.as_ref().filter(|name| !name.is_empty())
            && env.iter().all(|(name, _)| name != "HOSTNAME")
        {
            env.push(("HOSTNAME".to_owned(), hostname.clone()));
        }
        let mut ports = Vec::new();
        for port in container.ports.iter().flatten() {
            if port.protocol.as_deref().unwrap_or("TCP") == "TCP" {
                let port = u16::try_from(port.container_port);
                ports.push(port.map_err(|_| FactError::Failed("a containerPort is out of range".to_owned()))?);
            }
        }
        Ok(ContainerConfig {
            command,
            args,
            env,
            working_dir: container.working_dir.clone().filter(|dir| !dir.is_empty()),
            ports,
            mounts,
            termination: Some(termination(container)),
            ..self.bare_config(container, role)
        })
    }

    /// The container without all that is looked up or made for it: as far as a simulation goes.
    fn bare_config(&self, container: &Container, role: Role) -> ContainerConfig {
        let counted = status::was_known(self.pod, &container.name).map_or(0, |known| known.restart_count + 1);
        let running = self.context.runtime.containers(&self.pod.uid).iter().any(|state| state.name == container.name);
        ContainerConfig {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            command: container.command.clone().unwrap_or_default(),
            args: container.args.clone().unwrap_or_default(),
            env: Vec::new(),
            working_dir: None,
            ports: Vec::new(),
            mounts: Vec::new(),
            termination: None,
            // A runtime that knows the container counts by itself; one that has lost it goes on from the API's count.
            attempt_min: if running { 0 } else { u32::try_from(counted).unwrap_or(0) },
            hash: spec::hash(container),
            place: spec::place(self.pod, container, role),
        }
    }

    /// Events of a start: a program that could not be executed has a container, but no process.
    fn tell_start(&self, container: &Container, role: Role) {
        self.event(container, role, EventType::Normal, "Created", "Container created".into());
        let states = self.context.runtime.containers(&self.pod.uid);
        match states.iter().find(|state| state.name == container.name).map(|state| &state.state) {
            Some(ContainerState::Exited(exit)) if exit.reason == Some("StartError") => {
                self.event(container, role, EventType::Warning, "Failed", format!("Error: {}", exit.message));
            }
            _ => self.event(container, role, EventType::Normal, "Started", "Container started".into()),
        }
    }

    fn event(&self, container: &Container, role: Role, kind: EventType, reason: &str, message: String) {
        let about = container_reference(self.pod, &container.name, role);
        self.context.recorder.event_about(about, kind, reason, message);
    }
}

/// A reference to a container, for Events.
pub(super) fn container_reference(pod: &Cached<Pod>, container: &str, role: Role) -> ObjectReference {
    ObjectReference { field_path: Some(spec::field_path(container, role)), ..reference(pod) }
}

fn waiting(reason: &'static str, message: &str) -> Waiting {
    Waiting { reason, message: message.to_owned() }
}

/// Where the container says why it ended.
fn termination(container: &Container) -> Termination {
    let path = container.termination_message_path.clone().filter(|path| !path.is_empty());
    Termination {
        path: PathBuf::from(path.unwrap_or_else(|| TERMINATION_PATH.to_owned())),
        or_log: container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
    }
}
