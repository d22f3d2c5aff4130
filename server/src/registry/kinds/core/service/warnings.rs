//! What a person is told about a service that will surprise (Kubernetes 1.36).

use listwatch_proto::resource::Object;

use super::spec::{NO_ADDRESS, addresses, kind, spec, words};
use crate::registry::kinds::vocabulary::addresses::{range_warnings, warning};
use crate::registry::kinds::vocabulary::faults::Path;
use crate::registry::kinds::vocabulary::fields::text;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";

pub(super) fn of(object: &Object) -> Vec<String> {
    let own = spec(object);
    let mut warnings = Vec::new();
    if object.at(&["metadata", "annotations", HINTS]).is_some() {
        warnings
            .push(format!("annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"));
    }
    let path = Path::new("spec");
    let single = text(own, "clusterIP");
    if !matches!(single, NO_ADDRESS | "") {
        for (i, address) in addresses(own).into_iter().enumerate() {
            warnings.extend(warning(address, &path.child("clusterIPs").index(i)));
        }
    }
    let headless = kind(own) == "ClusterIP" && single == NO_ADDRESS;
    let external = words(own, "externalIPs");
    if headless {
        for (told, key) in [
            (!text(own, "loadBalancerIP").is_empty(), "loadBalancerIP"),
            (!external.is_empty(), "externalIPs"),
            (text(own, "sessionAffinity") != "None", "SessionAffinity"),
        ] {
            if told {
                warnings.push(format!("spec.{key} is ignored for headless services"));
            }
        }
    }
    for (i, address) in external.iter().enumerate() {
        warnings.extend(warning(address, &path.child("externalIPs").index(i)));
    }
    let by_name = kind(own) == "ExternalName";
    if !external.is_empty() && !headless && !by_name {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    let balancer = text(own, "loadBalancerIP");
    if !balancer.is_empty() {
        warnings.extend(warning(balancer, &path.child("loadBalancerIP")));
    }
    for (i, range) in words(own, "loadBalancerSourceRanges").iter().enumerate() {
        warnings.extend(range_warnings(range, &path.child("loadBalancerSourceRanges").index(i)));
    }
    if by_name && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !by_name && !text(own, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(own, "trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

/// About a status.
pub(super) fn of_status(object: &Object) -> Vec<String> {
    let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(serde_json::Value::as_array);
    let path = Path::new("status.loadBalancer.ingress");
    let entries = ingress.into_iter().flatten().enumerate().filter(|(_, entry)| !text(entry, "ip").is_empty());
    entries.filter_map(|(i, entry)| warning(text(entry, "ip"), &path.index(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(spec: Value) -> Vec<String> {
        of(&Object::from_value(json!({"spec": spec})).expect("a map"))
    }

    #[test]
    fn what_is_ignored_or_on_its_way_out_is_told() {
        assert!(told(json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]})).is_empty());
        assert_eq!(
            told(json!({"type": "ClusterIP", "externalIPs": ["1.2.3.4"], "externalName": "a"})),
            [
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                "spec.externalName is ignored when spec.type is not \"ExternalName\""
            ]
        );
        assert_eq!(
            told(json!({"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP",
                "loadBalancerIP": "1.2.3.4"})),
            [
                "spec.loadBalancerIP is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services"
            ]
        );
        assert_eq!(
            told(json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["1.2.3.4/8"]})),
            ["spec.loadBalancerSourceRanges[0]: CIDR value \"1.2.3.4/8\" is ambiguous in this context (should be \
              \"1.0.0.0/8\" or \"1.2.3.4/32\"?)"]
        );
    }
}
