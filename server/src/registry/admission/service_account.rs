//! A pod runs as a service account, and its containers find its token (upstream's ServiceAccount plugin, Kubernetes
//! 1.36).

use std::time::Duration;

use listwatch_proto::resource::{Kind, Object, Status};
use serde_json::{Value, json};

use super::super::store::{StoreError, StoreWatcher};
use super::super::{Registry, projects_token, secret_names};
use crate::storage::KeyRange;

/// The account of pods that name none.
const DEFAULT: &str = "default";
/// Where containers look for the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What the volume of the token is called, up to its suffix.
const VOLUME: &str = "kube-api-access-";
/// A pod that stands for a file on the node.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Makes an account's list of secrets the only ones that its pods may use.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// How long the default account is waited for: a new namespace gets it a moment later (upstream looks ten times, with
/// pauses of 150 ms on average).
const PATIENCE: Duration = Duration::from_millis(1500);

impl Registry {
    /// Gives a new pod its account and the account's token.
    pub(super) async fn admit_service_account(&self, kind: &'static Kind, pod: &mut Object) -> Result<(), Status> {
        let refused = |pod: &Object, why: String| Err(Status::forbidden(kind, pod.name(), &why));
        if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
            return match mirror_fault(pod) {
                Some(why) => refused(pod, why.to_owned()),
                None => Ok(()),
            };
        }
        if pod.text(&["spec", "serviceAccountName"]).is_empty() {
            pod.set(&["spec", "serviceAccountName"], DEFAULT);
        }
        let name = pod.text(&["spec", "serviceAccountName"]).to_owned();
        // The old name of the field says the same.
        pod.set(&["spec", "serviceAccount"], name.as_str());
        let namespace = pod.namespace().to_owned();
        let Some(account) = self.service_account(&namespace, &name).await? else {
            let why =
                format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
            return refused(pod, why);
        };
        let automount = |object: &Object, path: &[&str]| object.at(path).and_then(Value::as_bool);
        let mounts = automount(pod, &["spec", "automountServiceAccountToken"])
            .or_else(|| automount(&account, &["automountServiceAccountToken"]))
            .unwrap_or(true);
        if mounts {
            mount_token(pod);
        }
        let own = list(pod, &["spec", "imagePullSecrets"]);
        let pulls = list(&account, &["imagePullSecrets"]);
        if own.is_empty() && !pulls.is_empty() {
            let names: Vec<Value> = pulls.iter().map(|secret| json!({"name": secret.get("name")})).collect();
            pod.set(&["spec", "imagePullSecrets"], names);
        }
        let enforced = account.text(&["metadata", "annotations", ENFORCE]);
        if matches!(enforced, "1" | "t" | "T" | "true" | "TRUE" | "True")
            && let Some(why) = secret_fault(&account, pod)
        {
            return refused(pod, why);
        }
        Ok(())
    }

    async fn service_account(&self, namespace: &str, name: &str) -> Result<Option<Object>, Status> {
        let accounts = Kind::by_api_version("v1", "ServiceAccount").expect("ServiceAccount is a served kind");
        let found = self.current(accounts, namespace, name).await?;
        if found.is_some() || name != DEFAULT {
            return Ok(found.map(|account| account.object));
        }
        // Apart, so that pods whose account is there do not carry the state of this wait around with them.
        match Box::pin(tokio::time::timeout(PATIENCE, self.awaited_account(accounts, namespace))).await {
            Ok(account) => account.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The default account of a namespace, as soon as it is there.
    async fn awaited_account(&self, accounts: &'static Kind, namespace: &str) -> Result<Object, Status> {
        let range = KeyRange::single(accounts.key(namespace, DEFAULT));
        let watcher = StoreWatcher {
            user: "system:registry".to_owned(),
            client: None,
            target: format!("the service account that a new pod in {namespace} waits for"),
        };
        // The watch begins before the look, so that no account falls between the two.
        let mut watch = self.shared.store.watch(&range, 0, &watcher).await?;
        loop {
            if let Some(account) = self.current(accounts, namespace, DEFAULT).await? {
                return Ok(account.object);
            }
            if watch.next().await?.is_none() {
                return Err(StoreError::Unavailable("the server is shutting down".to_owned()).into());
            }
        }
    }
}

fn list<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn mirror_fault(pod: &Object) -> Option<&'static str> {
    if !pod.text(&["spec", "serviceAccountName"]).is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if !secret_names(pod).is_empty() {
        return Some("a mirror pod may not reference secrets");
    }
    projects_token(pod).then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// Adds the volume of the token, and its mount to every container that has nothing else there.
fn mount_token(pod: &mut Object) {
    let named = |volume: &Value| volume.get("name").and_then(Value::as_str).map(str::to_owned);
    let present = list(pod, &["spec", "volumes"]).iter().filter_map(named).find(|name| name.starts_with(VOLUME));
    let name = present.clone().unwrap_or_else(|| super::super::create::generated_name(VOLUME));
    let mut needed = false;
    for containers in ["initContainers", "containers"] {
        if list(pod, &["spec", containers]).is_empty() {
            continue;
        }
        let Value::Array(containers) = pod.at_mut(&["spec", containers]) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            if mounts.is_null() {
                *mounts = json!([]);
            }
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if mounts.iter().any(|mount| mount.get("mountPath").and_then(Value::as_str) == Some(MOUNT_PATH)) {
                continue;
            }
            mounts.push(json!({"mountPath": MOUNT_PATH, "name": name, "readOnly": true}));
            needed = true;
        }
    }
    if needed && present.is_none() {
        let mut volumes = list(pod, &["spec", "volumes"]).to_vec();
        volumes.push(token_volume(&name));
        pod.set(&["spec", "volumes"], volumes);
    }
}

/// Token, authority and namespace, as clients within a pod look for them.
fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [
            {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"},
        ]}},
    ]}})
}

/// The first secret that the pod uses and its account does not list.
fn secret_fault(account: &Object, pod: &Object) -> Option<String> {
    let lists = |key: &str, name: &str| {
        list(account, &[key]).iter().any(|own| own.get("name").and_then(Value::as_str) == Some(name))
    };
    let of = account.name();
    let beyond = |name: &str| !lists("secrets", name);
    for volume in list(pod, &["spec", "volumes"]) {
        let secret = volume.get("secret").and_then(|s| s.get("secretName")).and_then(Value::as_str);
        if let Some(name) = secret.filter(|name| beyond(name)) {
            return Some(format!(
                "volume with secret.secretName=\"{name}\" is not allowed because service account {of} does not reference \
                 that secret"
            ));
        }
    }
    for (key, word) in [("initContainers", "init container"), ("containers", "container")] {
        for container in list(pod, &["spec", key]) {
            let own = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let env = |key: &str| container.get(key).and_then(Value::as_array).into_iter().flatten();
            for variable in env("env") {
                let reference = variable.get("valueFrom").and_then(|v| v.get("secretKeyRef"));
                let secret = reference.and_then(|r| r.get("name")).and_then(Value::as_str);
                if let Some(name) = secret.filter(|name| beyond(name)) {
                    let variable = variable.get("name").and_then(Value::as_str).unwrap_or_default();
                    return Some(format!(
                        "{word} {own} with envVar {variable} referencing secret.secretName=\"{name}\" is not allowed \
                         because service account {of} does not reference that secret"
                    ));
                }
            }
            for source in env("envFrom") {
                let secret = source.get("secretRef").and_then(|r| r.get("name")).and_then(Value::as_str);
                if let Some(name) = secret.filter(|name| beyond(name)) {
                    return Some(format!(
                        "{word} {own} with envFrom referencing secret.secretName=\"{name}\" is not allowed because \
                         service account {of} does not reference that secret"
                    ));
                }
            }
        }
    }
    for (index, secret) in list(pod, &["spec", "imagePullSecrets"]).iter().enumerate() {
        let name = secret.get("name").and_then(Value::as_str).unwrap_or_default();
        if !lists("imagePullSecrets", name) {
            return Some(format!(
                "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {of} does not reference \
                 that imagePullSecret"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a map")
    }

    #[test]
    fn every_container_without_its_own_sees_the_token() {
        let mut pod = pod(json!({
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}],
        }));
        mount_token(&mut pod);
        let volumes = list(&pod, &["spec", "volumes"]);
        assert_eq!(volumes.len(), 1);
        let name = volumes[0]["name"].as_str().expect("a name");
        assert!(name.starts_with(VOLUME) && name.len() == VOLUME.len() + 5, "{name}");
        let containers = list(&pod, &["spec", "containers"]);
        assert_eq!(containers[0]["volumeMounts"][0]["name"], name);
        assert_eq!(containers[1]["volumeMounts"].as_array().map(Vec::len), Some(1));
        assert_eq!(list(&pod, &["spec", "initContainers"])[0]["volumeMounts"][0]["readOnly"], true);
        let before = pod.clone();
        mount_token(&mut pod);
        assert_eq!(pod, before, "a volume that is there is taken");
    }

    #[test]
    fn an_account_may_bound_the_secrets_of_its_pods() {
        let account =
            Object::from_value(json!({"metadata": {"name": "robot"}, "secrets": [{"name": "s"}]})).expect("a map");
        assert_eq!(secret_fault(&account, &pod(json!({"volumes": [{"secret": {"secretName": "s"}}]}))), None);
        let other = secret_fault(&account, &pod(json!({"volumes": [{"secret": {"secretName": "t"}}]})));
        assert!(other.expect("refused").contains("does not reference that secret"));
        let pull = secret_fault(&account, &pod(json!({"imagePullSecrets": [{"name": "x"}]})));
        assert!(pull.expect("refused").starts_with("imagePullSecrets[0].name"));
    }

    #[test]
    fn a_mirror_pod_uses_nothing_of_the_api() {
        assert!(mirror_fault(&pod(json!({"serviceAccountName": "x"}))).is_some());
        assert!(mirror_fault(&pod(json!({"volumes": [{"secret": {"secretName": "s"}}]}))).is_some());
        let token = json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]});
        assert!(mirror_fault(&pod(token)).is_some_and(|why| why.contains("ServiceAccountToken")));
        let driver = json!({"volumes": [{"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]});
        assert_eq!(mirror_fault(&pod(driver)), Some("a mirror pod may not reference secrets"));
        assert_eq!(mirror_fault(&pod(json!({"containers": [{"name": "a"}]}))), None);
    }
}
