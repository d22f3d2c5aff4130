//! What a container may be told of its pod: fields of the pod, amounts of its resources, keys of ConfigMaps
//! (Kubernetes 1.36).

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, Pod, PodSpec, ResourceFieldSelector, ServiceAccountTokenProjection,
};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Quantity, Resources};

use super::spec;

/// Everything known when an environment or a volume is made.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Address of the node.
    pub host_ip: &'a str,
    /// Address of the pod.
    pub pod_ip: &'a str,
    /// What the node offers: the limit of a container that names none.
    pub allocatable: &'a Resources,
    /// A ConfigMap of the pod's namespace, by name.
    pub config_maps: &'a dyn Fn(&str) -> Lookup,
    /// A token of the pod's service account.
    pub tokens: &'a dyn Fn(&TokenAsk) -> Token,
}

/// What a volume asks of a service account's token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenAsk {
    /// For whom; empty: the API server.
    pub audience: String,
    /// How long it shall live, in seconds.
    pub seconds: i64,
}

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// It has been asked for.
    NotYet,
    /// It is this. Secret.
    Here(String),
    /// The API refuses it.
    Failed(String),
}

/// What is known of a ConfigMap.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// Nothing yet.
    NotSeen,
    /// The API has none of this name.
    Absent,
    /// It is so.
    Found(Arc<ConfigMap>),
}

/// Why a value cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FactError {
    /// It will be known in a moment.
    #[error("the kubelet has not seen {0} yet")]
    NotSeen(String),
    /// Not as things are; in upstream's words where it has some.
    #[error("{0}")]
    Failed(String),
}

impl FactError {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        FactError::Failed(why.into())
    }
}

impl Facts<'_> {
    /// The ConfigMap; `None` if there is none and that is allowed.
    pub(super) fn config_map(&self, name: &str, optional: bool) -> Result<Option<Arc<ConfigMap>>, FactError> {
        match (self.config_maps)(name) {
            Lookup::NotSeen => Err(FactError::NotSeen(format!("ConfigMap {}", quote(&name)))),
            Lookup::Found(map) => Ok(Some(map)),
            Lookup::Absent if optional => Ok(None),
            Lookup::Absent => Err(FactError::Failed(format!("configmap \"{name}\" not found"))),
        }
    }

    /// The token that a volume asks for.
    pub(super) fn token(&self, ask: &TokenAsk) -> Result<String, FactError> {
        match (self.tokens)(ask) {
            Token::NotYet => Err(FactError::NotSeen("the service account's token".to_owned())),
            Token::Here(token) => Ok(token),
            Token::Failed(why) => Err(FactError::Failed(format!("failed to fetch token: {why}"))),
        }
    }

    /// A field of the pod, as `fieldRef` names it. In a volume labels and annotations can be had as a whole.
    pub(super) fn field(&self, path: &str, in_volume: bool) -> Result<String, FactError> {
        let meta = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let entry = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("']"));
        if let Some(key) = entry("metadata.labels['") {
            return Ok(meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default());
        }
        if let Some(key) = entry("metadata.annotations['") {
            return Ok(meta.annotations.as_ref().and_then(|list| list.get(key)).cloned().unwrap_or_default());
        }
        let value = match path {
            "metadata.name" => meta.name.clone(),
            "metadata.namespace" => meta.namespace.clone(),
            "metadata.uid" => meta.uid.clone(),
            "metadata.labels" if in_volume => meta.labels.as_ref().map(listed),
            "metadata.annotations" if in_volume => meta.annotations.as_ref().map(listed),
            "spec.nodeName" if !in_volume => spec.and_then(|spec| spec.node_name.clone()),
            "spec.serviceAccountName" if !in_volume => spec.and_then(|spec| spec.service_account_name.clone()),
            "status.hostIP" | "status.hostIPs" if !in_volume => Some(self.host_ip.to_owned()),
            "status.podIP" | "status.podIPs" if !in_volume => Some(self.pod_ip.to_owned()),
            _ => return Err(FactError::Failed(format!("fieldRef {} is not supported here", quote(&path)))),
        };
        Ok(value.unwrap_or_default())
    }

    /// An amount, as `resourceFieldRef` names it: whole units of the divisor, rounded up. `own`: the container that
    /// asks, when none is named.
    pub(super) fn resource(
        &self,
        selector: &ResourceFieldSelector,
        own: Option<&Container>,
    ) -> Result<String, FactError> {
        let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
        let empty = PodSpec::default();
        let spec = self.pod.spec.as_ref().unwrap_or(&empty);
        let container = match named {
            Some(name) => spec::containers(spec).map(|(container, _)| container).find(|c| c.name == name),
            None => own,
        };
        let container =
            container.ok_or_else(|| FactError::Failed(format!("container {} not found", named.unwrap_or_default())))?;
        let unsupported = || FactError::Failed(format!("unsupported container resource : {}", selector.resource));
        let (side, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
        let resources = container.resources.as_ref();
        let amounts = match side {
            "limits" => resources.and_then(|resources| resources.limits.as_ref()),
            "requests" => resources.and_then(|resources| resources.requests.as_ref()),
            _ => return Err(unsupported()),
        };
        let parse = |text: &str| text.parse::<Quantity>().map_err(|error| FactError::Failed(error.to_string()));
        let amount = match amounts.and_then(|amounts| amounts.get(name)) {
            Some(amount) => parse(&amount.0)?,
            None if side == "limits" => self.allocatable.get(name).copied().unwrap_or_default(),
            None => Quantity::ZERO,
        };
        let divisor = match &selector.divisor {
            Some(divisor) => parse(&divisor.0)?,
            None => Quantity::ZERO,
        };
        let divisor = if divisor.is_zero() { Quantity::units(1) } else { divisor };
        let (amount, divisor) = match name {
            "cpu" => (amount.milli_value(), divisor.milli_value()),
            _ => (amount.value(), divisor.value()),
        };
        Ok(amount.checked_add(divisor - 1).unwrap_or(i64::MAX).div_euclid(divisor.max(1)).to_string())
    }
}

/// The ConfigMaps that a pod names, in its containers and volumes.
pub fn config_maps(spec: &PodSpec) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (container, _) in spec::containers(spec) {
        let froms = container.env_from.iter().flatten().filter_map(|from| from.config_map_ref.as_ref());
        names.extend(froms.map(|from| from.name.clone()));
        let keys = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        names.extend(keys.filter_map(|source| source.config_map_key_ref.as_ref()).map(|key| key.name.clone()));
    }
    for volume in spec.volumes.iter().flatten() {
        names.extend(volume.config_map.iter().map(|source| source.name.clone()));
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        names.extend(sources.filter_map(|source| source.config_map.as_ref()).map(|source| source.name.clone()));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// How long a token lives unless its volume says otherwise: seconds (Kubernetes 1.36).
const TOKEN_SECS: i64 = 3600;

/// What a projection asks of a token.
pub(super) fn token_ask(source: &ServiceAccountTokenProjection) -> TokenAsk {
    let seconds = source.expiration_seconds.unwrap_or(TOKEN_SECS);
    TokenAsk { audience: source.audience.clone().unwrap_or_default(), seconds }
}

/// The tokens that a pod's volumes ask for.
pub fn tokens(spec: &PodSpec) -> BTreeSet<TokenAsk> {
    let projected = spec.volumes.iter().flatten().filter_map(|volume| volume.projected.as_ref());
    let sources = projected.flat_map(|projected| projected.sources.iter().flatten());
    sources.filter_map(|source| source.service_account_token.as_ref()).map(token_ask).collect()
}

/// `key="value"`, a line each.
fn listed(map: &std::collections::BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value}", value = quote(&value))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Facts of a pod on a node that offers 4 cpu, in a namespace with the ConfigMap `map`; `later` is not seen yet.
    pub(in super::super) fn with<R>(pod: &Pod, look: impl FnOnce(Facts<'_>) -> R) -> R {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "map", "namespace": "default"},
            "data": {"color": "blue", "size": "big"}, "binaryData": {"logo": "AQI="},
        }))
        .expect("a ConfigMap");
        let map = Arc::new(map);
        let config_maps = move |name: &str| match name {
            "map" => Lookup::Found(map.clone()),
            "later" => Lookup::NotSeen,
            _ => Lookup::Absent,
        };
        let allocatable =
            [("cpu", Quantity::units(4)), ("memory", Quantity::bytes(8 << 30))].map(|(k, v)| (k.to_owned(), v)).into();
        look(Facts {
            pod,
            host_ip: "127.0.0.1",
            pod_ip: "127.1.1.1",
            allocatable: &allocatable,
            config_maps: &config_maps,
            tokens: &|ask| match ask.audience.as_str() {
                "later" => Token::NotYet,
                "refused" => Token::Failed("no".to_owned()),
                audience => Token::Here(format!("token for {}", quote(&audience))),
            },
        })
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u-1",
                "labels": {"app": "x", "b": "say \"hi\""}, "annotations": {"note": "n"},
            },
            "spec": {
                "nodeName": "node01", "serviceAccountName": "default",
                "containers": [
                    {"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}},
                    {"name": "free"},
                ],
            },
        }))
        .expect("a pod")
    }

    #[test]
    fn fields_of_the_pod() {
        let pod = pod();
        let field = |path: &str, in_volume| with(&pod, |facts| facts.field(path, in_volume));
        for (path, expected) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "default"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['app']", "x"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['note']", "n"),
            ("spec.nodeName", "node01"),
            ("spec.serviceAccountName", "default"),
            ("status.hostIP", "127.0.0.1"),
            ("status.podIP", "127.1.1.1"),
            ("status.podIPs", "127.1.1.1"),
        ] {
            assert_eq!(field(path, false), Ok(expected.to_owned()), "{path}");
        }
        assert_eq!(field("metadata.labels", true), Ok("app=\"x\"\nb=\"say \\\"hi\\\"\"".to_owned()));
        assert!(field("metadata.labels", false).is_err() && field("spec.priority", false).is_err());
    }

    #[test]
    fn amounts_are_whole_units_rounded_up() {
        let pod = pod();
        let own = &pod.spec.as_ref().expect("a spec").containers[0];
        let amount = |container: &str, resource: &str, divisor: &str| {
            let selector = serde_json::from_value(json!({
                "containerName": container, "resource": resource, "divisor": divisor,
            }))
            .expect("a selector");
            with(&pod, |facts| facts.resource(&selector, Some(own)))
        };
        for (container, resource, divisor, expected) in [
            ("", "limits.cpu", "0", "2"),
            ("", "limits.cpu", "1m", "1500"),
            ("", "limits.memory", "1Mi", "64"),
            ("", "limits.memory", "1", "67108864"),
            ("", "requests.cpu", "1m", "250"),
            ("", "requests.memory", "1", "0"),
            ("free", "limits.cpu", "1", "4"),
            ("free", "limits.memory", "1Gi", "8"),
        ] {
            assert_eq!(amount(container, resource, divisor), Ok(expected.to_owned()), "{container} {resource}");
        }
        assert!(amount("none", "limits.cpu", "1").is_err() && amount("", "cpu", "1").is_err());
    }
}
