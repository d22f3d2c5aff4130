//! What a kubelet may write: judged by the object (upstream's NodeRestriction, Kubernetes 1.36).

use std::collections::BTreeSet;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Status};
use serde_json::Value;

use super::audience;
use super::node_of;
use crate::registry::{AdmissionPlugin, Change, ChangeVerb, Registry, RequestContext, Target, User, api_reference};

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Labels that a kubelet may set beside those of its own namespaces.
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const OWN_LABEL_SPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Judges a write; one of somebody else passes.
pub(in super::super) async fn admit(registry: &Registry, user: &User, change: &Change<'_>) -> Result<(), Status> {
    let Some(node) = node_of(user) else { return Ok(()) };
    let name = change.object().map_or("", Object::name);
    let judged = if node.is_empty() {
        Err(format!("could not determine node from user {}", quote(&user.name)))
    } else {
        match (change.kind.group, change.kind.kind) {
            ("", "Pod") => pod(registry, node, change).await?,
            ("", "Node") => node_object(node, change),
            ("", "PersistentVolumeClaim") => claim(node, change),
            ("coordination.k8s.io", "Lease") => lease(node, change),
            ("storage.k8s.io", "CSINode") if name != node => {
                Err("can only access CSINode with the same name as the requesting node".to_owned())
            }
            ("resource.k8s.io", "ResourceSlice") => slice(node, change),
            _ => Ok(()),
        }
    };
    judged.map_err(|why| Status::forbidden(change.kind, name, &why))
}

/// Judges a kubelet's request for a service account's token: only for a pod of its node, by its uid, and for an audience
/// that the pod asks for.
pub(in super::super) async fn admit_token(
    registry: &Registry,
    user: &User,
    target: &Target,
    request: &Object,
) -> Result<(), Status> {
    let Some(node) = node_of(user).filter(|_| registry.runs(AdmissionPlugin::NodeRestriction)) else { return Ok(()) };
    let refused = |why: &str| Err(Status::forbidden(target.kind, &target.name, why));
    let at = |key: &str| request.text(&["spec", "boundObjectRef", key]);
    if at("apiVersion") != "v1" || at("kind") != "Pod" || at("name").is_empty() {
        return refused("node requested token not bound to a pod");
    }
    if at("uid").is_empty() {
        return refused("node requested token with a pod binding without a uid");
    }
    let pods = Kind::by_api_version("v1", "Pod").expect("Pod is a served kind");
    let context = RequestContext::user("system:registry");
    let pod = registry.get(&context, &Target::object(pods, &*target.namespace, at("name")), 0).await?;
    let pod = pod.object();
    if pod.uid() != at("uid") {
        let uid = at("uid");
        return refused(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        ));
    }
    if pod.text(&["spec", "nodeName"]) != node {
        return refused("node requested token bound to a pod scheduled on a different node");
    }
    match audience::admit(registry, user, target, request, pod).await {
        Ok(()) => Ok(()),
        Err(why) => refused(&why),
    }
}

type Judged = Result<(), String>;

fn refuse(when: bool, why: impl FnOnce() -> String) -> Judged {
    if when { Err(why()) } else { Ok(()) }
}

/// The outer failure is the store's, the inner one the judgement.
async fn pod(registry: &Registry, node: &str, change: &Change<'_>) -> Result<Judged, Status> {
    let on_node = |pod: Option<&Object>| pod.is_some_and(|pod| pod.text(&["spec", "nodeName"]) == node);
    Ok(match (change.subresource, change.verb) {
        ("", ChangeVerb::Create) => {
            let Some(pod) = change.new else { return Ok(Ok(())) };
            match mirror_pod(node, pod) {
                Ok(owner_uid) => {
                    let nodes = Kind::by_api_version("v1", "Node").expect("Node is a served kind");
                    let context = RequestContext::user("system:registry");
                    let own = registry.get(&context, &Target::object(nodes, "", node), 0).await?;
                    let uid = own.object().uid();
                    refuse(uid != owner_uid, || format!("node {node} UID mismatch: expected {owner_uid} got {uid}"))
                }
                Err(why) => Err(why),
            }
        }
        ("", ChangeVerb::Delete) => refuse(!on_node(change.old), || {
            format!("node {} can only delete pods with spec.nodeName set to itself", quote(&node))
        }),
        ("", ChangeVerb::Update) => Err(format!(
            "unexpected operation \"UPDATE\", node {} can only create and delete mirror pods",
            quote(&node)
        )),
        ("status", ChangeVerb::Update) if !on_node(change.old) => {
            Err(format!("node {} can only update pod status for pods with spec.nodeName set to itself", quote(&node)))
        }
        ("status", ChangeVerb::Update) => pod_status(node, change),
        ("eviction", ChangeVerb::Create) => {
            refuse(!on_node(change.old), || format!("node {node} can only evict pods with spec.nodeName set to itself"))
        }
        (other, _) => {
            Err(format!("unexpected pod subresource {}, only 'status' and 'eviction' are allowed", quote(&other)))
        }
    })
}

fn pod_status(node: &str, change: &Change<'_>) -> Judged {
    let same = |path: &[&str]| change.new.and_then(|o| o.at(path)) == change.old.and_then(|o| o.at(path));
    refuse(!same(&["metadata", "labels"]), || {
        format!("node {} cannot update labels through pod status", quote(&node))
    })?;
    refuse(!same(&["status", "resourceClaimStatuses"]), || {
        format!("node {} cannot update resource claim statues", quote(&node))
    })?;
    refuse(!same(&["status", "extendedResourceClaimStatus"]), || {
        format!("node {} cannot update extended resource claim status", quote(&node))
    })
}

/// A pod that a kubelet may create stands for a file of its own; the answer is the uid of the node that it names.
fn mirror_pod(node: &str, pod: &Object) -> Result<String, String> {
    refuse(pod.at(&["metadata", "annotations", MIRROR]).is_none(), || {
        format!(
            "pod does not have {mirror} annotation, node {node} can only create mirror pods",
            mirror = quote(MIRROR),
            node = quote(&node)
        )
    })?;
    refuse(pod.text(&["spec", "nodeName"]) != node, || {
        format!("node {} can only create pods with spec.nodeName set to itself", quote(&node))
    })?;
    let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let beside = || format!("node {} can only create pods with an owner reference set to itself", quote(&node));
    let owner = match owners {
        [] => return Err(beside()),
        [one] => one,
        _ => {
            return Err(format!(
                "node {} can only create pods with a single owner reference set to itself",
                quote(&node)
            ));
        }
    };
    let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
    refuse(text("apiVersion") != "v1" || text("kind") != "Node" || text("name") != node, beside)?;
    refuse(owner.get("controller") != Some(&Value::Bool(true)), || {
        format!("node {} can only create pods with a controller owner reference set to itself", quote(&node))
    })?;
    refuse(owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)), || {
        format!("node {} must not set blockOwnerDeletion on an owner reference", quote(&node))
    })?;
    match api_reference(pod) {
        Ok(None) => {}
        Ok(Some(what)) => {
            return Err(format!("node {node} can not create pods that reference {what}", node = quote(&node)));
        }
        Err(why) => return Err(format!("error checking mirror pod for API references: {why}")),
    }
    Ok(text("uid").to_owned())
}

fn node_object(node: &str, change: &Change<'_>) -> Judged {
    let name = change.object().map_or("", Object::name);
    refuse(name != node, || {
        format!("node {node} is not allowed to modify node {name}", node = quote(&node), name = quote(&name))
    })?;
    let Some(new) = change.new else { return Ok(()) };
    let forbidden = forbidden_labels(new, change.old);
    match change.old {
        None => {
            refuse(new.at(&["spec", "configSource"]).is_some(), || {
                format!("node {} is not allowed to create pods with a non-nil configSource", quote(&node))
            })?;
            refuse(!forbidden.is_empty(), || {
                format!(
                    "node {node} is not allowed to set the following labels: {}",
                    joined(&forbidden),
                    node = quote(&node)
                )
            })
        }
        Some(old) => {
            let same = |path: &[&str]| items(new, path) == items(old, path);
            let source = &["spec", "configSource"];
            refuse(new.at(source).is_some() && new.at(source) != old.at(source), || {
                format!("node {} is not allowed to update configSource to a new non-nil configSource", quote(&node))
            })?;
            refuse(!same(&["spec", "taints"]), || format!("node {} is not allowed to modify taints", quote(&node)))?;
            refuse(!same(&["metadata", "ownerReferences"]), || {
                format!("node {} is not allowed to modify ownerReferences", quote(&node))
            })?;
            refuse(!forbidden.is_empty(), || format!("is not allowed to modify labels: {}", joined(&forbidden)))
        }
    }
}

/// The items of a list; one that is not there has none.
fn items<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn joined(labels: &BTreeSet<&str>) -> String {
    labels.iter().copied().collect::<Vec<_>>().join(", ")
}

/// The labels that differ and that a kubelet may not set.
fn forbidden_labels<'a>(new: &'a Object, old: Option<&'a Object>) -> BTreeSet<&'a str> {
    let labels = |object: &'a Object| object.at(&["metadata", "labels"]).and_then(Value::as_object);
    let (new, old) = (labels(new), old.and_then(labels));
    let keys = new.into_iter().chain(old).flat_map(|map| map.keys());
    let value = |map: Option<&'a serde_json::Map<String, Value>>, key: &str| map.and_then(|m| m.get(key)).cloned();
    keys.map(String::as_str).filter(|key| value(new, key) != value(old, key)).filter(|key| is_forbidden(key)).collect()
}

fn is_forbidden(label: &str) -> bool {
    let Some((space, _)) = label.split_once('/') else { return false };
    let within = |outer: &str| space == outer || space.ends_with(&format!(".{outer}"));
    if within("node-restriction.kubernetes.io") {
        return true;
    }
    let own = OWN_LABELS.contains(&label) || OWN_LABEL_SPACES.iter().any(|outer| within(outer));
    (within("kubernetes.io") || within("k8s.io")) && !own
}

fn claim(node: &str, change: &Change<'_>) -> Judged {
    if change.subresource != "status" {
        return Err("may only update PVC status".to_owned());
    }
    let rest = |object: Option<&Object>| {
        let mut rest = object.cloned().unwrap_or_default();
        for field in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            rest.remove(&["status", field]);
        }
        rest.remove(&["metadata", "resourceVersion"]);
        rest.remove(&["metadata", "managedFields"]);
        rest
    };
    refuse(rest(change.new) != rest(change.old), || {
        format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions",
            quote(&node)
        )
    })
}

fn lease(node: &str, change: &Change<'_>) -> Judged {
    let object = change.object();
    let (namespace, name) = object.map_or(("", ""), |lease| (lease.namespace(), lease.name()));
    refuse(namespace != "kube-node-lease", || {
        "can only access leases in the \"kube-node-lease\" system namespace".to_owned()
    })?;
    refuse(name != node, || "can only access node lease with the same name as the requesting node".to_owned())
}

fn slice(node: &str, change: &Change<'_>) -> Judged {
    let other = |object: Option<&Object>| object.is_some_and(|slice| slice.text(&["spec", "nodeName"]) != node);
    match change.verb {
        ChangeVerb::Create => refuse(other(change.new), || {
            "can only create ResourceSlice with the same NodeName as the requesting node".to_owned()
        }),
        ChangeVerb::Update | ChangeVerb::Delete => refuse(other(change.old), || {
            "can only delete ResourceSlice with the same NodeName as the requesting node".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn change<'a>(kind: &str, part: &'a str, new: Option<&'a Object>, old: Option<&'a Object>) -> Change<'a> {
        let verb = match (new, old) {
            (Some(_), None) => ChangeVerb::Create,
            (None, _) => ChangeVerb::Delete,
            _ => ChangeVerb::Update,
        };
        let asked_name = old.map_or("", Object::name);
        Change { verb, kind: Kind::by_name(kind).expect("known"), subresource: part, asked_name, new, old }
    }

    #[test]
    fn a_node_changes_its_own_node_but_not_its_taints_and_not_every_label() {
        let node = |name: &str, labels: Value, taints: Value| {
            object(json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}))
        };
        let old = node("n1", json!({"a": "b"}), json!([{"key": "k"}]));
        let judge = |new: &Object| node_object("n1", &change("node", "", Some(new), Some(&old)));
        assert_eq!(judge(&node("n1", json!({"kubernetes.io/os": "linux"}), json!([{"key": "k"}]))), Ok(()));
        assert!(judge(&node("n2", json!({}), json!([]))).expect_err("another's").contains("modify node \"n2\""));
        assert!(judge(&node("n1", json!({"a": "b"}), json!([]))).expect_err("taints").contains("modify taints"));
        for label in ["node-restriction.kubernetes.io/x", "other.k8s.io/x", "kubernetes.io/x"] {
            let new = node("n1", json!({"a": "b", label: "1"}), json!([{"key": "k"}]));
            assert!(judge(&new).expect_err(label).contains(label));
        }
    }

    #[test]
    fn a_node_writes_the_status_of_its_own_pods_alone() {
        let pod = |node: &str, labels: Value| {
            object(json!({"metadata": {"name": "p", "labels": labels}, "spec": {"nodeName": node}}))
        };
        let own = pod("n1", json!({}));
        let relabelled = pod("n1", json!({"a": "b"}));
        assert_eq!(pod_status("n1", &change("pod", "status", Some(&own), Some(&own))), Ok(()));
        assert!(pod_status("n1", &change("pod", "status", Some(&relabelled), Some(&own))).is_err());
        assert!(mirror_pod("n1", &own).expect_err("no mirror").contains("mirror pods"));
    }

    #[test]
    fn a_mirror_pod_refers_to_nothing() {
        let mirror = |volume: Value| {
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": true});
            object(json!({"metadata": {"name": "p", "annotations": {MIRROR: "x"}, "ownerReferences": [owner]},
                "spec": {"nodeName": "n1", "volumes": [volume]}}))
        };
        let judge = |volume: Value| mirror_pod("n1", &mirror(volume));
        assert_eq!(judge(json!({"name": "v", "hostPath": {"path": "/"}})), Ok("u".to_owned()));
        let secret = json!({"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}});
        assert_eq!(judge(secret), Err("node \"n1\" can not create pods that reference secrets".to_owned()));
        assert_eq!(
            judge(json!({"name": "v", "tape": {}})),
            Err("error checking mirror pod for API references: unknown volume type for volume  \"v\"".to_owned())
        );
    }

    #[test]
    fn a_node_holds_one_lease() {
        let lease_of =
            |namespace: &str, name: &str| object(json!({"metadata": {"name": name, "namespace": namespace}}));
        let judge = |object: &Object| lease("n1", &change("lease", "", Some(object), None));
        assert_eq!(judge(&lease_of("kube-node-lease", "n1")), Ok(()));
        assert!(judge(&lease_of("kube-node-lease", "n2")).is_err());
        assert!(judge(&lease_of("kube-system", "n1")).is_err());
    }
}
