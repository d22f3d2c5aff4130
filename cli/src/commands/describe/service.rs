//! The descriptions of Services and disruption budgets, line by line as kubectl 1.36 writes them.

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::endpoints::ready_addresses;
use super::small::identity;
use super::text::{field, pairs};

/// A Service with the slices of its endpoints, without the Events.
pub(super) fn service(out: &mut String, object: &Object, slices: &[Object]) {
    identity(out, object);
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    let joined = |field: &str| {
        let list = spec[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        if list.is_empty() { "<none>".to_owned() } else { list.join(",") }
    };
    let selector = spec["selector"]
        .as_object()
        .map(|map| pairs(map.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))).join(","));
    field(out, "Selector", &selector.filter(|text| !text.is_empty()).unwrap_or_else(|| "<none>".to_owned()));
    field(out, "Type", text("type"));
    optional(out, "IP Family Policy", text("ipFamilyPolicy"));
    field(out, "IP Families", &joined("ipFamilies"));
    field(out, "IP", text("clusterIP"));
    field(out, "IPs", &joined("clusterIPs"));
    optional(out, "External IPs", &joined("externalIPs"));
    optional(out, "Desired LoadBalancer IP", text("loadBalancerIP"));
    optional(out, "External Name", text("externalName"));
    let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let ingress = ingress.into_iter().flatten().filter_map(|entry| entry["ip"].as_str().or(entry["hostname"].as_str()));
    optional(out, "LoadBalancer Ingress", &ingress.collect::<Vec<_>>().join(", "));
    for port in spec["ports"].as_array().into_iter().flatten() {
        ports(out, port, slices);
    }
    field(out, "Session Affinity", text("sessionAffinity"));
    optional(out, "External Traffic Policy", text("externalTrafficPolicy"));
    optional(out, "Internal Traffic Policy", text("internalTrafficPolicy"));
    optional(
        out,
        "HealthCheck NodePort",
        &spec["healthCheckNodePort"].as_i64().map_or_else(String::new, |n| n.to_string()),
    );
    optional(out, "LoadBalancer Source Ranges", &joined("loadBalancerSourceRanges"));
    optional(out, "Traffic Distribution", text("trafficDistribution"));
}

/// A line that is only there if there is something to say.
fn optional(out: &mut String, label: &str, value: &str) {
    if !value.is_empty() && value != "<none>" {
        field(out, label, value);
    }
}

fn ports(out: &mut String, port: &Value, slices: &[Object]) {
    let text = |field: &str| port[field].as_str().unwrap_or_default();
    let (name, protocol) = (text("name"), text("protocol"));
    let shown = if name.is_empty() { "<unset>" } else { name };
    out.push_str(&format!("Port:\t{shown}\t{}/{protocol}\n", port["port"]));
    let target = port["targetPort"].as_str().map_or_else(|| port["targetPort"].to_string(), str::to_owned);
    field(out, "TargetPort", &format!("{target}/{protocol}"));
    if !text("appProtocol").is_empty() {
        field(out, "AppProtocol", text("appProtocol"));
    }
    if let Some(number) = port["nodePort"].as_i64().filter(|number| *number != 0) {
        out.push_str(&format!("NodePort:\t{shown}\t{number}/{protocol}\n"));
    }
    field(out, "Endpoints", &ready_addresses(slices, name));
}

/// A disruption budget, without the Events.
pub(super) fn budget(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let limit = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if !spec["minAvailable"].is_null() {
        field(out, "Min available", &limit(&spec["minAvailable"]));
    } else if !spec["maxUnavailable"].is_null() {
        field(out, "Max unavailable", &limit(&spec["maxUnavailable"]));
    }
    let selector = match &spec["selector"] {
        Value::Null => "<unset>".to_owned(),
        selector => match LabelSelector::from_json(selector) {
            Ok(selector) if selector.is_empty() => "<none>".to_owned(),
            Ok(selector) => selector.to_string(),
            Err(problem) => problem.to_string(),
        },
    };
    field(out, "Selector", &selector);
    out.push_str("Status:\n");
    for (label, name) in [
        ("Allowed disruptions", "disruptionsAllowed"),
        ("Current", "currentHealthy"),
        ("Desired", "desiredHealthy"),
        ("Total", "expectedPods"),
    ] {
        out.push_str(&format!("    {label}:\t{}\n", object.int(&["status", name]).unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_tells_where_its_ports_lead() {
        let object = |value: Value| Object::from_value(value).expect("a map");
        let web = object(json!({
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": {
                "selector": {"app": "web"}, "type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http", "nodePort": 30080}],
                "internalTrafficPolicy": "Cluster",
            },
        }));
        let slice = object(json!({
            "ports": [{"name": "", "port": 8080}],
            "endpoints": [
                {"addresses": ["10.1.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.1.0.2"], "conditions": {"ready": false}},
            ],
        }));
        let mut out = String::new();
        service(&mut out, &web, &[slice]);
        assert_eq!(
            align(&out),
            "Name:                     web\nNamespace:                ns\nLabels:                   <none>\n\
             Annotations:              <none>\nSelector:                 app=web\nType:                     NodePort\n\
             IP Family Policy:         SingleStack\nIP Families:              IPv4\nIP:                       10.0.0.9\n\
             IPs:                      10.0.0.9\nPort:                     <unset>  80/TCP\n\
             TargetPort:               http/TCP\nNodePort:                 <unset>  30080/TCP\n\
             Endpoints:                10.1.0.1:8080\nSession Affinity:         None\nInternal Traffic Policy:  Cluster\n"
        );
    }

    /// From the recorded session drain-pdb (kubectl 1.36.3).
    #[test]
    fn a_budget_tells_how_far_it_is_used() {
        let band = json!({
            "metadata": {"name": "band", "namespace": "ns"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"t": "band"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2},
        });
        let mut out = String::new();
        budget(&mut out, &Object::from_value(band).expect("a map"));
        assert_eq!(
            align(&out),
            "Name:           band\nNamespace:      ns\nMin available:  2\nSelector:       t=band\nStatus:\n    Allowed \
             disruptions:  0\n    Current:              2\n    Desired:              2\n    Total:                2\n"
        );
    }
}
