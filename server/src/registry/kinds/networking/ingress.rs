//! Ingress: how requests from outside reach services.

use std::collections::BTreeSet;

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Part, Strategy, keep};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text as field};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, text};
use crate::registry::kinds::vocabulary::{addresses, names};
use crate::registry::table::{Cell, Column};

pub(super) struct IngressStrategy;

/// An older way to name the class.
const CLASS: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// What no path that is compared may contain, or end with.
const NOT_WITHIN: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_END: [&str; 2] = ["/..", "/."];
/// Hosts printed by name.
const HOSTS_SHOWN: usize = 3;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Class",
        "string",
        "The name of the IngressClass resource that should be used for additional configuration",
        0,
    ),
    column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule", 0),
    column("Address", "string", "Address is a list containing ingress points for the load-balancer", 0),
    column("Ports", "string", "Ports of TLS configurations that open", 0),
    AGE,
];

impl Strategy for IngressStrategy {
    fn schema(&self) -> &'static str {
        "networking/v1.Ingress"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"loadBalancer": {}}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, if part == Part::Status { &["spec"] } else { &["status"] });
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validate_spec(object, Leniency::default(), faults);
        let class = object.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
        if let (Some(noted), Some(class)) = (object.annotation(CLASS), class)
            && noted != class
        {
            let at = Path::new("annotations").child(CLASS);
            faults.invalid(&at, noted, "must match `ingressClassName` when both are specified");
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            validate_status(new, old, faults);
        } else {
            validate_spec(new, Leniency::towards(old), faults);
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let classless = object.at(&["spec", "ingressClassName"]).is_none_or(Value::is_null);
        if object.annotation(CLASS).is_none() || !classless {
            return Vec::new();
        }
        vec![format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead")]
    }

    fn update_warnings(&self, part: Part, new: &Object, _old: &Object) -> Vec<String> {
        if part != Part::Status {
            return Vec::new();
        }
        let path = Path::new("status.loadBalancer.ingress");
        let points = points(new).iter().enumerate();
        points.filter_map(|(i, point)| addresses::warning(field(point, "ip"), &path.index(i))).collect()
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        // A point has an address or a name.
        let addresses: BTreeSet<&str> = points(object)
            .iter()
            .map(|point| if field(point, "ip").is_empty() { field(point, "hostname") } else { field(point, "ip") })
            .filter(|address| !address.is_empty())
            .collect();
        let addresses: Vec<&str> = addresses.into_iter().collect();
        vec![
            text(object.name()),
            text(spec["ingressClassName"].as_str().unwrap_or(NONE)),
            text(hosts(items(spec, "rules"))),
            text(addresses.join(",")),
            text(if items(spec, "tls").is_empty() { "80" } else { "80, 443" }),
            age(object, now),
        ]
    }
}

fn points(object: &Object) -> &[Value] {
    let list = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The first hosts, and how many rules there are beside.
fn hosts(rules: &[Value]) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= shown.len() == HOSTS_SHOWN;
        let host = field(rule, "host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - HOSTS_SHOWN),
    }
}

/// What an older version let pass and a change may keep.
#[derive(Clone, Copy, Default)]
struct Leniency {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Leniency {
    fn towards(old: &Object) -> Self {
        let spec = old.at(&["spec"]).unwrap_or(&Value::Null);
        let secret_names = items(spec, "tls").iter().any(|tls| !secret_faults(field(tls, "secretName")).is_empty());
        let wildcard_rules = items(spec, "rules").iter().any(|rule| {
            let mut faults = Faults::new();
            rule_value(rule, &Path::new(""), &mut faults);
            field(rule, "host").contains('*') && !faults.is_empty()
        });
        Self { secret_names, wildcard_rules }
    }
}

fn secret_faults(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::subdomain(name, false) }
}

fn validate_spec(object: &Object, leniency: Leniency, faults: &mut Faults) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let rules = items(spec, "rules");
    if rules.is_empty() && !has(spec, "defaultBackend") {
        // Of no rules and an empty list of them Go writes what it was sent.
        faults.invalid(&path, &spec["rules"], "either `defaultBackend` or `rules` must be specified");
    }
    if has(spec, "defaultBackend") {
        backend(&spec["defaultBackend"], &path.child("defaultBackend"), faults);
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.child("rules").index(i);
        let host = field(rule, "host");
        rule_host(host, &path.child("host"), faults);
        if !(host.contains('*') && leniency.wildcard_rules) {
            rule_value(rule, &path, faults);
        }
    }
    for (i, tls) in items(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(i);
        for (j, host) in items(tls, "hosts").iter().filter_map(Value::as_str).enumerate() {
            faults.invalid_all(&path.child("hosts").index(j), host, host_faults(host));
        }
        let secret = field(tls, "secretName");
        if !leniency.secret_names {
            faults.invalid_all(&path.child("secretName"), secret, secret_faults(secret));
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        faults.invalid_all(&path.child("ingressClassName"), class, names::subdomain(class, false));
    }
}

fn host_faults(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host, false) }
}

fn rule_host(host: &str, path: &Path, faults: &mut Faults) {
    if host.is_empty() {
        return;
    }
    if addresses::parse(host).is_some() {
        faults.invalid(path, host, "must be a DNS name, not an IP address");
    }
    faults.invalid_all(path, host, host_faults(host));
}

fn rule_value(rule: &Value, path: &Path, faults: &mut Faults) {
    if !has(rule, "http") {
        return;
    }
    let path = path.child("http").child("paths");
    let paths = items(&rule["http"], "paths");
    if paths.is_empty() {
        faults.required(&path, "");
    }
    for (i, own) in paths.iter().enumerate() {
        http_path(own, &path.index(i), faults);
    }
}

fn http_path(own: &Value, path: &Path, faults: &mut Faults) {
    let Some(kind) = own["pathType"].as_str() else {
        faults.required(&path.child("pathType"), "pathType must be specified");
        return;
    };
    let (written, at) = (field(own, "path"), path.child("path"));
    match kind {
        "Exact" | "Prefix" => {
            if !written.starts_with('/') {
                faults.invalid(&at, written, "must be an absolute path");
            }
            for part in NOT_WITHIN.iter().filter(|part| written.contains(**part)) {
                faults.invalid(&at, written, &format!("must not contain '{part}'"));
            }
            for part in NOT_AT_END.iter().filter(|part| written.ends_with(**part)) {
                faults.invalid(&at, written, &format!("cannot end with '{part}'"));
            }
        }
        "ImplementationSpecific" => {
            if !written.is_empty() && !written.starts_with('/') {
                faults.invalid(&at, written, "must be an absolute path");
            }
        }
        other => faults.not_supported(&path.child("pathType"), other, &PATH_TYPES),
    }
    backend(&own["backend"], &path.child("backend"), faults);
}

/// Where requests go: to a service or to another object, not to both.
fn backend(backend: &Value, path: &Path, faults: &mut Faults) {
    match (has(backend, "resource"), has(backend, "service")) {
        (true, true) => faults.invalid(path, "", "cannot set both resource and service backends"),
        (true, false) => super::reference::typed(&backend["resource"], &path.child("resource"), faults),
        (false, true) => service(&backend["service"], path, faults),
        (false, false) => faults.invalid(path, "", "resource or service backend is required"),
    }
}

fn service(service: &Value, path: &Path, faults: &mut Faults) {
    let (at, name) = (path.child("service"), field(service, "name"));
    if name.is_empty() {
        faults.required(&at.child("name"), "");
    } else {
        faults.invalid_all(&at.child("name"), name, names::label(name, false));
    }
    let (port, number) = (field(&service["port"], "name"), service["port"]["number"].as_i64().unwrap_or(0));
    let at = at.child("port");
    match (port.is_empty(), number) {
        (true, 0) => faults.required(path, "port name or number is required"),
        (false, 0) => faults.invalid_all(&at.child("name"), port, names::port(port)),
        (true, number) => {
            if let Some(why) = names::port_number(number) {
                faults.invalid(&at.child("number"), number, why);
            }
        }
        (false, _) => faults.invalid(path, "", "cannot set both port name & port number"),
    }
}

fn validate_status(new: &Object, old: &Object, faults: &mut Faults) {
    let path = Path::new("status.loadBalancer.ingress");
    for (i, point) in points(new).iter().enumerate() {
        let (ip, host) = (field(point, "ip"), field(point, "hostname"));
        let known = points(old).iter().any(|own| field(own, "ip") == ip);
        if !ip.is_empty() && !known {
            addresses::ip(ip, &path.index(i).child("ip"), faults);
        }
        if !host.is_empty() {
            let at = path.index(i).child("hostname");
            faults.invalid_all(&at, host, names::subdomain(host, false));
            if addresses::parse(host).is_some() {
                faults.invalid(&at, host, "must be a DNS name, not an IP address");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(spec: Value) -> Vec<String> {
        let mut faults = Faults::new();
        let object = Object::from_value(json!({"spec": spec})).expect("a map");
        IngressStrategy.validate_create(&object, &mut faults);
        faults.told()
    }

    fn path(path: Value) -> Value {
        json!({"rules": [{"host": "a.b", "http": {"paths": [path]}}]})
    }

    #[test]
    fn paths_and_backends_are_judged() {
        let to = json!({"service": {"name": "s", "port": {"number": 80}}});
        assert!(told(path(json!({"path": "/a", "pathType": "Prefix", "backend": to}))).is_empty());
        assert_eq!(
            told(json!({})),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
        let at = "spec.rules[0].http.paths[0]";
        assert_eq!(
            told(path(json!({"path": "a//..", "pathType": "Exact", "backend": {}}))),
            [
                format!("{at}.path: Invalid value: \"a//..\": must be an absolute path"),
                format!("{at}.path: Invalid value: \"a//..\": must not contain '//'"),
                format!("{at}.path: Invalid value: \"a//..\": cannot end with '/..'"),
                format!("{at}.backend: Invalid value: \"\": resource or service backend is required"),
            ]
        );
        assert_eq!(told(path(json!({}))), [format!("{at}.pathType: Required value: pathType must be specified")]);
        let none = json!({"defaultBackend": {"service": {"name": "s", "port": {}}}});
        assert_eq!(told(none), ["spec.defaultBackend: Required value: port name or number is required"]);
    }

    #[test]
    fn hosts_print_in_short() {
        let rules = |hosts: &[&str]| hosts.iter().map(|host| json!({"host": host})).collect::<Vec<_>>();
        assert_eq!(hosts(&rules(&[])), "*");
        assert_eq!(hosts(&rules(&["a", "b", "c"])), "a,b,c");
        assert_eq!(hosts(&rules(&["a", "b", "c", "d", "e"])), "a,b,c + 2 more...");
    }
}
