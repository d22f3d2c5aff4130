//! The rules of a pod's spec, also of one in a template.

use std::collections::HashSet;

use serde_json::Value;

use super::{container, requests, scheduling, security, volume};
use crate::registry::kinds::vocabulary::addresses::ip;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::{metadata, names};

/// The characters of all search domains with the spaces between them.
const SEARCH_LIST_MAX: usize = 2048;

/// What container names, volumes and the rest of the spec are to each other.
pub(in crate::registry::kinds) struct Context<'a> {
    /// The spec.
    pub(in crate::registry::kinds) spec: &'a Value,
    /// Whether it is a pod's own and no template's.
    pub(in crate::registry::kinds) is_pod: bool,
    /// The pod's name; empty in templates.
    pub(in crate::registry::kinds) pod_name: &'a str,
    /// The volumes that can be mounted.
    pub(in crate::registry::kinds) volumes: HashSet<&'a str>,
}

/// Every fault of the spec in a template.
pub(in crate::registry::kinds) fn validate_template(spec: &Value, path: &Path, faults: &mut Faults) {
    validate(Context { spec, is_pod: false, pod_name: "", volumes: HashSet::new() }, path, faults);
}

/// Every fault of a pod's own spec.
pub(in crate::registry::kinds) fn validate_pod(spec: &Value, name: &str, path: &Path, faults: &mut Faults) {
    validate(Context { spec, is_pod: true, pod_name: name, volumes: HashSet::new() }, path, faults);
    for key in ["containers", "initContainers"] {
        for (i, container) in items(spec, key).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let at = path.child(key).index(i).child("image");
                faults.invalid(&at, image, "must not have leading or trailing whitespace");
            }
        }
    }
}

fn validate(mut context: Context<'_>, path: &Path, faults: &mut Faults) {
    let spec = context.spec;
    context.volumes = volume::validate(&context, &path.child("volumes"), faults);
    resource_claims(spec, &path.child("resourceClaims"), faults);
    container::validate_all(&context, path, faults);
    requests::validate(spec, path, faults);
    enumerated(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], faults);
    enumerated(spec, "dnsPolicy", path, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], faults);
    metadata::labels(Some(&spec["nodeSelector"]), &path.child("nodeSelector"), faults);
    security::validate(spec, path, faults);
    scheduling::affinity(&spec["affinity"], &path.child("affinity"), faults);
    dns_config(spec, &path.child("dnsConfig"), faults);
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        faults.invalid_all(&path.child("readinessGates").index(i).child("conditionType"), kind, names::qualified(kind));
    }
    scheduling::gates(spec, &path.child("schedulingGates"), faults);
    scheduling::topology_spread(spec, &path.child("topologySpreadConstraints"), faults);
    security::host_processes(spec, path, faults);
    hostname_override(spec, &path.child("hostnameOverride"), faults);
    names_of(spec, path, faults);
    seconds(spec, path, faults);
    scheduling::tolerations(spec, &path.child("tolerations"), faults);
    host_aliases(spec, &path.child("hostAliases"), faults);
    scheduling::preemption_policy(spec.get("preemptionPolicy"), &path.child("preemptionPolicy"), faults);
    requests::overhead(spec, &path.child("overhead"), faults);
    security::operating_system(spec, path, faults);
    files_of_variables(spec, path, faults);
}

fn hostname_override(spec: &Value, path: &Path, faults: &mut Faults) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    if spec["setHostnameAsFQDN"] == true {
        faults.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec["hostNetwork"] == true {
        faults.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        faults.too_long(path, 64);
    }
    faults.invalid_all(path, name, names::subdomain(name, false));
}

/// A variable that comes from a file comes from one in an empty directory.
fn files_of_variables(spec: &Value, path: &Path, faults: &mut Faults) {
    for (container, at) in all_containers(spec, path) {
        for (i, variable) in items(container, "env").iter().enumerate() {
            let reference = &variable["valueFrom"]["fileKeyRef"];
            if reference.is_null() {
                continue;
            }
            let name = text(reference, "volumeName");
            let at = at.child("env").index(i).child("valueFrom").child("fileKeyRef").child("volumeName");
            match items(spec, "volumes").iter().rev().find(|volume| text(volume, "name") == name) {
                None => faults.not_found(&at, name),
                Some(volume) if !has(volume, "emptyDir") => {
                    faults.invalid(&at, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}

/// Every container with its path: those of the start first.
pub(in crate::registry::kinds) fn all_containers<'a>(spec: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    let of = |key: &str| {
        let path = path.child(key);
        items(spec, key).iter().enumerate().map(|(i, c)| (c, path.index(i))).collect::<Vec<_>>()
    };
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(of).collect()
}

/// A field that must be one of a few words.
pub(in crate::registry::kinds) fn enumerated(
    value: &Value,
    key: &str,
    path: &Path,
    allowed: &[&str],
    faults: &mut Faults,
) {
    match text(value, key) {
        "" => faults.required(&path.child(key), ""),
        word if allowed.contains(&word) => {}
        word => faults.not_supported(&path.child(key), word, allowed),
    }
}

fn names_of(spec: &Value, path: &Path, faults: &mut Faults) {
    for (key, rule) in [
        ("serviceAccountName", names::subdomain as fn(&str, bool) -> Vec<String>),
        ("nodeName", names::subdomain),
        ("priorityClassName", names::subdomain),
        ("runtimeClassName", names::subdomain),
        ("hostname", names::label),
        ("subdomain", names::label),
    ] {
        let name = text(spec, key);
        if !name.is_empty() {
            faults.invalid_all(&path.child(key), name, rule(name, false));
        }
    }
}

fn seconds(spec: &Value, path: &Path, faults: &mut Faults) {
    if let Some(deadline) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        faults.invalid(&path.child("activeDeadlineSeconds"), deadline, why);
    }
}

/// Resolvers, search domains and options.
fn dns_config(spec: &Value, path: &Path, faults: &mut Faults) {
    let config = &spec["dnsConfig"];
    let servers = items(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            faults.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            faults.required(
                &path.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
        }
    }
    if servers.len() > 3 {
        let shown = Shown(config["nameservers"].to_string());
        faults.invalid(&path.child("nameservers"), shown, "must not have more than 3 nameservers");
    }
    for (i, server) in servers.iter().enumerate() {
        ip(server.as_str().unwrap_or_default(), &path.child("nameservers").index(i), faults);
    }
    let searches = items(config, "searches");
    if searches.len() > 32 {
        let shown = Shown(config["searches"].to_string());
        faults.invalid(&path.child("searches"), shown, "must not have more than 32 search paths");
    }
    let characters: usize = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum();
    if characters > SEARCH_LIST_MAX + 1 {
        let shown = Shown(config["searches"].to_string());
        let why = format!("must not have more than {SEARCH_LIST_MAX} characters (including spaces) in the search list");
        faults.invalid(&path.child("searches"), shown, &why);
    }
    for (i, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        let bare = search.strip_suffix('.').unwrap_or(search);
        if search != "." {
            faults.invalid_all(&path.child("searches").index(i), bare, names::search_domain(bare));
        }
    }
    for (i, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            faults.required(&path.child("options").index(i), "must not be empty");
        }
    }
}

fn host_aliases(spec: &Value, path: &Path, faults: &mut Faults) {
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let path = path.index(i);
        ip(text(alias, "ip"), &path.child("ip"), faults);
        for (j, name) in items(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            faults.invalid_all(&path.child("hostnames").index(j), name, names::subdomain(name, false));
        }
    }
}

fn resource_claims(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = Vec::new();
    for (i, claim) in items(spec, "resourceClaims").iter().enumerate() {
        let path = path.index(i);
        let name = text(claim, "name");
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        } else {
            faults.invalid_all(&path.child("name"), name, names::label(name, false));
        }
        if seen.contains(&name) {
            faults.duplicate(&path.child("name"), name);
        }
        seen.push(name);
        let shown = || {
            let get = |key: &str| claim.get(key).cloned().unwrap_or(Value::Null);
            Shown(format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                get("name"),
                get("resourceClaimName"),
                get("resourceClaimTemplateName")
            ))
        };
        for key in ["resourceClaimName", "resourceClaimTemplateName"] {
            if let Some(name) = claim[key].as_str() {
                faults.invalid_all(&path.child(key), name, names::subdomain(name, false));
            }
        }
        match (has(claim, "resourceClaimName"), has(claim, "resourceClaimTemplateName")) {
            (true, true) => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                faults.invalid(&path, shown(), why);
            }
            (false, false) => {
                faults.invalid(&path, shown(), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
            }
            _ => {}
        }
    }
}
