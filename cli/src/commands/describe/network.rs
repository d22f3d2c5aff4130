//! The descriptions of Ingresses, their classes and NetworkPolicies, line by line as kubectl 1.36 writes them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use listwatch_proto::resource::{Object, parse_time};
use serde_json::Value;

use super::text::{annotations, field, multiline, pairs, selector_or_none};

/// What is known of the services behind an Ingress: by name and port the addresses that it leads to, or why not.
pub(super) type Backends = BTreeMap<String, String>;

/// The name and the port of a backend's service: `web:80`; `None`: it is no service.
pub(super) fn service_of(backend: &Value) -> Option<(&str, String)> {
    let service = backend.get("service").filter(|service| service.is_object())?;
    let port = &service["port"];
    let port = match port["number"].as_i64().filter(|number| *number != 0) {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or_default().to_owned(),
    };
    Some((service["name"].as_str().unwrap_or_default(), port))
}

/// All backends of an Ingress.
pub(super) fn backends_of(object: &Object) -> Vec<&Value> {
    let default = object.at(&["spec", "defaultBackend"]);
    let rules = object.at(&["spec", "rules"]).and_then(Value::as_array).into_iter().flatten();
    let paths = rules.flat_map(|rule| rule["http"]["paths"].as_array().into_iter().flatten());
    default.into_iter().chain(paths.map(|path| &path["backend"])).collect()
}

/// An Ingress, without the Events.
pub(super) fn ingress(out: &mut String, object: &Object, backends: &Backends) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    field(out, "Name", object.name());
    multiline(out, "Labels", &pairs(object.labels()));
    field(out, "Namespace", object.namespace());
    let balancer = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let text = |entry: &Value, field: &str| entry[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let addresses: BTreeSet<String> = balancer
        .into_iter()
        .flatten()
        .filter_map(|entry| text(entry, "ip").or_else(|| text(entry, "hostname")))
        .collect();
    field(out, "Address", &addresses.into_iter().collect::<Vec<_>>().join(","));
    field(out, "Ingress Class", spec["ingressClassName"].as_str().unwrap_or("<none>"));
    let default = spec.get("defaultBackend").map_or_else(|| "<default>".to_owned(), |it| backend(it, backends));
    field(out, "Default backend", &default);
    let certificates = spec["tls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !certificates.is_empty() {
        out.push_str("TLS:\n");
    }
    for entry in certificates {
        let hosts =
            entry["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        out.push_str(&match text(entry, "secretName") {
            None => format!("  SNI routes {hosts}\n"),
            Some(secret) => format!("  {secret} terminates {hosts}\n"),
        });
    }
    out.push_str("Rules:\n  Host\tPath\tBackends\n  ----\t----\t--------\n");
    let rules = spec["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut has_rules = false;
    for rule in rules.iter().filter(|rule| rule["http"].is_object()) {
        has_rules = true;
        out.push_str(&format!("  {}\t\n", text(rule, "host").as_deref().unwrap_or("*")));
        for path in rule["http"]["paths"].as_array().into_iter().flatten() {
            let to = backend(&path["backend"], backends);
            out.push_str(&format!("    \t{} \t{to}\n", path["path"].as_str().unwrap_or_default()));
        }
    }
    if !has_rules {
        out.push_str(&format!("  *\t*\t{default}\n"));
    }
    multiline(out, "Annotations", &annotations(object));
}

fn backend(value: &Value, backends: &Backends) -> String {
    if let Some((name, port)) = service_of(value) {
        let service = format!("{name}:{port}");
        let known = backends.get(&service).map(String::as_str).unwrap_or_default();
        return format!("{service} ({known})");
    }
    let resource = &value["resource"];
    if !resource.is_object() {
        return String::new();
    }
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    let group = resource["apiGroup"].as_str().unwrap_or("<none>");
    format!("APIGroup: {group}, Kind: {}, Name: {}", text("kind"), text("name"))
}

/// An IngressClass, without the Events.
pub(super) fn ingress_class(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    field(out, "Controller", object.text(&["spec", "controller"]));
    let parameters = object.at(&["spec", "parameters"]).filter(|parameters| parameters.is_object());
    if let Some(parameters) = parameters {
        out.push_str("Parameters:\n");
        if let Some(group) = parameters["apiGroup"].as_str() {
            field(out, "  APIGroup", group);
        }
        field(out, "  Kind", parameters["kind"].as_str().unwrap_or_default());
        field(out, "  Name", parameters["name"].as_str().unwrap_or_default());
    }
}

/// A NetworkPolicy; it has no Events.
pub(super) fn network_policy(out: &mut String, object: &Object) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    let created = parse_time(object.creation_timestamp())
        .map_or_else(String::new, |at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string());
    field(out, "Created on", &created);
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    let pods = match selector_or_none(&spec["podSelector"]).as_str() {
        "<none>" => "<none> (Allowing the specific traffic to all pods in this namespace)".to_owned(),
        selector => selector.to_owned(),
    };
    out.push_str(&format!("Spec:\n  PodSelector:     {pods}\n"));
    let kinds: Vec<&str> = spec["policyTypes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for direction in [INGRESS, EGRESS] {
        if kinds.contains(&direction.kind) {
            out.push_str(&format!("  Allowing {} traffic:\n", direction.field));
            traffic(out, &spec[direction.field], &direction);
        } else {
            out.push_str(&format!("  Not affecting {} traffic\n", direction.field));
        }
    }
    let kinds = kinds.join(", ");
    out.push_str(&format!("  Policy Types: {}\n", if kinds.is_empty() { "<none>" } else { &kinds }));
}

/// The words of one direction of traffic.
struct Direction {
    kind: &'static str,
    field: &'static str,
    peers: &'static str,
    label: &'static str,
    any: &'static str,
}

const INGRESS: Direction = Direction {
    kind: "Ingress",
    field: "ingress",
    peers: "from",
    label: "From",
    any: "From: <any> (traffic not restricted by source)",
};
const EGRESS: Direction = Direction {
    kind: "Egress",
    field: "egress",
    peers: "to",
    label: "To",
    any: "To: <any> (traffic not restricted by destination)",
};

fn traffic(out: &mut String, rules: &Value, direction: &Direction) {
    let rules = rules.as_array().map(Vec::as_slice).unwrap_or_default();
    if rules.is_empty() {
        let field = direction.field;
        out.push_str(&format!("    <none> (Selected pods are isolated for {field} connectivity)\n"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let ports = rule["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        if ports.is_empty() {
            out.push_str("    To Port: <any> (traffic allowed to all ports)\n");
        }
        for port in ports {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let number = match &port["port"] {
                Value::Null => "<nil>".to_owned(),
                Value::String(name) => name.clone(),
                number => number.to_string(),
            };
            out.push_str(&match port["endPort"].as_i64() {
                None => format!("    To Port: {number}/{protocol}\n"),
                Some(end) => format!("    To Port Range: {number}-{end}/{protocol}\n"),
            });
        }
        let peers = rule[direction.peers].as_array().map(Vec::as_slice).unwrap_or_default();
        if peers.is_empty() {
            out.push_str(&format!("    {}\n", direction.any));
        }
        for entry in peers {
            out.push_str(&format!("    {}:\n", direction.label));
            peer(out, entry);
        }
        if index + 1 < rules.len() {
            out.push_str("    ----------\n");
        }
    }
}

fn peer(out: &mut String, peer: &Value) {
    let mut is_selected = false;
    for (label, field) in [("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")] {
        if peer[field].is_object() {
            is_selected = true;
            out.push_str(&format!("      {label}: {}\n", selector_or_none(&peer[field])));
        }
    }
    let block = &peer["ipBlock"];
    if !is_selected && block.is_object() {
        let except = block["except"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let (cidr, except) = (block["cidr"].as_str().unwrap_or_default(), except.collect::<Vec<_>>().join(", "));
        out.push_str(&format!("      IPBlock:\n        CIDR: {cidr}\n        Except: {except}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn an_ingress_tells_where_its_paths_lead() {
        let web = json!({"service": {"name": "web", "port": {"number": 80}}});
        let ing = object(json!({"metadata": {"name": "ing", "namespace": "t"}, "spec": {
            "rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "backend": web}]}}],
            "tls": [{"hosts": ["a.example.com", "b"], "secretName": "tls"}, {"hosts": ["c"]}]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "x"}, {"ip": "10.0.0.1"}]}}}));
        assert_eq!(backends_of(&ing).len(), 1);
        let mut out = String::new();
        ingress(&mut out, &ing, &Backends::from([("web:80".to_owned(), "10.1.0.1:80".to_owned())]));
        assert_eq!(
            align(&out),
            "Name:             ing\nLabels:           <none>\nNamespace:        t\nAddress:          10.0.0.1,x\n\
             Ingress Class:    <none>\nDefault backend:  <default>\nTLS:\n  tls terminates a.example.com,b\n  SNI routes c\n\
             Rules:\n  Host           Path  Backends\n  ----           ----  --------\n  a.example.com  \n                 \
             /   web:80 (10.1.0.1:80)\nAnnotations:     <none>\n"
        );
        let resource = json!({"resource": {"apiGroup": "g", "kind": "K", "name": "n"}});
        let bare = object(json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": resource}}));
        let mut out = String::new();
        ingress(&mut out, &bare, &Backends::new());
        assert!(out.contains("Default backend:\tAPIGroup: g, Kind: K, Name: n\n"), "{out}");
        assert!(out.contains("  *\t*\tAPIGroup: g, Kind: K, Name: n\n"), "{out}");
    }

    /// As kubectl 1.36.3 shows this policy.
    #[test]
    fn a_policy_is_described_as_kubectl_describes_it() {
        let policy = object(json!({"metadata": {"name": "p", "namespace": "t"}, "spec": {
            "podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}, {"port": 1, "endPort": 9}],
                "from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}, {}]}}));
        let mut out = String::new();
        network_policy(&mut out, &policy);
        let expected = "\
Spec:
  PodSelector:     app=web
  Allowing ingress traffic:
    To Port: 80/TCP
    To Port Range: 1-9/TCP
    From:
      PodSelector: <none>
    From:
      IPBlock:
        CIDR: 10.0.0.0/8
        Except: 10.1.0.0/16
    ----------
    To Port: <any> (traffic allowed to all ports)
    From: <any> (traffic not restricted by source)
  Allowing egress traffic:
    <none> (Selected pods are isolated for egress connectivity)
  Policy Types: Ingress, Egress
";
        assert!(align(&out).ends_with(expected), "{out}");
        let mut out = String::new();
        network_policy(&mut out, &object(json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}}})));
        assert!(out.contains("<none> (Allowing the specific traffic to all pods in this namespace)\n"), "{out}");
        assert!(out.contains("  Not affecting egress traffic\n  Policy Types: <none>\n"), "{out}");
    }
}
