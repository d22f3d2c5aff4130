//! What the API is told of a pod (Kubernetes 1.36): container states, phase, conditions, addresses.
//!
//! Two steps: [`observe`] writes down what the kubelet sees; [`merge`] lays it over what the API has, so that foreign
//! conditions stay, times of transition are kept, and a pod that is over stays over.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus as ApiStatus, EphemeralContainer, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use listwatch_proto::resource::PodResources;

use super::{
    super::runtime::seam::{ContainerState, ContainerStatus, Terminated},
    phase::phase,
    spec::{self, Role},
};

/// The longest message of an ended container, in bytes (Kubernetes: `terminationMessagePath`).
const MESSAGE_BYTES_MAX: usize = 4096;

/// Why a container does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The API's word.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

/// How a running container is, as its probes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// It has come up.
    pub started: bool,
    /// It takes requests.
    pub ready: bool,
}

/// All that is known of a pod on its node.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Its containers, as the runtime has them.
    pub containers: &'a [ContainerStatus],
    /// Why containers do not run, by name.
    pub waiting: &'a BTreeMap<String, Waiting>,
    /// How running containers are, by name; those not named are well.
    pub health: &'a BTreeMap<String, Health>,
    /// Address of the node.
    pub host_ip: &'a str,
    /// Address of the pod, once it has one.
    pub pod_ip: Option<&'a str>,
    /// No container will be started again.
    pub ending: bool,
    /// Why the whole pod failed: reason and message.
    pub failed: Option<&'a (String, String)>,
    /// Nothing really runs: there is no sandbox to tell of, and whether the pod was scheduled is told by who did it.
    pub simulated: bool,
    /// The present moment.
    pub now: Timestamp,
}

/// The status as the kubelet sees it.
pub fn observe(seen: Seen<'_>) -> PodStatus {
    let empty = PodSpec::default();
    let spec = seen.pod.spec.as_ref().unwrap_or(&empty);
    let (init, app): (Vec<_>, Vec<_>) = spec::containers(spec).partition(|(_, role)| *role != Role::App);
    let initialized = seen.containers.iter().any(|state| app.iter().any(|(c, _)| c.name == state.name));
    let statuses = |list: &[(&Container, Role)]| -> Vec<ApiStatus> {
        list.iter().map(|(container, role)| container_status(seen, spec, container, *role, initialized)).collect()
    };
    let (init_statuses, app_statuses) = (statuses(&init), statuses(&app));
    let phase = match seen.failed {
        Some(_) => "Failed",
        None => phase(spec, &init_statuses, &app_statuses, seen.ending),
    };
    let runs = |state: &ContainerStatus| matches!(state.state, ContainerState::Running { .. });
    let phase = match phase {
        // A pod is told as over only when all of its containers, sidecars too, are really gone: whoever sees it over
        // takes its place for free.
        "Succeeded" | "Failed" if seen.containers.iter().any(runs) => "Running",
        phase => phase,
    };
    let conditions = conditions(seen, spec, phase, &init_statuses, &app_statuses);
    let ip = |ip: &str| ip.to_owned();
    // A pod that failed before any container was made has none to tell of: what is shown is why it failed.
    let refused = seen.failed.is_some() && seen.containers.is_empty();
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions),
        reason: seen.failed.map(|failed| failed.0.clone()),
        message: seen.failed.map(|failed| failed.1.clone()),
        host_ip: Some(ip(seen.host_ip)),
        host_ips: Some(vec![HostIP { ip: ip(seen.host_ip) }]),
        pod_ip: seen.pod_ip.map(ip),
        pod_ips: seen.pod_ip.map(|address| vec![PodIP { ip: ip(address) }]),
        start_time: Some(Time(seen.now)),
        init_container_statuses: (!init_statuses.is_empty() && !refused).then_some(init_statuses),
        container_statuses: (!app_statuses.is_empty() && !refused).then_some(app_statuses),
        ephemeral_container_statuses: ephemeral_statuses(spec),
        qos_class: Some(qos_class(spec)),
        observed_generation: seen.pod.metadata.generation.filter(|generation| *generation > 0),
        ..PodStatus::default()
    }
}

/// None of them is ever started, and each says so.
fn ephemeral_statuses(spec: &PodSpec) -> Option<Vec<ApiStatus>> {
    let refused = Waiting { reason: "CreateContainerConfigError", message: spec::EPHEMERAL_REFUSED.to_owned() };
    let status = |container: &EphemeralContainer| ApiStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        started: Some(false),
        state: Some(waiting_state(Some(&refused), "")),
        ..ApiStatus::default()
    };
    let list: Vec<_> = spec.ephemeral_containers.iter().flatten().map(status).collect();
    (!list.is_empty()).then_some(list)
}

/// The observed status laid over the one that the API has.
pub fn merge(base: Option<&PodStatus>, observed: &PodStatus) -> PodStatus {
    let mut status = observed.clone();
    let Some(base) = base else { return status };
    if base.start_time.is_some() {
        status.start_time.clone_from(&base.start_time);
    }
    if let Some("Succeeded" | "Failed") = base.phase.as_deref() {
        status.phase.clone_from(&base.phase);
        status.reason = base.reason.clone().or(status.reason);
        status.message = base.message.clone().or(status.message);
    }
    let before = base.conditions.as_deref().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    for new in conditions.iter_mut() {
        match before.iter().find(|old| old.type_ == new.type_) {
            // The binding has said this one, and better.
            Some(old) if old.type_ == "PodScheduled" && old.status == "True" => *new = old.clone(),
            Some(old) if old.status == new.status => {
                new.last_transition_time = old.last_transition_time.clone().or(new.last_transition_time.take());
            }
            _ => {}
        }
    }
    // Its own come first, in its order (Kubernetes 1.36).
    let foreign = before.iter().filter(|old| conditions.iter().all(|own| own.type_ != old.type_)).cloned();
    let foreign: Vec<_> = foreign.collect();
    conditions.extend(foreign);
    status
}

/// A container that the API believes to have run and the runtime knows nothing of: its node has lost it.
pub fn was_known<'a>(pod: &'a Pod, name: &str) -> Option<&'a ApiStatus> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.into_iter()
        .find(|status| status.name == name && status.container_id.as_deref().is_some_and(|id| !id.is_empty()))
}

fn container_status(seen: Seen<'_>, spec: &PodSpec, container: &Container, role: Role, initialized: bool) -> ApiStatus {
    let waiting = seen.waiting.get(&container.name);
    let has_init = spec.init_containers.as_ref().is_some_and(|list| !list.is_empty());
    let state = seen.containers.iter().find(|state| state.name == container.name);
    let mut status = ApiStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        started: Some(false),
        ..ApiStatus::default()
    };
    let Some(state) = state else {
        if role == Role::Init && initialized {
            // Its traces are gone, but the app containers could start only after it had ended well.
            let ended =
                ContainerStateTerminated { exit_code: 0, reason: Some("Completed".into()), ..Default::default() };
            status.ready = true;
            status.state = Some(ApiState { terminated: Some(ended), ..ApiState::default() });
            return status;
        }
        if let Some(known) = was_known(seen.pod, &container.name) {
            status.restart_count = known.restart_count;
            status.last_state.clone_from(&known.last_state);
        }
        let reason = if has_init && role == Role::App { "PodInitializing" } else { "ContainerCreating" };
        status.state = Some(waiting_state(waiting, reason));
        return status;
    };
    status.restart_count = i32::try_from(state.attempt).unwrap_or(i32::MAX);
    status.container_id = Some(state.id.clone());
    let scheme = state.id.split_once("://").map_or("", |(scheme, _)| scheme);
    status.image_id = format!("{scheme}://{}", state.image);
    let last = |run: &Terminated| ApiState { terminated: Some(terminated(run)), ..ApiState::default() };
    match &state.state {
        ContainerState::Running { started_at } => {
            let running = ContainerStateRunning { started_at: Some(Time(*started_at)) };
            status.state = Some(ApiState { running: Some(running), ..ApiState::default() });
            status.last_state = state.previous.as_ref().map(last);
            let well = Health { started: true, ready: true };
            let health = seen.health.get(&container.name).copied().unwrap_or(well);
            status.started = Some(health.started);
            // An init container is ready when it has done its work.
            status.ready = role != Role::Init && health.started && health.ready;
        }
        ContainerState::Exited(run) => match waiting {
            Some(_) => {
                status.state = Some(waiting_state(waiting, "ContainerCreating"));
                status.last_state = Some(last(run));
            }
            None => {
                status.state = Some(last(run));
                status.last_state = state.previous.as_ref().map(last);
                status.ready = role == Role::Init && run.exit_code == 0;
            }
        },
    }
    status
}

fn waiting_state(waiting: Option<&Waiting>, default: &str) -> ApiState {
    let waiting = ContainerStateWaiting {
        reason: Some(waiting.map_or(default, |waiting| waiting.reason).to_owned()),
        message: waiting.map(|waiting| waiting.message.clone()).filter(|message| !message.is_empty()),
    };
    ApiState { waiting: Some(waiting), ..ApiState::default() }
}

fn terminated(run: &Terminated) -> ContainerStateTerminated {
    let reason = run.reason.unwrap_or(if run.exit_code == 0 { "Completed" } else { "Error" });
    let mut message = run.message.clone();
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
    }
    ContainerStateTerminated {
        container_id: Some(run.id.clone()),
        exit_code: run.exit_code,
        signal: run.signal,
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then_some(message),
        started_at: Some(Time(run.started_at.unwrap_or(run.finished_at))),
        finished_at: Some(Time(run.finished_at)),
    }
}

fn qos_class(spec: &PodSpec) -> String {
    let spec = serde_json::to_value(spec).unwrap_or_default();
    PodResources::of_spec(&spec).unwrap_or_default().qos_class().as_str().to_owned()
}

/// The kubelet's conditions, in upstream's order.
fn conditions(seen: Seen<'_>, spec: &PodSpec, phase: &str, init: &[ApiStatus], app: &[ApiStatus]) -> Vec<PodCondition> {
    let terminal = matches!(phase, "Succeeded" | "Failed");
    let over = if phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
    let condition = |kind: &str, fault: Option<(&str, String)>| PodCondition {
        type_: kind.to_owned(),
        status: if fault.is_none() { "True" } else { "False" }.to_owned(),
        reason: fault.as_ref().map(|fault| fault.0.to_owned()),
        message: fault.map(|fault| fault.1).filter(|message| !message.is_empty()),
        last_transition_time: Some(Time(seen.now)),
        observed_generation: seen.pod.metadata.generation.filter(|generation| *generation > 0),
        ..PodCondition::default()
    };
    let list = |names: Vec<&str>| names.join(" ");
    let incomplete: Vec<_> =
        init.iter().filter(|status| !is_initialized(spec, status)).map(|s| s.name.as_str()).collect();
    let sidecars = init.iter().filter(|status| role_of(spec, &status.name) == Some(Role::Sidecar));
    let unready: Vec<_> =
        sidecars.chain(app).filter(|status| !status.ready).map(|status| status.name.as_str()).collect();
    let initialized = match (phase, incomplete.is_empty() || app.iter().any(has_run)) {
        ("Succeeded", _) | (_, true) => None,
        _ => {
            let message = format!("containers with incomplete status: [{}]", list(incomplete));
            Some(("ContainersNotInitialized", message))
        }
    };
    let not_ready = if terminal {
        Some((over, String::new()))
    } else if unready.is_empty() {
        None
    } else {
        Some(("ContainersNotReady", format!("containers with unready status: [{}]", list(unready))))
    };
    let gates = readiness_gates(seen.pod, spec);
    let ready = not_ready.clone().or(gates);
    let mut sandbox = condition("PodReadyToStartContainers", None);
    if seen.pod_ip.is_none() || terminal {
        sandbox.status = "False".to_owned();
    }
    let mut completed = condition("Initialized", initialized);
    if phase == "Succeeded" {
        completed.reason = Some(over.to_owned());
    }
    let mut own = vec![completed, condition("Ready", ready), condition("ContainersReady", not_ready)];
    if !seen.simulated {
        own.insert(0, sandbox);
        own.push(condition("PodScheduled", None));
    }
    own
}

fn is_initialized(spec: &PodSpec, status: &ApiStatus) -> bool {
    match role_of(spec, &status.name) {
        Some(Role::Sidecar) => status.started == Some(true),
        _ => status.ready,
    }
}

fn role_of(spec: &PodSpec, name: &str) -> Option<Role> {
    spec::containers(spec).find(|(container, _)| container.name == name).map(|(_, role)| role)
}

/// Whether a container has ever run.
fn has_run(status: &ApiStatus) -> bool {
    let ran = |state: &Option<ApiState>| {
        state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    ran(&status.state) || ran(&status.last_state)
}

fn readiness_gates(pod: &Pod, spec: &PodSpec) -> Option<(&'static str, String)> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let open = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind).map(|c| c.status == "True");
    let closed: Vec<_> = spec
        .readiness_gates
        .iter()
        .flatten()
        .filter_map(|gate| match open(&gate.condition_type) {
            Some(true) => None,
            Some(false) => {
                Some(format!("the status of pod readiness gate \"{}\" is not \"True\", but False", gate.condition_type))
            }
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{}\" does not exist.",
                gate.condition_type
            )),
        })
        .collect();
    (!closed.is_empty()).then(|| ("ReadinessGatesNotReady", closed.join(", ")))
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
