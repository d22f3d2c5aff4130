//! The phase of a pod, from the states of its containers as the API tells them (Kubernetes 1.36, `getPhase`).

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec};

use super::spec::{self, RestartPolicy, Role};

/// The phase. `ending` says that no container will be started again, whatever the restart policy.
pub fn phase(spec: &PodSpec, init: &[ContainerStatus], app: &[ContainerStatus], ending: bool) -> &'static str {
    let policy = if ending { RestartPolicy::Never } else { spec::restart_policy(spec) };
    let (mut pending_init, mut failed_init) = (0, 0);
    let regular = spec::containers(spec).filter(|(_, role)| *role == Role::Init);
    for (container, _) in regular {
        match init.iter().find(|status| status.name == container.name) {
            None => pending_init += 1,
            Some(status) => match (exit_code(status), last_exit_code(status)) {
                (Some(0), _) => {}
                (Some(_), _) => failed_init += 1,
                (None, Some(code)) if is_waiting(status) && code != 0 => failed_init += 1,
                (None, _) => pending_init += 1,
            },
        }
    }
    let (mut unknown, mut running, mut waiting, mut stopped, mut succeeded) = (0, 0, 0, 0, 0);
    let mut restarting = 0;
    for container in &spec.containers {
        match app.iter().find(|status| status.name == container.name) {
            None => unknown += 1,
            Some(status) if is_running(status) => running += 1,
            Some(status) if exit_code(status).is_some() => {
                stopped += 1;
                succeeded += i32::from(exit_code(status) == Some(0));
                restarting += i32::from(exit_code(status).is_some_and(|code| starts_again(spec, container, code)));
            }
            Some(status) if is_waiting(status) && last_exit_code(status).is_some() => {
                stopped += 1;
                // It waits only to be started once more.
                restarting += 1;
            }
            Some(status) if is_waiting(status) => waiting += 1,
            Some(_) => unknown += 1,
        }
    }
    if failed_init > 0 && policy == RestartPolicy::Never {
        return "Failed";
    }
    if ending && running == 0 {
        return if waiting + unknown + pending_init + failed_init == 0 && stopped == succeeded {
            "Succeeded"
        } else {
            "Failed"
        };
    }
    if pending_init + failed_init > 0 && running + stopped == 0 || waiting > 0 {
        "Pending"
    } else if running > 0 && unknown == 0 {
        "Running"
    } else if running == 0 && stopped > 0 && unknown == 0 {
        if restarting > 0 {
            "Running"
        } else if stopped == succeeded {
            "Succeeded"
        } else {
            "Failed"
        }
    } else {
        "Pending"
    }
}

fn starts_again(spec: &PodSpec, container: &Container, code: i32) -> bool {
    let policy = container.restart_policy.as_deref().or(spec.restart_policy.as_deref()).unwrap_or("Always");
    spec::rule_restarts(container, code) || policy == "Always" || policy == "OnFailure" && code != 0
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn is_waiting(status: &ContainerStatus) -> bool {
    // A state that says nothing is a waiting one, as upstream reads it.
    status.state.as_ref().is_none_or(|state| state.running.is_none() && state.terminated.is_none())
}

fn exit_code(status: &ContainerStatus) -> Option<i32> {
    status.state.as_ref()?.terminated.as_ref().map(|terminated| terminated.exit_code)
}

fn last_exit_code(status: &ContainerStatus) -> Option<i32> {
    status.last_state.as_ref()?.terminated.as_ref().map(|terminated| terminated.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// States: `run`, `wait`, `wait:3` (pauses after exit code 3), a number (the exit code).
    fn statuses(names: &[&str], states: &str) -> Vec<ContainerStatus> {
        names
            .iter()
            .zip(states.split_ascii_whitespace())
            .map(|(name, state)| {
                let mut status = ContainerStatus { name: (*name).into(), ..ContainerStatus::default() };
                let json = |value| serde_json::from_value(value).expect("a state");
                match state {
                    "run" => status.state = json(json!({"running": {}})),
                    "wait" => status.state = json(json!({"waiting": {}})),
                    _ => match state.strip_prefix("wait:") {
                        Some(code) => {
                            let code: i32 = code.parse().expect("a code");
                            status.state = json(json!({"waiting": {}}));
                            status.last_state = json(json!({"terminated": {"exitCode": code}}));
                        }
                        None => {
                            let code: i32 = state.parse().expect("a code");
                            status.state = json(json!({"terminated": {"exitCode": code}}));
                        }
                    },
                }
                status
            })
            .collect()
    }

    fn check(policy: &str, init: &str, app: &str, ending: bool, expected: &str) {
        let init_names: Vec<_> = ["i1", "i2"][..init.split_ascii_whitespace().count()].to_vec();
        let spec: PodSpec = serde_json::from_value(json!({
            "restartPolicy": policy,
            "initContainers": init_names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
            "containers": [{"name": "a"}, {"name": "b"}],
        }))
        .expect("a spec");
        let phase = phase(&spec, &statuses(&init_names, init), &statuses(&["a", "b"], app), ending);
        assert_eq!(phase, expected, "{policy}, init {init:?}, app {app:?}, ending {ending}");
    }

    #[test]
    fn phases_of_pods_without_init_containers() {
        for (policy, app, expected) in [
            ("Always", "wait wait", "Pending"),
            ("Always", "run wait", "Pending"),
            ("Always", "run run", "Running"),
            ("Always", "run wait:1", "Running"),
            ("Always", "wait:1 wait:1", "Running"),
            ("Always", "0 0", "Running"),
            ("OnFailure", "0 0", "Succeeded"),
            ("OnFailure", "0 1", "Running"),
            ("OnFailure", "run 0", "Running"),
            ("Never", "0 0", "Succeeded"),
            ("Never", "0 1", "Failed"),
            ("Never", "run 1", "Running"),
            ("Always", "run", "Pending"),
            ("OnFailure", "wait:0 wait:0", "Running"),
        ] {
            check(policy, "", app, false, expected);
        }
    }

    #[test]
    fn init_containers_count_first() {
        for (policy, init, app, expected) in [
            ("Always", "run wait", "wait wait", "Pending"),
            ("Always", "0 wait", "wait wait", "Pending"),
            ("Always", "wait:1 wait", "wait wait", "Pending"),
            ("Never", "1 wait", "wait wait", "Failed"),
            ("OnFailure", "1 wait", "wait wait", "Pending"),
            ("Always", "0 0", "run run", "Running"),
            ("Never", "0 0", "0 0", "Succeeded"),
        ] {
            check(policy, init, app, false, expected);
        }
    }

    #[test]
    fn a_pod_that_is_deleted_ends_succeeded_or_failed() {
        for (policy, app, expected) in [
            ("Always", "run 0", "Running"),
            ("Always", "0 0", "Succeeded"),
            ("Always", "0 143", "Failed"),
            ("OnFailure", "1 0", "Failed"),
            ("Always", "wait wait", "Failed"),
        ] {
            check(policy, "", app, true, expected);
        }
    }
}
