//! The parts of a pod's spec that decide what is done, and the demands that cannot be met.
//!
//! Invariant: what a pod asks for and this kubelet cannot give is named to its owner, never left out in silence.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::{
    super::runtime::seam::{Place, Terminated},
    probe::{self, Kind, Settings},
};

/// The grace of a pod that names none (Kubernetes 1.36).
pub const GRACE_DEFAULT_SECS: i64 = 30;
/// No process waits longer, whatever a pod says: ten years, which no clock overflows at.
const GRACE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// When an ended container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    /// However it ended.
    Always,
    /// If it failed.
    OnFailure,
    /// Not at all.
    Never,
}

/// How a container takes part in the life of its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on running.
    Sidecar,
    /// The pod's purpose.
    App,
}

/// The policy of a pod.
pub fn restart_policy(spec: &PodSpec) -> RestartPolicy {
    policy(spec.restart_policy.as_deref().unwrap_or_default())
}

/// Whether a container that ended so is started again: by its own rules, by its own policy, else by the pod's. An end
/// that only the cluster's end brought is no end of its own.
pub fn restarts(spec: &PodSpec, container: &Container, role: Role, exit: &Terminated) -> bool {
    if role == Role::Sidecar || rule_restarts(container, exit.exit_code) {
        return true;
    }
    match policy_of(spec, container) {
        RestartPolicy::Always => true,
        // Whoever is ended for the sake of a restart is started again, however well it went.
        RestartPolicy::OnFailure => exit.exit_code != 0 || exit.interrupted || exit.asked,
        RestartPolicy::Never => false,
    }
}

/// Whether a container that failed may be started again at all.
pub fn restarts_on_failure(spec: &PodSpec, container: &Container, role: Role) -> bool {
    role == Role::Sidecar || policy_of(spec, container) != RestartPolicy::Never
}

/// Where a container stands in its pod.
pub fn place(pod: &Pod, container: &Container, role: Role) -> Place {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    Place {
        init: role == Role::Init,
        of_job: pod.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Job"),
        restarts_after_success: role == Role::Sidecar || policy_of(spec, container) == RestartPolicy::Always,
        restarts_after_failure: restarts_on_failure(spec, container, role),
    }
}

fn policy_of(spec: &PodSpec, container: &Container) -> RestartPolicy {
    container.restart_policy.as_deref().map_or_else(|| restart_policy(spec), policy)
}

/// Whether one of the container's own rules asks for a restart after this exit code.
pub fn rule_restarts(container: &Container, code: i32) -> bool {
    container.restart_policy_rules.iter().flatten().any(|rule| {
        rule.action == "Restart"
            && rule.exit_codes.as_ref().is_some_and(|codes| {
                let listed = codes.values.iter().flatten().any(|listed| *listed == code);
                if codes.operator == "NotIn" { !listed } else { listed }
            })
    })
}

fn policy(text: &str) -> RestartPolicy {
    match text {
        "OnFailure" => RestartPolicy::OnFailure,
        "Never" => RestartPolicy::Never,
        _ => RestartPolicy::Always,
    }
}

/// The containers with their roles, init containers first, in the order of their start.
pub fn containers(spec: &PodSpec) -> impl Iterator<Item = (&Container, Role)> {
    let init = spec.init_containers.iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    init.chain(spec.containers.iter().map(|container| (container, Role::App)))
}

/// What is said of every ephemeral container: what is asked for and cannot be given is named to its owner.
pub const EPHEMERAL_REFUSED: &str = "ephemeral containers are not supported by this kubelet";

/// The names of the ephemeral containers.
pub fn ephemeral(spec: &PodSpec) -> impl Iterator<Item = &str> {
    spec.ephemeral_containers.iter().flatten().map(|container| container.name.as_str())
}

/// The path of a container in its pod, as Events name it.
pub fn field_path(name: &str, role: Role) -> String {
    match role {
        Role::App => format!("spec.containers{{{name}}}"),
        Role::Init | Role::Sidecar => format!("spec.initContainers{{{name}}}"),
    }
}

/// The time a pod's containers have between SIGTERM and SIGKILL, at least a second.
pub fn grace(pod: &Pod) -> Duration {
    let asked = pod.metadata.deletion_grace_period_seconds;
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = asked.or(own).unwrap_or(GRACE_DEFAULT_SECS).max(1);
    Duration::from_secs(seconds.unsigned_abs()).min(GRACE_MAX)
}

/// The time of a container that is ended because it has failed a probe: the probe's own, else the pod's.
pub fn grace_after(pod: &Pod, container: &Container, failed: Option<Kind>) -> Duration {
    let own = failed.and_then(|kind| kind.of(container)).and_then(|probe| probe.termination_grace_period_seconds);
    own.map_or_else(|| grace(pod), |seconds| Duration::from_secs(seconds.max(1).unsigned_abs()).min(GRACE_MAX))
}

/// Whether the pod is over for ever.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// `web_default(UID)`, as messages name a pod.
pub fn long_name(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!(
        "{}_{}({})",
        meta.name.as_deref().unwrap_or_default(),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default()
    )
}

/// Changes when a running container is no longer what the pod asks for. Of a container only the image can change.
pub fn hash(container: &Container) -> String {
    let text = format!("{}\n{}", container.name, container.image.as_deref().unwrap_or_default());
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// The first demand of a container, or of its pod, that processes of this machine cannot meet.
pub fn unsupported(spec: &PodSpec, container: &Container) -> Option<String> {
    let demands = [
        (spec.host_pid == Some(true), "spec.hostPID"),
        (spec.host_ipc == Some(true), "spec.hostIPC"),
        (spec.share_process_namespace == Some(true), "spec.shareProcessNamespace"),
        (spec.runtime_class_name.is_some(), "spec.runtimeClassName"),
        (spec.host_aliases.as_ref().is_some_and(|list| !list.is_empty()), "spec.hostAliases"),
        (spec.dns_config.is_some(), "spec.dnsConfig"),
        (
            container.volume_mounts.iter().flatten().any(|mount| !none_or(&mount.mount_propagation, "None")),
            "volumeMounts[].mountPropagation",
        ),
        (
            container.volume_mounts.iter().flatten().any(|mount| !none_or(&mount.recursive_read_only, "Disabled")),
            "volumeMounts[].recursiveReadOnly",
        ),
        (container.volume_devices.as_ref().is_some_and(|list| !list.is_empty()), "volumeDevices"),
        (
            container.lifecycle.as_ref().is_some_and(|lifecycle| !none_or(&lifecycle.stop_signal, "SIGTERM")),
            "lifecycle.stopSignal",
        ),
        (container.stdin == Some(true), "stdin"),
        (container.tty == Some(true), "tty"),
        (
            container.restart_policy_rules.iter().flatten().any(|rule| rule.action != "Restart"),
            "restartPolicyRules[].action other than Restart",
        ),
        (
            container.ports.iter().flatten().any(|port| port.host_port.is_some()) && spec.host_network != Some(true),
            "ports[].hostPort",
        ),
    ];
    if let Some((_, field)) = demands.into_iter().find(|(demanded, _)| *demanded) {
        return Some(format!("{field} is not supported by the process runtime"));
    }
    let probe = [Kind::Startup, Kind::Readiness, Kind::Liveness].into_iter().find_map(|kind| {
        let why = Settings::of(kind.of(container)?, container).err()?;
        Some(format!("{} probe: {why}", kind.word()))
    });
    probe.or_else(|| {
        let lifecycle = container.lifecycle.as_ref()?;
        let hooks = [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)];
        hooks.into_iter().find_map(|(name, handler)| {
            let why = probe::hook(handler.as_ref()?, container).err()?;
            Some(format!("lifecycle.{name}: {why}"))
        })
    })
}

fn none_or(value: &Option<String>, plain: &str) -> bool {
    value.as_deref().is_none_or(|value| value.is_empty() || value == plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec})).expect("a pod")
    }

    #[test]
    fn init_containers_come_first_and_sidecars_are_told_apart() {
        let pod = pod(json!({
            "initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}], "containers": [{"name": "c"}],
        }));
        let spec = pod.spec.expect("a spec");
        let roles: Vec<_> = containers(&spec).map(|(container, role)| (container.name.as_str(), role)).collect();
        assert_eq!(roles, [("a", Role::Init), ("b", Role::Sidecar), ("c", Role::App)]);
    }

    #[test]
    fn the_grace_of_the_request_wins_and_is_never_nothing() {
        let mut pod = pod(json!({"containers": [], "terminationGracePeriodSeconds": 5}));
        assert_eq!(grace(&pod), Duration::from_secs(5));
        pod.metadata.deletion_grace_period_seconds = Some(0);
        assert_eq!(grace(&pod), Duration::from_secs(1));
    }

    #[test]
    fn what_cannot_be_given_is_named() {
        let pod = pod(json!({"containers": [
            {"name": "plain", "image": "i", "ports": [{"containerPort": 80}]},
            {"name": "mounts", "volumeMounts": [
                {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"},
            ]},
            {"name": "host", "ports": [{"containerPort": 80, "hostPort": 80}]},
        ]}));
        let spec = pod.spec.expect("a spec");
        let named: Vec<_> = spec.containers.iter().map(|container| unsupported(&spec, container)).collect();
        assert_eq!(named[0], None);
        assert_eq!(
            named[1].as_deref(),
            Some("volumeMounts[].mountPropagation is not supported by the process runtime")
        );
        assert!(named[2].as_deref().is_some_and(|text| text.contains("hostPort")));
    }
}
