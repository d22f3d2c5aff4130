//! The descriptions of Deployments and ReplicaSets, line by line as kubectl 1.36 writes them.

use std::fmt;

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::template::template_of;
use super::text::{annotations, field, multiline, pairs, time};

/// How many pods of a controller are in which phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Phases {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Phases { running, waiting, succeeded, failed } = self;
        write!(f, "{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed")
    }
}

impl Phases {
    /// Counts the pods that the object with this uid controls.
    pub(super) fn of<'a>(pods: impl Iterator<Item = &'a Object>, uid: &str) -> Phases {
        let mut phases = Phases::default();
        for pod in pods.filter(|pod| pod.controller().is_some_and(|owner| owner.uid == uid)) {
            match pod.text(&["status", "phase"]) {
                "Running" => phases.running += 1,
                "Pending" => phases.waiting += 1,
                "Succeeded" => phases.succeeded += 1,
                "Failed" => phases.failed += 1,
                _ => {}
            }
        }
        phases
    }
}

/// The controller's selector in a line.
pub(super) fn selector(object: &Object) -> String {
    let selector = object.at(&["spec", "selector"]).unwrap_or(&Value::Null);
    LabelSelector::from_json(selector).map_or_else(|_| "<error>".to_owned(), |selector| selector.to_string())
}

fn int(object: &Object, path: &[&str]) -> i64 {
    object.int(path).unwrap_or(0)
}

/// A Deployment with its ReplicaSets, without the Events.
pub(super) fn deployment(out: &mut String, object: &Object, replica_sets: &[Object]) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    field(out, "CreationTimestamp", &time(object.creation_timestamp()));
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    field(out, "Selector", &selector(object));
    let status = |name: &str| int(object, &["status", name]);
    let replicas = format!(
        "{} desired | {} updated | {} total | {} available | {} unavailable",
        object.int(&["spec", "replicas"]).unwrap_or(1),
        status("updatedReplicas"),
        status("replicas"),
        status("availableReplicas"),
        status("unavailableReplicas"),
    );
    field(out, "Replicas", &replicas);
    field(out, "StrategyType", object.text(&["spec", "strategy", "type"]));
    field(out, "MinReadySeconds", &int(object, &["spec", "minReadySeconds"]).to_string());
    if let Some(update) = object.at(&["spec", "strategy", "rollingUpdate"]).filter(|update| update.is_object()) {
        let amount = |name: &str| update[name].as_str().map_or_else(|| update[name].to_string(), str::to_owned);
        let (unavailable, surge) = (amount("maxUnavailable"), amount("maxSurge"));
        field(out, "RollingUpdateStrategy", &format!("{unavailable} max unavailable, {surge} max surge"));
    }
    template(out, object);
    conditions(out, object);
    let owned: Vec<&Object> =
        replica_sets.iter().filter(|set| set.controller().is_some_and(|owner| owner.uid == object.uid())).collect();
    if owned.is_empty() {
        return;
    }
    let newest = newest(object, &owned);
    let is_old =
        |set: &&&Object| newest.is_none_or(|new| new.uid() != set.uid()) && int(set, &["spec", "replicas"]) > 0;
    field(out, "OldReplicaSets", &told(owned.iter().filter(is_old).copied()));
    field(out, "NewReplicaSet", &told(newest.into_iter()));
}

/// The ReplicaSet of the present template; the oldest, should there be two.
fn newest<'a>(deployment: &Object, sets: &[&'a Object]) -> Option<&'a Object> {
    let bare = |object: &Object| {
        let mut template = object.at(&["spec", "template"]).cloned().unwrap_or(Value::Null);
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove("pod-template-hash");
        }
        template
    };
    let wanted = bare(deployment);
    let same = sets.iter().copied().filter(|set| bare(set) == wanted);
    same.min_by_key(|set| (set.creation_timestamp().to_owned(), set.name().to_owned()))
}

fn told<'a>(sets: impl Iterator<Item = &'a Object>) -> String {
    let list: Vec<_> = sets
        .map(|set| {
            let (now, wanted) = (int(set, &["status", "replicas"]), int(set, &["spec", "replicas"]));
            format!("{} ({now}/{wanted} replicas created)", set.name())
        })
        .collect();
    if list.is_empty() { "<none>".to_owned() } else { list.join(", ") }
}

/// A ReplicaSet with the phases of its pods, without the Events.
pub(super) fn replica_set(out: &mut String, object: &Object, phases: Phases) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    let selector = selector(object);
    field(out, "Selector", if selector.is_empty() { "<none>" } else { &selector });
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    if let Some(owner) = object.controller() {
        field(out, "Controlled By", &format!("{}/{}", owner.kind, owner.name));
    }
    let (now, wanted) = (int(object, &["status", "replicas"]), object.int(&["spec", "replicas"]).unwrap_or(1));
    field(out, "Replicas", &format!("{now} current / {wanted} desired"));
    field(out, "Pods Status", &phases.to_string());
    template(out, object);
    conditions(out, object);
}

fn template(out: &mut String, object: &Object) {
    template_of(out, object.at(&["spec", "template"]).unwrap_or(&Value::Null));
}

/// The controller's conditions, if it has any.
pub(super) fn conditions(out: &mut String, object: &Object) {
    let list = object.at(&["status", "conditions"]).and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(list) = list else { return };
    out.push_str("Conditions:\n  Type\tStatus\tReason\n  ----\t------\t------\n");
    for condition in list {
        let text = |name: &str| condition[name].as_str().unwrap_or_default();
        out.push_str(&format!("  {} \t{}\t{}\n", text("type"), text("status"), text("reason")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn lark() -> (Object, Object) {
        let template = |labels: Value| {
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "registry.local/a:1",
                "ports": [{"containerPort": 81, "name": "web", "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "10m", "memory": "5Mi"}, "limits": {"memory": "10Mi"}}}]}})
        };
        let deployment = json!({
            "metadata": {"name": "lark", "namespace": "ns", "uid": "d", "creationTimestamp": "x", "labels": {"t": "lark"},
                "annotations": {"deployment.kubernetes.io/revision": "1", "kubernetes.io/change-cause": "first"}},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"t": "lark"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": template(json!({"t": "lark"}))},
            "status": {"updatedReplicas": 1, "replicas": 1, "availableReplicas": 1, "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]},
        });
        let labels = json!({"pod-template-hash": "5d", "t": "lark"});
        let set = json!({
            "metadata": {"name": "lark-5d", "namespace": "ns", "uid": "r", "labels": labels,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "lark", "uid": "d", "controller": true}]},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template(labels.clone())},
            "status": {"replicas": 1},
        });
        let object = |value| Object::from_value(value).expect("a map");
        (object(deployment), object(set))
    }

    const TEMPLATE: &str = "  Containers:
   a:
    Image:      registry.local/a:1
    Port:       81/TCP (web)
    Host Port:  0/TCP (web)
    Limits:
      memory:  10Mi
    Requests:
      cpu:         10m
      memory:      5Mi
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>
";

    /// From the recorded session describe-workloads (kubectl 1.36.3).
    #[test]
    fn a_deployment_is_described_as_kubectl_describes_it() {
        let (object, set) = lark();
        let mut out = String::new();
        deployment(&mut out, &object, &[set]);
        let head = "\
Name:                   lark
Namespace:              ns
CreationTimestamp:      x
Labels:                 t=lark
Annotations:            deployment.kubernetes.io/revision: 1
                        kubernetes.io/change-cause: first
Selector:               t=lark
Replicas:               1 desired | 1 updated | 1 total | 1 available | 0 unavailable
StrategyType:           RollingUpdate
MinReadySeconds:        0
RollingUpdateStrategy:  25% max unavailable, 25% max surge
Pod Template:
  Labels:  t=lark
";
        let tail = "\
Conditions:
  Type           Status  Reason
  ----           ------  ------
  Available      True    MinimumReplicasAvailable
  Progressing    True    NewReplicaSetAvailable
OldReplicaSets:  <none>
NewReplicaSet:   lark-5d (1/1 replicas created)
";
        assert_eq!(align(&out), format!("{head}{TEMPLATE}{tail}"));
    }

    #[test]
    fn a_replica_set_is_described_as_kubectl_describes_it() {
        let (_, set) = lark();
        let pod = |owner: &str, phase: &str| {
            Object::from_value(json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "name": "x", "uid": owner, "controller": true}]}, "status": {"phase": phase}}))
            .expect("a map")
        };
        let pods = [pod("r", "Running"), pod("other", "Running"), pod("r", "Failed")];
        let mut out = String::new();
        replica_set(&mut out, &set, Phases::of(pods.iter(), set.uid()));
        let head = "\
Name:           lark-5d
Namespace:      ns
Selector:       pod-template-hash=5d,t=lark
Labels:         pod-template-hash=5d
                t=lark
Annotations:    <none>
Controlled By:  Deployment/lark
Replicas:       1 current / 1 desired
Pods Status:    1 Running / 0 Waiting / 0 Succeeded / 1 Failed
Pod Template:
  Labels:  pod-template-hash=5d
           t=lark
";
        assert_eq!(align(&out), format!("{head}{TEMPLATE}"));
    }
}
