//! Whether an object belongs to a node: a pod that runs there, or what such a pod refers to.
//!
//! Read from the pods of the node as they are now; nothing is kept.

use std::collections::BTreeSet;

use listwatch_proto::resource::{Kind, Object, Status};
use serde_json::Value;

use crate::registry::{ListOptions, Registry, RequestContext, StoredObject, Target, config_map_names, secret_names};

/// A pod that stands for a file on the node; it brings no rights.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What can belong to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
    Claim,
    Volume,
    ResourceClaim,
    Attachment,
    Slice,
}

/// Whether it belongs to the node.
pub(super) async fn is_related(
    registry: &Registry,
    node: &str,
    thing: Thing,
    namespace: &str,
    name: &str,
) -> Result<bool, Status> {
    let is_of_node = |object: &StoredObject| object.object().text(&["spec", "nodeName"]) == node;
    match thing {
        Thing::Pod => Ok(one(registry, kind("v1", "Pod"), namespace, name).await?.is_some_and(|pod| is_of_node(&pod))),
        Thing::Attachment => {
            let kind = kind("storage.k8s.io/v1", "VolumeAttachment");
            Ok(one(registry, kind, "", name).await?.is_some_and(|object| is_of_node(&object)))
        }
        Thing::Slice => {
            let kind = kind("resource.k8s.io/v1", "ResourceSlice");
            Ok(one(registry, kind, "", name).await?.is_some_and(|object| is_of_node(&object)))
        }
        Thing::Volume => {
            let Some(volume) = one(registry, kind("v1", "PersistentVolume"), "", name).await? else { return Ok(false) };
            let claim = |key: &str| volume.object().text(&["spec", "claimRef", key]).to_owned();
            let pods = pods_of(registry, node, &claim("namespace")).await?;
            Ok(pods.iter().any(|pod| refers(pod.object(), Thing::Claim, &claim("name"))))
        }
        _ => {
            let pods = pods_of(registry, node, namespace).await?;
            Ok(pods.iter().any(|pod| refers(pod.object(), thing, name)))
        }
    }
}

pub(super) fn kind(api_version: &str, name: &str) -> &'static Kind {
    Kind::by_api_version(api_version, name).expect("a served kind")
}

pub(super) async fn one(
    registry: &Registry,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<StoredObject>, Status> {
    match registry.get(&RequestContext::user("system:registry"), &Target::object(kind, namespace, name), 0).await {
        Ok(object) => Ok(Some(object)),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

async fn pods_of(registry: &Registry, node: &str, namespace: &str) -> Result<Vec<StoredObject>, Status> {
    if namespace.is_empty() {
        return Ok(Vec::new());
    }
    let options = ListOptions { field_selector: format!("spec.nodeName={node}"), ..ListOptions::default() };
    let target = Target::collection(kind("v1", "Pod"), namespace);
    Ok(registry.list(&RequestContext::user("system:registry"), &target, &options).await?.items)
}

/// Whether a pod refers to something in its namespace.
fn refers(pod: &Object, thing: Thing, name: &str) -> bool {
    if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
        return false;
    }
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let mut names = BTreeSet::new();
    match thing {
        Thing::ServiceAccount => return pod.text(&["spec", "serviceAccountName"]) == name,
        Thing::Secret => names.extend(secret_names(pod)),
        Thing::ConfigMap => names.extend(config_map_names(pod)),
        Thing::Claim => {
            for volume in spec.get("volumes").and_then(Value::as_array).into_iter().flatten() {
                let claim = volume.get("persistentVolumeClaim").and_then(|claim| claim.get("claimName"));
                names.extend(claim.and_then(Value::as_str));
                if volume.get("ephemeral").is_some()
                    && let Some(own) = volume.get("name").and_then(Value::as_str)
                    && name.strip_prefix(pod.name()).and_then(|rest| rest.strip_prefix('-')) == Some(own)
                {
                    return true;
                }
            }
        }
        Thing::ResourceClaim => {
            let direct = spec.get("resourceClaims").and_then(Value::as_array).into_iter().flatten();
            names.extend(direct.filter_map(|claim| claim.get("resourceClaimName")).filter_map(Value::as_str));
            let made = pod.at(&["status", "resourceClaimStatuses"]).and_then(Value::as_array).into_iter().flatten();
            names.extend(made.filter_map(|claim| claim.get("resourceClaimName")).filter_map(Value::as_str));
        }
        Thing::Pod | Thing::Volume | Thing::Attachment | Thing::Slice => {}
    }
    names.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_refers_to_what_its_containers_and_volumes_name() {
        let pod = Object::from_value(json!({"metadata": {"name": "p"}, "spec": {
            "serviceAccountName": "robot",
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}},
                                     {"valueFrom": {"configMapKeyRef": {"name": "c1"}}}],
                            "envFrom": [{"configMapRef": {"name": "c2"}}, {"secretRef": {"name": "from"}}]}],
            "volumes": [{"name": "v", "secret": {"secretName": "vol"}},
                        {"name": "w", "projected": {"sources": [{"secret": {"name": "proj"}}, {"configMap": {"name": "c3"}}]}},
                        {"name": "x", "persistentVolumeClaim": {"claimName": "claim"}},
                        {"name": "y", "ephemeral": {}}]}}))
        .expect("a map");
        for name in ["pull", "env", "from", "vol", "proj"] {
            assert!(refers(&pod, Thing::Secret, name), "{name}");
        }
        for name in ["c1", "c2", "c3"] {
            assert!(refers(&pod, Thing::ConfigMap, name), "{name}");
            assert!(!refers(&pod, Thing::Secret, name), "{name}");
        }
        assert!(refers(&pod, Thing::ServiceAccount, "robot"));
        assert!(refers(&pod, Thing::Claim, "claim") && refers(&pod, Thing::Claim, "p-y"));
        assert!(!refers(&pod, Thing::Claim, "p-x"));
    }
}
