//! What a pod refers to in the API: secrets, config maps, and whatever else it could not do without (upstream's
//! `VisitPodSecretNames`, `VisitPodConfigmapNames` and `HasAPIObjectReference`, Kubernetes 1.36).
//!
//! Invariant: every path at which a pod can name a secret stands here and nowhere else, so that who may read one and who
//! may not use one are told by the same list.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

/// Volumes that name their secret in a reference: the volume, and the field of the reference.
const SECRET_VOLUMES: [(&str, &str, &str); 10] = [
    ("azureFile", "", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("secret", "", "secretName"),
    ("storageos", "secretRef", "name"),
];

/// Volumes that need nothing of the API, beyond the secrets and config maps that they name.
const PLAIN_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volumes that need something of the API, and what.
const API_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// The same for what a projected volume takes in.
const API_PROJECTIONS: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The secrets that a pod names. Those that its claims and their volumes name are not among them.
pub(crate) fn secret_names(pod: &Object) -> Vec<&str> {
    let pulls = list(pod, "imagePullSecrets").filter_map(|pull| name(pull, "", "name"));
    let mut names: Vec<_> = pulls.chain(container_names(pod, "secretRef", "secretKeyRef")).collect();
    for volume in list(pod, "volumes") {
        let own = SECRET_VOLUMES.iter().filter_map(|(source, reference, field)| {
            present(volume, source).and_then(|source| name(source, reference, field))
        });
        names.extend(own);
        names.extend(projections(volume).filter_map(|part| name(part, "secret", "name")));
    }
    names
}

/// The config maps that a pod names.
pub(crate) fn config_map_names(pod: &Object) -> Vec<&str> {
    let mut names: Vec<_> = container_names(pod, "configMapRef", "configMapKeyRef").collect();
    for volume in list(pod, "volumes") {
        names.extend(name(volume, "configMap", "name"));
        names.extend(projections(volume).filter_map(|part| name(part, "configMap", "name")));
    }
    names
}

/// The first kind of object without which a pod cannot run; `None` = it needs none.
///
/// # Errors
/// A volume of a form that is not known, and so may need anything.
pub(crate) fn api_reference(pod: &Object) -> Result<Option<&'static str>, String> {
    if !pod.text(&["spec", "serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if !secret_names(pod).is_empty() {
        return Ok(Some("secrets"));
    }
    if !config_map_names(pod).is_empty() {
        return Ok(Some("configmaps"));
    }
    if list(pod, "resourceClaims").next().is_some() {
        return Ok(Some("resourceclaims"));
    }
    for volume in list(pod, "volumes") {
        if let Some(found) = volume_reference(volume)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn volume_reference(volume: &Value) -> Result<Option<&'static str>, String> {
    if let Some((_, what)) = API_VOLUMES.iter().find(|(source, _)| present(volume, source).is_some()) {
        return Ok(Some(what));
    }
    let called = volume.get("name").and_then(Value::as_str).unwrap_or_default();
    if present(volume, "projected").is_some() {
        for part in projections(volume) {
            if let Some((_, what)) = API_PROJECTIONS.iter().find(|(source, _)| present(part, source).is_some()) {
                return Ok(Some(what));
            }
            if present(part, "downwardAPI").is_none() {
                return Err(format!("unknown source for projected volume {}", quote(&called)));
            }
        }
        return Ok(None);
    }
    if PLAIN_VOLUMES.iter().any(|source| present(volume, source).is_some()) {
        return Ok(None);
    }
    Err(format!("unknown volume type for volume  {}", quote(&called)))
}

/// Whether a pod takes in a token of its account.
pub(crate) fn projects_token(pod: &Object) -> bool {
    list(pod, "volumes").flat_map(projections).any(|part| present(part, "serviceAccountToken").is_some())
}

/// What a projected volume takes in.
pub(crate) fn projections(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.get("projected").and_then(|v| v.get("sources")).and_then(Value::as_array).into_iter().flatten()
}

/// A list of the pod's spec.
fn list<'a>(pod: &'a Object, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    pod.at(&["spec", field]).and_then(Value::as_array).into_iter().flatten()
}

/// A field that is there; null is not.
fn present<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|inner| !inner.is_null())
}

/// A name in a reference, or beside it if that has no name; an empty one names nothing.
fn name<'a>(value: &'a Value, reference: &str, field: &str) -> Option<&'a str> {
    let holder = if reference.is_empty() { value } else { value.get(reference)? };
    holder.get(field).and_then(Value::as_str).filter(|name| !name.is_empty())
}

/// What the environments of all containers name: as a whole, or a key of it.
fn container_names<'a>(
    pod: &'a Object,
    whole: &'static str,
    key: &'static str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let containers = ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|f| list(pod, f));
    containers.flat_map(move |container| {
        let items = |field: &str| container.get(field).and_then(Value::as_array).into_iter().flatten();
        let from = items("envFrom").filter_map(move |from| name(from, whole, "name"));
        let values = items("env").filter_map(|variable| variable.get("valueFrom"));
        from.chain(values.filter_map(move |value| name(value, key, "name"))).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a map")
    }

    #[test]
    fn secrets_are_found_at_every_path() {
        let volume = |source: Value| json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, source]});
        let reference = |kind: &str| volume(json!({kind: {"secretRef": {"name": "s"}}}));
        for spec in [
            json!({"imagePullSecrets": [{"name": "s"}]}),
            json!({"containers": [{"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]}),
            json!({"initContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
            json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}),
            volume(json!({"secret": {"secretName": "s"}})),
            volume(json!({"azureFile": {"secretName": "s", "shareName": "x"}})),
            volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}})),
            volume(json!({"projected": {"sources": [{"downwardAPI": {}}, {"secret": {"name": "s"}}]}})),
            reference("cephfs"),
            reference("cinder"),
            reference("flexVolume"),
            reference("iscsi"),
            reference("rbd"),
            reference("scaleIO"),
            reference("storageos"),
        ] {
            let pod = pod(spec.clone());
            assert_eq!(secret_names(&pod), ["s"], "{spec}");
            assert_eq!(api_reference(&pod), Ok(Some("secrets")), "{spec}");
            assert!(config_map_names(&pod).is_empty(), "{spec}");
        }
        // What only sounds like a secret is none.
        let labels = json!({"nodeSelector": {"secret": "s"}, "volumes": [{"name": "secret", "emptyDir": {}}]});
        assert!(secret_names(&pod(labels)).is_empty());
    }

    #[test]
    fn whatever_needs_the_api_is_named_as_upstream_names_it() {
        let volume = |source: Value| json!({"volumes": [source]});
        let projected = |source: Value| volume(json!({"name": "v", "projected": {"sources": [source]}}));
        for (spec, expected) in [
            (json!({"serviceAccountName": "a"}), Some("serviceaccounts")),
            (json!({"containers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}), Some("configmaps")),
            (volume(json!({"configMap": {"name": "c"}})), Some("configmaps")),
            (volume(json!({"configMap": {}})), Some("configmaps (via configmap volumes)")),
            (volume(json!({"secret": {}})), Some("secrets (via secret volumes)")),
            (volume(json!({"azureFile": {}})), Some("secrets (via azureFile volumes)")),
            (volume(json!({"csi": {"driver": "d"}})), Some("csidrivers (via CSI volumes)")),
            (volume(json!({"glusterfs": {}})), Some("endpoints (via glusterFS volumes)")),
            (volume(json!({"persistentVolumeClaim": {"claimName": "c"}})), Some("persistentvolumeclaims")),
            (volume(json!({"ephemeral": {}})), Some("persistentvolumeclaims (via ephemeral volumes)")),
            (json!({"resourceClaims": [{"name": "r"}]}), Some("resourceclaims")),
            (projected(json!({"serviceAccountToken": {}})), Some("serviceaccounts (via projected volumes)")),
            (projected(json!({"clusterTrustBundle": {}})), Some("clustertrustbundles")),
            (projected(json!({"podCertificate": {}})), Some("podcertificates")),
            (projected(json!({"downwardAPI": {}})), None),
            (volume(json!({"hostPath": {"path": "/"}})), None),
            (json!({"containers": [{"name": "c"}]}), None),
        ] {
            assert_eq!(api_reference(&pod(spec.clone())), Ok(expected), "{spec}");
        }
        let odd = volume(json!({"name": "v", "tape": {}}));
        assert_eq!(api_reference(&pod(odd)), Err("unknown volume type for volume  \"v\"".to_owned()));
        assert_eq!(
            api_reference(&pod(projected(json!({"tape": {}})))),
            Err("unknown source for projected volume \"v\"".to_owned())
        );
    }
}
