//! The faults of a service (Kubernetes 1.36).

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::families;
use super::spec::{
    addresses as own_addresses, is_headless, is_reached_from_outside, kind, needs_health_port, number, spec, words,
};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown, quote};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::metadata::labels;
use crate::registry::kinds::vocabulary::{addresses, names};

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// The longest time that a client stays with one pod: a day, in seconds.
const AFFINITY_MAX: i64 = 86_400;

/// Every fault of a service (`old`: what it replaces).
pub(super) fn service(object: &Object, old: Option<&Object>, faults: &mut Faults) {
    let own = spec(object);
    let path = Path::new("spec");
    topology(object, faults);
    if items(own, "ports").is_empty() && !is_headless(own) && kind(own) != "ExternalName" {
        faults.required(&path.child("ports"), "");
    }
    by_type(own, &path, faults);
    ports(own, &path.child("ports"), faults);
    labels(Some(&own["selector"]), &path.child("selector"), faults);
    affinity(own, &path, faults);
    families::validate(own, old.map(spec), faults);
    external_addresses(own, old.map(spec), &path.child("externalIPs"), faults);
    match kind(own) {
        "" => faults.required(&path.child("type"), ""),
        "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName" => {}
        other => {
            let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
            faults.not_supported(&path.child("type"), other, &known);
        }
    }
    port_pairs(own, &path.child("ports"), faults);
    source_ranges(object, old, faults);
    balancer(own, &path, faults);
    traffic(own, &path, faults);
}

/// The annotation of old and the one in its place say the same.
fn topology(object: &Object, faults: &mut Faults) {
    let annotation = |key: &str| object.at(&["metadata", "annotations", key]).and_then(Value::as_str);
    if let (Some(mode), Some(hints)) = (annotation(MODE), annotation(HINTS))
        && mode != hints
    {
        let why = format!("must match annotations[{HINTS}] when both are specified");
        faults.invalid(&Path::new("metadata.annotations").key(MODE), mode, &why);
    }
}

fn by_type(own: &Value, path: &Path, faults: &mut Faults) {
    match kind(own) {
        of @ ("LoadBalancer" | "NodePort") if is_headless(own) => {
            let why = format!("may not be set to 'None' for {of} services");
            faults.invalid(&path.child("clusterIPs").index(0), "None", &why);
        }
        "ExternalName" => {
            const WHY: &str = "may not be set for ExternalName services";
            for (key, set) in [
                ("clusterIPs", !own_addresses(own).is_empty()),
                ("ipFamilies", !items(own, "ipFamilies").is_empty()),
                ("ipFamilyPolicy", has(own, "ipFamilyPolicy")),
            ] {
                if set {
                    faults.forbidden(&path.child(key), WHY);
                }
            }
            let (name, at) = (text(own, "externalName"), path.child("externalName"));
            match name.strip_suffix('.').unwrap_or(name) {
                "" => faults.required(&at, ""),
                name => faults.invalid_all(&at, name, names::subdomain(name, false)),
            }
        }
        _ => {}
    }
}

fn ports(own: &Value, path: &Path, faults: &mut Faults) {
    let all = items(own, "ports");
    let mut known: Vec<&str> = Vec::new();
    for (i, port) in all.iter().enumerate() {
        let (path, name) = (path.index(i), text(port, "name"));
        if !name.is_empty() {
            faults.invalid_all(&path.child("name"), name, names::label(name, false));
            if known.contains(&name) {
                faults.duplicate(&path.child("name"), name);
            } else {
                known.push(name);
            }
        } else if all.len() > 1 {
            faults.required(&path.child("name"), "");
        }
        let value = number(port, "port");
        if let Some(why) = names::port_number(value) {
            faults.invalid(&path.child("port"), value, why);
        }
        match text(port, "protocol") {
            "" => faults.required(&path.child("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => faults.not_supported(&path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
        target_port(&port["targetPort"], &path.child("targetPort"), faults);
        if has(port, "appProtocol") {
            let protocol = text(port, "appProtocol");
            faults.invalid_all(&path.child("appProtocol"), protocol, names::qualified(protocol));
        }
    }
}

fn target_port(target: &Value, path: &Path, faults: &mut Faults) {
    match target {
        Value::String(name) => faults.invalid_all(path, name, names::port(name)),
        other => {
            let number = other.as_i64().unwrap_or(0);
            if let Some(why) = names::port_number(number) {
                faults.invalid(path, number, why);
            }
        }
    }
}

fn affinity(own: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("sessionAffinity");
    let (config, config_at) = (&own["sessionAffinityConfig"], path.child("sessionAffinityConfig"));
    match text(own, "sessionAffinity") {
        "" => faults.required(&at, ""),
        "None" if !config.is_null() => {
            faults.forbidden(&config_at, "must not be set when session affinity is None");
        }
        "ClientIP" => {
            const WHY: &str = "when session affinity type is ClientIP";
            let (client, seconds) = (&config["clientIP"], &config["clientIP"]["timeoutSeconds"]);
            let client_at = config_at.child("clientIP");
            if config.is_null() {
                faults.required(&config_at, WHY);
            } else if client.is_null() {
                faults.required(&client_at, WHY);
            } else if seconds.is_null() {
                faults.required(&client_at.child("timeoutSeconds"), WHY);
            } else if let Some(seconds) = seconds.as_i64().filter(|own| *own <= 0 || *own > AFFINITY_MAX) {
                let why = format!("must be greater than 0 and less than {AFFINITY_MAX}");
                faults.invalid(&client_at.child("timeoutSeconds"), seconds, &why);
            }
        }
        "None" => {}
        other => faults.not_supported(&at, other, &["ClientIP", "None"]),
    }
}

fn external_addresses(own: &Value, old: Option<&Value>, path: &Path, faults: &mut Faults) {
    let known = old.map(|old| words(old, "externalIPs")).unwrap_or_default();
    for (i, address) in words(own, "externalIPs").into_iter().enumerate() {
        let before = faults.len();
        if !known.contains(&address) {
            addresses::ip(address, &path.index(i), faults);
        }
        if faults.len() == before {
            addresses::endpoint(address, &path.index(i), faults);
        }
    }
}

fn port_pairs(own: &Value, path: &Path, faults: &mut Faults) {
    let all = items(own, "ports");
    if kind(own) == "ClusterIP" {
        for (i, _) in all.iter().enumerate().filter(|(_, port)| number(port, "nodePort") != 0) {
            faults.forbidden(&path.index(i).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let pair = |port: &Value, key: &str| (text(port, "protocol").to_owned(), number(port, key));
    for (i, port) in all.iter().enumerate().filter(|(_, port)| number(port, "nodePort") != 0) {
        if all[..i].iter().any(|other| pair(other, "nodePort") == pair(port, "nodePort")) {
            faults.duplicate(&path.index(i).child("nodePort"), number(port, "nodePort"));
        }
    }
    for (i, port) in all.iter().enumerate() {
        if all[..i].iter().any(|other| pair(other, "port") == pair(port, "port")) {
            let (protocol, port) = pair(port, "port");
            let protocol = quote(&protocol);
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{port},\"TargetPort\":0,\
                 \"NodePort\":0}}"
            );
            faults.duplicate(&path.index(i), Shown(shown));
        }
    }
}

/// Who may reach the load balancer: a field, or an annotation of old.
fn source_ranges(object: &Object, old: Option<&Object>, faults: &mut Faults) {
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let own = spec(object);
    let balanced = kind(own) == "LoadBalancer";
    let annotation = |object: &Object| {
        object.at(&["metadata", "annotations", SOURCE_RANGES]).and_then(Value::as_str).map(str::to_owned)
    };
    let ranges = words(own, "loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // Upstream names the field so.
        let path = Path::new("spec.LoadBalancerSourceRanges");
        if !balanced {
            faults.forbidden(&path, WHY);
        }
        let known = old.map(|old| words(spec(old), "loadBalancerSourceRanges")).unwrap_or_default();
        for (i, range) in ranges.into_iter().map(str::trim).enumerate() {
            if !known.iter().any(|own| own.trim() == range) {
                addresses::range(range, &path.index(i), faults);
            }
        }
    } else if let Some(value) = annotation(object) {
        let path = Path::new("metadata.annotations").key(SOURCE_RANGES);
        if !balanced {
            faults.forbidden(&path, WHY);
        }
        let changed = old.and_then(annotation).is_none_or(|own| own != value);
        for range in value.trim().split(',').filter(|_| changed && !value.trim().is_empty()) {
            addresses::range(range.trim(), &path, faults);
        }
    }
}

fn balancer(own: &Value, path: &Path, faults: &mut Faults) {
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balanced = kind(own) == "LoadBalancer";
    if has(own, "allocateLoadBalancerNodePorts") && !balanced {
        faults.forbidden(&path.child("allocateLoadBalancerNodePorts"), WHY);
    }
    if balanced && !has(own, "allocateLoadBalancerNodePorts") {
        faults.required(&Path::new("allocateLoadBalancerNodePorts"), "");
    }
    class(own, faults);
}

fn class(own: &Value, faults: &mut Faults) {
    let path = Path::new("spec.loadBalancerClass");
    if !has(own, "loadBalancerClass") {
        return;
    }
    if kind(own) == "LoadBalancer" {
        let class = text(own, "loadBalancerClass");
        faults.invalid_all(&path, class, names::qualified(class));
    } else {
        faults.forbidden(&path, "may only be used when `type` is 'LoadBalancer'");
    }
}

fn traffic(own: &Value, path: &Path, faults: &mut Faults) {
    const KNOWN: [&str; 2] = ["Cluster", "Local"];
    let (at, policy) = (path.child("externalTrafficPolicy"), text(own, "externalTrafficPolicy"));
    if !is_reached_from_outside(own) {
        if !policy.is_empty() {
            faults.invalid(&at, policy, "may only be set for externally-accessible services");
        }
    } else if policy.is_empty() {
        faults.required(&at, "");
    } else if !KNOWN.contains(&policy) {
        faults.not_supported(&at, policy, &KNOWN);
    }
    let (at, port) = (path.child("healthCheckNodePort"), number(own, "healthCheckNodePort"));
    if !needs_health_port(own) {
        if port != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            faults.invalid(&at, port, why);
        }
    } else if port == 0 {
        faults.required(&at, "");
    } else if let Some(why) = names::port_number(port) {
        faults.invalid(&at, port, why);
    }
    let at = path.child("internalTrafficPolicy");
    match own["internalTrafficPolicy"].as_str() {
        None if matches!(kind(own), "ClusterIP" | "NodePort" | "LoadBalancer") => faults.required(&at, ""),
        Some(policy) if !KNOWN.contains(&policy) => faults.not_supported(&at, policy, &KNOWN),
        _ => {}
    }
    const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(own) = own["trafficDistribution"].as_str().filter(|own| !DISTRIBUTIONS.contains(own)) {
        faults.not_supported(&path.child("trafficDistribution"), own, &DISTRIBUTIONS);
    }
}

/// What may not change.
pub(super) fn change(new: &Object, old: &Object, faults: &mut Faults) {
    let (is, was) = (spec(new), spec(old));
    families::validate_change(is, was, faults);
    if kind(is) == "LoadBalancer"
        && kind(was) == "LoadBalancer"
        && is.get("loadBalancerClass") != was.get("loadBalancerClass")
    {
        let class = &is["loadBalancerClass"];
        faults.invalid(&Path::new("spec.loadBalancerClass"), class, "may not change once set");
    }
    class(is, faults);
    if needs_health_port(is)
        && needs_health_port(was)
        && number(is, "healthCheckNodePort") != number(was, "healthCheckNodePort")
    {
        faults.forbidden(&Path::new("spec.healthCheckNodePort"), "field is immutable");
    }
}

/// Every fault of a change of the status.
pub(super) fn status(new: &Object, old: &Object, faults: &mut Faults) {
    let ingress = |object: &Object| {
        object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (path, is, was) = (Path::new("status.loadBalancer.ingress"), ingress(new), ingress(old));
    if kind(spec(new)) != "LoadBalancer" && !is.is_empty() {
        faults.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for (i, entry) in is.iter().enumerate() {
        let (path, ip) = (path.index(i), text(entry, "ip"));
        if !ip.is_empty() && !was.iter().any(|own| text(own, "ip") == ip) {
            addresses::ip(ip, &path.child("ip"), faults);
        }
        let at = path.child("ipMode");
        match entry["ipMode"].as_str() {
            None if !ip.is_empty() => faults.required(&at, "must be specified when `ip` is set"),
            None => {}
            Some(_) if ip.is_empty() => faults.forbidden(&at, "may not be specified when `ip` is not set"),
            Some("VIP" | "Proxy") => {}
            Some(other) => faults.not_supported(&at, other, &["Proxy", "VIP"]),
        }
        let hostname = text(entry, "hostname");
        if !hostname.is_empty() {
            faults.invalid_all(&path.child("hostname"), hostname, names::subdomain(hostname, false));
            if addresses::parse(hostname).is_some() {
                faults.invalid(&path.child("hostname"), hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(spec: Value) -> Vec<String> {
        let mut object = Object::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).expect("a map");
        super::super::defaults::apply(&mut object);
        let mut faults = Faults::new();
        service(&object, None, &mut faults);
        faults.told()
    }

    #[test]
    fn ports_are_told_apart() {
        assert!(told(json!({"ports": [{"port": 80}]})).is_empty());
        assert_eq!(told(json!({})), ["spec.ports: Required value"]);
        assert_eq!(
            told(json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})),
            ["spec.ports[1]: Duplicate value: \
              {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}"]
        );
        let range = "must be between 1 and 65535, inclusive";
        assert_eq!(
            told(json!({"ports": [{}]})),
            [
                format!("spec.ports[0].port: Invalid value: 0: {range}"),
                format!("spec.ports[0].targetPort: Invalid value: 0: {range}")
            ]
        );
    }

    #[test]
    fn each_type_has_fields_of_its_own() {
        assert_eq!(told(json!({"type": "ExternalName"})), ["spec.externalName: Required value"]);
        assert_eq!(
            told(json!({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]})),
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"]
        );
        assert_eq!(
            told(json!({"ports": [{"port": 80, "nodePort": 30000}], "loadBalancerClass": "x"})),
            [
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ]
        );
        assert_eq!(
            told(json!({"ports": [{"port": 80}], "externalTrafficPolicy": "Local"})),
            [
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services"
            ]
        );
    }

    #[test]
    fn a_status_is_of_a_load_balancer() {
        let check = |kind: &str, ingress: Value| {
            let object = |ingress: Value| {
                Object::from_value(json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": ingress}}}))
                    .expect("a map")
            };
            let mut faults = Faults::new();
            status(&object(ingress), &object(json!([])), &mut faults);
            faults.told()
        };
        assert!(check("LoadBalancer", json!([{"ip": "1.2.3.4", "ipMode": "VIP"}])).is_empty());
        assert_eq!(
            check("ClusterIP", json!([{"hostname": "a"}])),
            ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
        );
        assert_eq!(
            check("LoadBalancer", json!([{"ip": "1.2.3.4", "hostname": "1.1.1.1"}])),
            [
                "status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set",
                "status.loadBalancer.ingress[0].hostname: Invalid value: \"1.1.1.1\": must be a DNS name, not an IP address"
            ]
        );
    }
}
