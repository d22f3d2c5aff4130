//! A service as kubectl prints it.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::spec::{addresses, kind, number, spec, words};
use crate::registry::kinds::vocabulary::fields::{items, text as word};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, UNKNOWN, age, column, labels, text};
use crate::registry::table::{Cell, Column};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column("Type", "string", TYPE, 0),
    column("Cluster-IP", "string", CLUSTER_IP, 0),
    column(
        "External-IP",
        "string",
        "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.  \
         These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node \
         with this IP.  A common example is external load-balancers that are not part of the Kubernetes system.",
        0,
    ),
    column(
        "Port(s)",
        "string",
        "The list of ports that are exposed by this service. More info: \
         https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
        0,
    ),
    AGE,
    column(
        "Selector",
        "string",
        "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the \
         service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only \
         applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: \
         https://kubernetes.io/docs/concepts/services-networking/service/",
        1,
    ),
];

const TYPE: &str = "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, \
    ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP address for load-balancing to \
    endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an \
    Endpoints object or EndpointSlice objects. If clusterIP is \"None\", no virtual IP is allocated and the endpoints are \
    published as a set of endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on \
    every node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and creates an \
    external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP. \
    \"ExternalName\" aliases this service to the specified externalName. Several other fields do not apply to ExternalName \
    services. More info: \
    https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types";

const CLUSTER_IP: &str = "clusterIP is the IP address of the service and is usually assigned randomly. If an address is \
    specified manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; \
    otherwise creation of the service will fail. This field may not be changed through updates unless the type field is \
    also being changed to ExternalName (which requires this field to be blank) or the type field is being changed from \
    ExternalName (in which case this field may optionally be specified, as describe above).  Valid values are \"None\", \
    empty string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no virtual IP), \
    which is useful when direct endpoint connections are preferred and proxying is not required.  Only applies to types \
    ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service of type ExternalName, \
    creation will fail. This field will be wiped when updating a Service to type ExternalName. More info: \
    https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies";

pub(super) fn cells(object: &Object, now: i64) -> Vec<Cell> {
    let own = spec(object);
    let ports: Vec<String> = items(own, "ports").iter().map(port).collect();
    vec![
        text(object.name()),
        text(kind(own)),
        text(addresses(own).first().copied().unwrap_or(NONE)),
        text(external(object)),
        text(if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }),
        age(object, now),
        labels(&own["selector"]),
    ]
}

fn port(port: &Value) -> String {
    let (number_, node, protocol) = (number(port, "port"), number(port, "nodePort"), word(port, "protocol"));
    if node > 0 { format!("{number_}:{node}/{protocol}") } else { format!("{number_}/{protocol}") }
}

/// Where it is reached from outside.
fn external(object: &Object) -> String {
    let own = spec(object);
    let mut list: Vec<String> = Vec::new();
    if kind(own) == "LoadBalancer" {
        let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
        let entries = ingress.into_iter().flatten().map(|entry| match word(entry, "ip") {
            "" => word(entry, "hostname"),
            ip => ip,
        });
        list = entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        list.sort_unstable();
        list.dedup();
    }
    match kind(own) {
        "ExternalName" => word(own, "externalName").to_owned(),
        "ClusterIP" | "NodePort" | "LoadBalancer" => {
            list.extend(words(own, "externalIPs").into_iter().map(str::to_owned));
            match (list.is_empty(), kind(own)) {
                (false, _) => list.join(","),
                (true, "LoadBalancer") => "<pending>".to_owned(),
                (true, _) => NONE.to_owned(),
            }
        }
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(value: Value) -> Vec<String> {
        cells(&Object::from_value(value).expect("a map"), 0).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_type_is_printed_as_kubectl_does() {
        let row = printed(json!({"metadata": {"name": "x"}, "spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"],
            "selector": {"b": "2", "a": "1"},
            "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}));
        assert_eq!(row, ["x", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP,53/UDP", "<unknown>", "a=1,b=2"]);
        let row =
            printed(json!({"metadata": {"name": "x"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}}));
        assert_eq!(row[3], "<pending>");
        let row = printed(json!({"spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "1.2.3.4"}]}}}));
        assert_eq!(row[3], "1.2.3.4,h,9.9.9.9");
        let row = printed(json!({"spec": {"type": "ExternalName", "externalName": "a.example.com"}}));
        assert_eq!(row[2..5], ["<none>", "a.example.com", "<none>"]);
    }
}
