//! What a service is given when it is read, and what a change of its type takes away (Kubernetes 1.36).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::spec::{
    addresses, families, has_node_ports, is_reached_from_outside, kind, needs_address, needs_health_port, node_ports,
    number, policy, spec,
};
use crate::registry::kinds::vocabulary::fields::{default, has, items_mut, text};

/// How long a client stays with one pod, in seconds.
const AFFINITY_SECONDS: i64 = 10_800;

/// Fills in what was left out.
pub(super) fn apply(object: &mut Object) {
    let spec = object.at_mut(&["spec"]);
    if !spec.is_object() {
        *spec = json!({});
    }
    affinity(spec);
    if text(spec, "type").is_empty() {
        spec["type"] = "ClusterIP".into();
    }
    for port in items_mut(spec, "ports") {
        if text(port, "protocol").is_empty() {
            port["protocol"] = "TCP".into();
        }
        let target = &port["targetPort"];
        if target.is_null() || target.as_i64() == Some(0) || target.as_str() == Some("") {
            port["targetPort"] = number(port, "port").into();
        }
    }
    if is_reached_from_outside(spec) && text(spec, "externalTrafficPolicy").is_empty() {
        spec["externalTrafficPolicy"] = "Cluster".into();
    }
    if matches!(kind(spec), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind(spec) == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
        for ingress in object.at_mut(&["status", "loadBalancer", "ingress"]).as_array_mut().into_iter().flatten() {
            if !text(ingress, "ip").is_empty() {
                default(ingress, "ipMode", "VIP");
            }
        }
        if object.at(&["status", "loadBalancer", "ingress"]).is_some_and(Value::is_null) {
            object.remove(&["status", "loadBalancer", "ingress"]);
        }
    }
}

fn affinity(spec: &mut Value) {
    if text(spec, "sessionAffinity").is_empty() {
        spec["sessionAffinity"] = "None".into();
    }
    match text(spec, "sessionAffinity") {
        "None" => {
            if let Some(map) = spec.as_object_mut() {
                map.remove("sessionAffinityConfig");
            }
        }
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
        }
        _ => {}
    }
}

/// Takes away what the new type has no use for, unless the client changed it as well (then it is a fault).
pub(super) fn drop_what_the_type_lacks(new: &mut Object, old: &Object) {
    let was = spec(old);
    let is = spec(new).clone();
    let mut gone: Vec<&str> = Vec::new();
    if needs_address(was) && !needs_address(&is) {
        if text(was, "clusterIP") == text(&is, "clusterIP") && addresses(was) == addresses(&is) {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        if families(was) == families(&is) {
            gone.push("ipFamilies");
        }
        if policy(was) == policy(&is) {
            gone.push("ipFamilyPolicy");
        }
    }
    let before = node_ports(was);
    if has_node_ports(was) && !has_node_ports(&is) && node_ports(&is).iter().all(|port| before.contains(port)) {
        for port in items_mut(new.at_mut(&["spec"]), "ports") {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
    let same = |key: &str| was.get(key) == is.get(key);
    if needs_health_port(was) && !needs_health_port(&is) && same("healthCheckNodePort") {
        gone.push("healthCheckNodePort");
    }
    if kind(was) == "LoadBalancer" && kind(&is) != "LoadBalancer" {
        if has(was, "allocateLoadBalancerNodePorts") && same("allocateLoadBalancerNodePorts") {
            gone.push("allocateLoadBalancerNodePorts");
        }
        if same("loadBalancerClass") {
            gone.push("loadBalancerClass");
        }
    }
    if is_reached_from_outside(was) && !is_reached_from_outside(&is) && same("externalTrafficPolicy") {
        gone.push("externalTrafficPolicy");
    }
    for key in gone {
        new.remove(&["spec", key]);
    }
    if kind(&is) != "LoadBalancer" {
        new.set(&["status", "loadBalancer"], json!({}));
    }
}

/// A name elsewhere has no traffic of its own that a policy could lead, whoever asks for one.
pub(super) fn drop_policy_of_name(object: &mut Object) {
    if kind(spec(object)) == "ExternalName" {
        object.remove(&["spec", "internalTrafficPolicy"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Object {
        let mut object = Object::from_value(json!({"spec": spec})).expect("a map");
        apply(&mut object);
        object
    }

    #[test]
    fn what_was_left_out_is_filled_in() {
        let object =
            service(json!({"type": "LoadBalancer", "ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]}));
        assert_eq!(
            spec(&object),
            &json!({"type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
                "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"},
                    {"port": 81, "targetPort": "web", "protocol": "TCP"}]})
        );
        let object = service(json!({"type": "ExternalName", "sessionAffinity": "ClientIP"}));
        assert_eq!(
            spec(&object),
            &json!({"type": "ExternalName", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}})
        );
    }

    #[test]
    fn a_name_elsewhere_has_no_policy_of_traffic() {
        let mut named = service(json!({"type": "ExternalName", "internalTrafficPolicy": "Local"}));
        drop_policy_of_name(&mut named);
        assert_eq!(spec(&named), &json!({"type": "ExternalName", "sessionAffinity": "None"}));
        let mut old = service(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}));
        let mut new = old.clone();
        new.set(&["spec", "type"], "ExternalName");
        drop_what_the_type_lacks(&mut new, &old);
        drop_policy_of_name(&mut new);
        assert_eq!(spec(&new), &json!({"type": "ExternalName", "sessionAffinity": "None"}));
        drop_policy_of_name(&mut old);
        assert_eq!(spec(&old)["internalTrafficPolicy"], "Cluster");
    }

    #[test]
    fn a_change_of_type_takes_away_what_nobody_asked_for() {
        let mut old = service(json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 80, "nodePort": 30000}]}));
        old.set(&["status", "loadBalancer", "ingress"], json!([{"ip": "1.2.3.4"}]));
        let mut new = old.clone();
        new.set(&["spec", "type"], "ClusterIP");
        drop_what_the_type_lacks(&mut new, &old);
        assert_eq!(
            new.into_value(),
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}, "status": {"loadBalancer": {}}})
        );
        let mut new = old.clone();
        new.set(&["spec", "type"], "ClusterIP");
        new.set(&["spec", "ports"], json!([{"port": 80, "nodePort": 30001}]));
        drop_what_the_type_lacks(&mut new, &old);
        assert_eq!(node_ports(spec(&new)), [30001]);
    }
}
