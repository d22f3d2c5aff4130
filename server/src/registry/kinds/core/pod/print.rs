//! The row of a pod (kubectl 1.36 `printPod`).

use listwatch_proto::resource::{Object, parse_time};
use serde_json::Value;

use crate::registry::kinds::vocabulary::fields::{has, items, text as txt};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, duration, text};
use crate::registry::table::{Cell, Column};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "string", "The aggregate readiness state of this pod for accepting traffic.", 0),
    column("Status", "string", "The aggregate status of the containers in this pod.", 0),
    column(
        "Restarts",
        "string",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        0,
    ),
    AGE,
    column(
        "IP",
        "string",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
        1,
    ),
    column(
        "Node",
        "string",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
        1,
    ),
    column(
        "Nominated Node",
        "string",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.",
        1,
    ),
    column(
        "Readiness Gates",
        "string",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
        1,
    ),
];

/// What the containers add up to.
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    /// Seconds since 1970 of the last restart; 0 = none.
    restarted_at: i64,
}

/// The cells of a pod's row.
pub(super) fn cells(object: &Object, now: i64) -> Vec<Cell> {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let status = object.at(&["status"]).unwrap_or(&Value::Null);
    let summary = summary(object, spec, status);
    let restarts = if summary.restarts > 0 && summary.restarted_at > 0 {
        format!("{} ({} ago)", summary.restarts, duration(now - summary.restarted_at))
    } else {
        summary.restarts.to_string()
    };
    let or_none = |value: &str| if value.is_empty() { NONE.to_owned() } else { value.to_owned() };
    let ip = items(status, "podIPs").first().map_or(txt(status, "podIP"), |ip| txt(ip, "ip"));
    vec![
        text(object.name()),
        text(format!("{}/{}", summary.ready, summary.total)),
        text(summary.reason),
        text(restarts),
        age(object, now),
        text(or_none(ip)),
        text(or_none(txt(spec, "nodeName"))),
        text(or_none(txt(status, "nominatedNodeName"))),
        text(gates(object, spec)),
    ]
}

fn summary(object: &Object, spec: &Value, status: &Value) -> Summary {
    let mut reason = match txt(status, "reason") {
        "" => txt(status, "phase").to_owned(),
        own => own.to_owned(),
    };
    if let Some(scheduled) = object.condition("PodScheduled")
        && txt(scheduled, "reason") == "SchedulingGated"
    {
        reason = "SchedulingGated".to_owned();
    }
    let restartable: Vec<&str> = items(spec, "initContainers")
        .iter()
        .filter(|c| txt(c, "restartPolicy") == "Always")
        .map(|c| txt(c, "name"))
        .collect();
    let total = items(spec, "containers").len() + restartable.len();
    let mut summary = Summary { reason, ready: 0, total, restarts: 0, restarted_at: 0 };
    let initializing = init_containers(spec, status, &restartable, &mut summary);
    if !initializing || object.condition("Initialized").is_some_and(|c| txt(c, "status") == "True") {
        containers(object, status, &mut summary);
    }
    if object.is_terminating() {
        let over = matches!(txt(status, "phase"), "Succeeded" | "Failed");
        if txt(status, "reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !over {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// Whether an init container is still at work.
fn init_containers(spec: &Value, status: &Value, restartable: &[&str], summary: &mut Summary) -> bool {
    let mut restartable_restarts = (0, 0);
    for (i, container) in items(status, "initContainerStatuses").iter().enumerate() {
        let is_restartable = restartable.contains(&txt(container, "name"));
        let (count, at) = (container["restartCount"].as_i64().unwrap_or(0), restarted_at(container));
        summary.restarts += count;
        summary.restarted_at = summary.restarted_at.max(at);
        if is_restartable {
            restartable_restarts = (restartable_restarts.0 + count, restartable_restarts.1.max(at));
        }
        let state = &container["state"];
        let terminated = &state["terminated"];
        if terminated.is_object() && exit_code(terminated) == 0 {
            continue;
        }
        if is_restartable && container["started"] == true {
            if container["ready"] == true {
                summary.ready += 1;
            }
            continue;
        }
        summary.reason = if terminated.is_object() {
            format!("Init:{}", end(terminated))
        } else {
            match txt(&state["waiting"], "reason") {
                "" | "PodInitializing" => format!("Init:{i}/{}", items(spec, "initContainers").len()),
                reason => format!("Init:{reason}"),
            }
        };
        return true;
    }
    // Once all have run, only those that go on running count.
    (summary.restarts, summary.restarted_at) = restartable_restarts;
    false
}

fn containers(object: &Object, status: &Value, summary: &mut Summary) {
    let mut has_running = false;
    for container in items(status, "containerStatuses").iter().rev() {
        summary.restarts += container["restartCount"].as_i64().unwrap_or(0);
        summary.restarted_at = summary.restarted_at.max(restarted_at(container));
        let state = &container["state"];
        let waiting = txt(&state["waiting"], "reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if has(state, "terminated") {
            summary.reason = end(&state["terminated"]);
        } else if container["ready"] == true && has(state, "running") {
            has_running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && has_running {
        let ready = object.condition("Ready").is_some_and(|c| txt(c, "status") == "True");
        summary.reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

fn exit_code(terminated: &Value) -> i64 {
    terminated["exitCode"].as_i64().unwrap_or(0)
}

/// How a container ended: its reason, else its signal, else its exit code.
fn end(terminated: &Value) -> String {
    let signal = terminated["signal"].as_i64().unwrap_or(0);
    match txt(terminated, "reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", exit_code(terminated)),
        reason => reason.to_owned(),
    }
}

fn restarted_at(container: &Value) -> i64 {
    let last = &container["lastState"]["terminated"];
    parse_time(txt(last, "finishedAt")).map_or(0, |at| at.as_second())
}

fn gates(object: &Object, spec: &Value) -> String {
    let gates = items(spec, "readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = |gate: &&Value| object.condition(txt(gate, "conditionType")).is_some_and(|c| txt(c, "status") == "True");
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::vocabulary::print::UNKNOWN;
    use serde_json::json;

    fn check(pod: Value, ready: &str, status: &str, restarts: &str) {
        let object = Object::from_value(pod).expect("a map");
        let cells: Vec<String> = cells(&object, 1_000).iter().map(ToString::to_string).collect();
        assert_eq!(cells[1..4], [ready, status, restarts], "{object:?}");
        assert_eq!(cells[4], UNKNOWN);
    }

    #[test]
    fn the_status_of_a_pod_is_that_of_its_containers() {
        let spec = json!({"containers": [{"name": "c"}, {"name": "d"}]});
        let pod = |status: Value| json!({"metadata": {"name": "x"}, "spec": spec, "status": status});
        check(pod(json!({"phase": "Pending"})), "0/2", "Pending", "0");
        let waiting = json!({"phase": "Running", "containerStatuses": [
            {"name": "c", "ready": true, "restartCount": 1, "state": {"running": {}}},
            {"name": "d", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"finishedAt": "1970-01-01T00:15:00Z"}}}]});
        check(pod(waiting), "1/2", "CrashLoopBackOff", "3 (100s ago)");
        let failed = json!({"phase": "Failed", "containerStatuses": [
            {"name": "c", "restartCount": 0, "state": {"terminated": {"exitCode": 3}}}]});
        check(pod(failed), "0/2", "ExitCode:3", "0");
        let half = json!({"phase": "Running", "containerStatuses": [
            {"name": "c", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "d", "ready": true, "restartCount": 0, "state": {"running": {}}}]});
        check(pod(half), "1/2", "NotReady", "0");
    }
}
