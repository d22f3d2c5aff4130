//! The rules of a pod's spec, also of one in a template.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::{Map, Value};

use super::faults::{Faults, Path, Shown};
use super::fields::{has, items, text};
use super::{container, metadata, names, pod_scheduling, volume};

/// What container names, volumes and the rest of the spec are to each other.
pub(super) struct Context<'a> {
    /// The spec.
    pub(super) spec: &'a Value,
    /// The volumes that can be mounted.
    pub(super) volumes: HashSet<&'a str>,
}

/// Every fault of a pod's spec.
pub(super) fn validate(spec: &Value, path: &Path, faults: &mut Faults) {
    let volumes = volume::validate(spec, &path.child("volumes"), faults);
    let context = Context { spec, volumes };
    container::validate_all(&context, path, faults);
    enumerated(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], faults);
    enumerated(spec, "dnsPolicy", path, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], faults);
    metadata::labels(Some(&spec["nodeSelector"]), &path.child("nodeSelector"), faults);
    security(spec, path, faults);
    for (i, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            faults.required(&path.child("imagePullSecrets").index(i).child("name"), "");
        }
    }
    pod_scheduling::affinity(&spec["affinity"], &path.child("affinity"), faults);
    dns_config(spec, &path.child("dnsConfig"), faults);
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        faults.invalid_all(&path.child("readinessGates").index(i).child("conditionType"), kind, names::qualified(kind));
    }
    pod_scheduling::gates(spec, &path.child("schedulingGates"), faults);
    pod_scheduling::topology_spread(spec, &path.child("topologySpreadConstraints"), faults);
    names_of(spec, path, faults);
    seconds(spec, path, faults);
    pod_scheduling::tolerations(spec, &path.child("tolerations"), faults);
    host_aliases(spec, &path.child("hostAliases"), faults);
    resource_claims(spec, &path.child("resourceClaims"), faults);
}

/// A field that must be one of a few words.
pub(super) fn enumerated(value: &Value, key: &str, path: &Path, allowed: &[&str], faults: &mut Faults) {
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
    let scheduler = text(spec, "schedulerName");
    if scheduler.is_empty() {
        faults.required(&path.child("schedulerName"), "");
    } else {
        faults.invalid_all(&path.child("schedulerName"), scheduler, names::qualified(scheduler));
    }
    let os = text(&spec["os"], "name");
    if has(spec, "os") && !matches!(os, "linux" | "windows") {
        if os.is_empty() {
            faults.required(&path.child("os").child("name"), "cannot be empty");
        } else {
            faults.not_supported(&path.child("os"), os, &["linux", "windows"]);
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

/// The security context of the pod, and what goes together in the host's namespaces.
fn security(spec: &Value, path: &Path, faults: &mut Faults) {
    let context = &spec["securityContext"];
    let at = path.child("securityContext");
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        faults.invalid(&at.child("shareProcessNamespace"), Shown("true".into()), why);
    }
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        container::id(&context[key], &at.child(key), faults);
    }
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        container::id(group, &at.child("supplementalGroups").index(i), faults);
    }
    for (key, allowed) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ] {
        let word = text(context, key);
        if !word.is_empty() && !allowed.contains(&word) {
            faults.not_supported(&at.child(key), word, allowed);
        }
    }
    let mut seen = Vec::new();
    for (i, sysctl) in items(context, "sysctls").iter().enumerate() {
        let name = text(sysctl, "name");
        let path = at.child("sysctls").index(i).child("name");
        if name.is_empty() {
            faults.required(&path, "");
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            faults.invalid(&path, name, why);
        } else if seen.contains(&name) {
            faults.duplicate(&path, name);
        }
        seen.push(name);
    }
    container::profile(&context["seccompProfile"], "seccompProfile", &at, faults);
    container::profile(&context["appArmorProfile"], "appArmorProfile", &at, faults);
}

fn is_sysctl(name: &str) -> bool {
    let part = |part: &str| {
        let ends = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
            && ends(part.as_bytes().first())
            && ends(part.as_bytes().last())
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
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
    for (i, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        let bare = search.trim_end_matches('.');
        if search == "." {
            continue;
        }
        let fits = bare.split('.').all(|label| names::label(label.trim_start_matches('_'), false).is_empty());
        if !fits {
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                       and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
                       is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
            faults.invalid(&path.child("searches").index(i), bare, why);
        }
    }
    for (i, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            faults.required(&path.child("options").index(i), "must not be empty");
        }
    }
}

/// An IP address.
pub(super) fn ip(text: &str, path: &Path, faults: &mut Faults) {
    if text.parse::<IpAddr>().is_err() {
        faults.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
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

/// The keys of a map field.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    static EMPTY: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
    value.as_object().unwrap_or_else(|| EMPTY.get_or_init(Map::new)).iter()
}
