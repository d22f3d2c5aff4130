//! What a person is told about a valid pod or template that will surprise (Kubernetes 1.36).

use std::collections::{HashMap, HashSet};

use listwatch_proto::resource::{Object, Quantity};
use serde_json::Value;

use super::spec::all_containers;
use crate::registry::kinds::vocabulary::faults::Path;
use crate::registry::kinds::vocabulary::fields::{entries, has, items, text};
use crate::registry::kinds::vocabulary::{addresses, names};

/// Labels of nodes that have others in their place.
const OLD_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];
/// Volumes that are on their way out, with how upstream names them.
const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
/// Annotations that do nothing any more.
const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// About a pod.
pub(in crate::registry::kinds) fn pod(object: &Object) -> Vec<String> {
    let mut warnings = hostname(object, "the Pod's hostname");
    let metadata = object.at(&["metadata"]).unwrap_or(&Value::Null);
    spec(object.at(&["spec"]).unwrap_or(&Value::Null), metadata, "", &mut warnings);
    warnings
}

/// About a workload whose name its pods carry, and its template.
pub(in crate::registry::kinds) fn template(object: &Object) -> Vec<String> {
    let mut warnings = name_of_pods(object);
    warnings.extend(pod_template(object, &["spec", "template"]));
    warnings
}

/// About the name of what gives its name to its pods.
pub(in crate::registry::kinds) fn name_of_pods(object: &Object) -> Vec<String> {
    hostname(object, "Pod names and hostnames")
}

/// About the template of pods at a path.
pub(in crate::registry::kinds) fn pod_template(object: &Object, path: &[&str]) -> Vec<String> {
    template_at(object.at(path).unwrap_or(&Value::Null), &format!("{}.", path.join(".")))
}

/// About a template by itself, which stands at `at`: `spec.template.`.
pub(in crate::registry::kinds) fn template_at(template: &Value, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    spec(&template["spec"], &template["metadata"], at, &mut warnings);
    warnings
}

fn hostname(object: &Object, what: &str) -> Vec<String> {
    let faults = names::label(object.name(), false);
    if faults.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {what}, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        faults.join(", ")
    )]
}

fn spec(spec: &Value, metadata: &Value, at: &str, warnings: &mut Vec<String>) {
    let path = Path::new(&format!("{at}spec"));
    placement(spec, &path, warnings);
    let annotations = Path::new(&format!("{at}metadata.annotations"));
    for (key, why) in OLD_ANNOTATIONS.iter().filter(|(key, _)| has(&metadata["annotations"], key)) {
        warnings.push(format!("{}: {why}", annotations.key(key)));
    }
    volumes(spec, &path.child("volumes"), warnings);
    lists(spec, &path, warnings);
    for name in ["memory", "ephemeral-storage"] {
        fractional(&spec["overhead"], name, &path.child("overhead"), warnings);
    }
    const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    if has(&metadata["annotations"], SECCOMP) && spec["securityContext"]["seccompProfile"].is_null() {
        let at = annotations.key(SECCOMP);
        warnings.push(format!("{at}: non-functional in v1.27+; use the \"seccompProfile\" field instead"));
    }
    let containers = all_containers(spec, &path);
    for (container, path) in &containers {
        for part in ["memory", "ephemeral-storage"] {
            for kind in ["limits", "requests"] {
                let at = path.child("resources").child(kind);
                fractional(&container["resources"][kind], part, &at, warnings);
            }
        }
        hidden_variables(container, path, warnings);
    }
    ports(&containers, warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let at = path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    pod_affinity(&spec["affinity"], &path.child("affinity"), warnings);
    let servers = path.child("dnsConfig").child("nameservers");
    for (i, server) in items(&spec["dnsConfig"], "nameservers").iter().filter_map(Value::as_str).enumerate() {
        warnings.extend(addresses::warning(server, &servers.index(i)));
    }
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        warnings.extend(addresses::warning(text(alias, "ip"), &path.child("hostAliases").index(i).child("ip")));
    }
}

pub(in crate::registry::kinds) fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, why)| *why)
}

/// Node labels that have others in their place, and selectors that match nothing.
fn placement(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (key, _) in entries(&spec["nodeSelector"]) {
        if let Some(why) = old_label(key) {
            warnings.push(format!("{}: {why}", path.child("nodeSelector").key(key)));
        }
    }
    let node = &spec["affinity"]["nodeAffinity"];
    let at = path.child("affinity").child("nodeAffinity");
    let required = at.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    let terms = items(&node["requiredDuringSchedulingIgnoredDuringExecution"], "nodeSelectorTerms");
    for (i, term) in terms.iter().enumerate() {
        node_term(term, false, &required.index(i), warnings);
    }
    let preferred = at.child("preferredDuringSchedulingIgnoredDuringExecution");
    for (i, term) in items(node, "preferredDuringSchedulingIgnoredDuringExecution").iter().enumerate() {
        node_term(&term["preference"], true, &preferred.index(i).child("preference"), warnings);
    }
    for (i, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = path.child("topologySpreadConstraints").index(i);
        let key = text(constraint, "topologyKey");
        if let Some(why) = old_label(key) {
            warnings.push(format!("{}: {key} is {why}", at.child("topologyKey")));
        }
        if constraint["labelSelector"].is_null() {
            let at = at.child("labelSelector");
            warnings.push(format!("{at}: a null labelSelector results in matching no pod"));
        }
    }
}

fn node_term(term: &Value, values_too: bool, path: &Path, warnings: &mut Vec<String>) {
    for (i, expression) in items(term, "matchExpressions").iter().enumerate() {
        let (key, at) = (text(expression, "key"), path.child("matchExpressions").index(i));
        if let Some(why) = old_label(key) {
            warnings.push(format!("{}: {key} is {why}", at.child("key")));
        }
        for (j, value) in items(expression, "values").iter().filter_map(Value::as_str).enumerate() {
            for why in names::label_value(value).iter().filter(|_| values_too) {
                warnings.push(format!("{}: {value} is invalid, {why}", at.child("values").index(j)));
            }
        }
    }
}

fn volumes(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        for (key, shown, why) in OLD_VOLUMES.iter().filter(|(key, ..)| has(volume, key)) {
            let _ = key;
            warnings.push(format!("{}: {why}", path.child(shown)));
        }
        let resources = &volume["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"];
        let at = path.child("ephemeral").child("volumeClaimTemplate").child("spec").child("resources");
        for kind in ["requests", "limits"] {
            fractional(&resources[kind], "storage", &at.child(kind), warnings);
        }
    }
    for volume in items(spec, "volumes") {
        overlapping(volume, warnings);
    }
}

/// Files of one volume that fall onto each other.
fn overlapping(volume: &Value, warnings: &mut Vec<String>) {
    let name = text(volume, "name");
    let plain = |source: &Value| -> Vec<(String, String)> {
        items(source, "items").iter().map(|item| (text(item, "path").to_owned(), String::new())).collect()
    };
    for (key, what, named) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
        let described = format!("{what} \"{}\"", text(&volume[key], named));
        collisions(name, &described, &plain(&volume[key]), warnings);
    }
    collisions(name, "DownwardAPI", &plain(&volume["downwardAPI"]), warnings);
    let mut files = Vec::new();
    for source in items(&volume["projected"], "sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            warnings.push(format!("volume \"{name}\" (Projected) has no sources provided"));
        }
        for (key, what) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
            let origin = format!("{what} \"{}\"", text(&source[key], "name"));
            files.extend(plain(&source[key]).into_iter().map(|(path, _)| (path, origin.clone())));
        }
        files.extend(plain(&source["downwardAPI"]).into_iter().map(|(path, _)| (path, "DownwardAPI".to_owned())));
        if has(source, "serviceAccountToken") {
            files.push((text(&source["serviceAccountToken"], "path").to_owned(), "ServiceAccountToken".to_owned()));
        }
    }
    collisions(name, "Projected", &files, warnings);
}

fn collisions(volume: &str, what: &str, files: &[(String, String)], warnings: &mut Vec<String>) {
    let shown = |(path, origin): (&str, &str)| match origin {
        "" => format!("\"{path}\""),
        origin => format!("\"{path}\" ({origin})"),
    };
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, origin)| (path.trim_end_matches('/'), origin.as_str())).collect();
    for (i, file) in files.iter().enumerate().filter(|(_, file)| !file.0.is_empty()) {
        for other in files[..i].iter().filter(|other| !other.0.is_empty()) {
            let (own, of) = (format!("{}/", file.0), format!("{}/", other.0));
            if own.starts_with(&of) || of.starts_with(&own) {
                let (own, of) = (shown(*file), shown(*other));
                warnings.push(format!("volume \"{volume}\" ({what}): overlapping paths: {own} with {of}"));
            }
        }
    }
}

/// Entries of lists that say the same twice, or nothing.
fn lists(spec: &Value, path: &Path, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        if !seen.insert(ip) {
            warnings.push(format!("{}: duplicate ip \"{ip}\"", path.child("hostAliases").index(i).child("ip")));
        }
    }
    let at = path.child("imagePullSecrets");
    let secrets: Vec<&str> = items(spec, "imagePullSecrets").iter().map(|secret| text(secret, "name")).collect();
    for (i, name) in secrets.iter().enumerate().filter(|(i, name)| secrets[..*i].contains(name)) {
        warnings.push(format!("{}: duplicate name \"{name}\"", at.index(i).child("name")));
    }
    for (i, name) in secrets.iter().enumerate().filter(|(_, name)| name.is_empty()) {
        warnings.push(format!("{}: invalid empty name \"{name}\"", at.index(i).child("name")));
    }
}

/// Bytes come whole.
pub(in crate::registry::kinds) fn fractional(amounts: &Value, name: &str, path: &Path, warnings: &mut Vec<String>) {
    let Some(Ok(amount)) = amounts[name].as_str().map(str::parse::<Quantity>) else { return };
    if amount.milli_value() % 1000 != 0 {
        let at = path.key(name);
        warnings.push(format!("{at}: fractional byte value \"{amount}\" is invalid, must be an integer"));
    }
}

fn hidden_variables(container: &Value, path: &Path, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (i, variable) in items(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        if seen.insert(name) {
            continue;
        }
        // One that builds on the value before it is fine.
        let (value, reference) = (text(variable, "value"), format!("$({name})"));
        if has(variable, "valueFrom") || value == reference || !value.contains(&reference) {
            let at = path.child("env").index(i);
            warnings
                .push(format!("{at}: hides previous definition of \"{name}\", which may be dropped when using apply"));
        }
    }
}

/// Ports that are told twice, in any container.
fn ports(containers: &[(&Value, Path)], warnings: &mut Vec<String>) {
    let mut known: HashMap<String, Vec<(Path, &Value)>> = HashMap::new();
    for (container, path) in containers {
        for (i, port) in items(container, "ports").iter().enumerate() {
            let at = path.child("ports").index(i);
            let (ip, host) = (text(port, "hostIP"), port["hostPort"].as_i64().unwrap_or(0));
            let (number, protocol) = (port["containerPort"].as_i64().unwrap_or(0), text(port, "protocol"));
            if !ip.is_empty() && host == 0 {
                let shown = format!(
                    "{{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}",
                    text(port, "name")
                );
                warnings.push(format!("{at}: hostIP set without hostPort: {shown}"));
            }
            let others = known.entry(format!("{number}/{protocol}")).or_default();
            for (other, of) in &*others {
                let (other_ip, other_host) = (text(of, "hostIP"), of["hostPort"].as_i64().unwrap_or(0));
                let what = if ip == other_ip && host == other_host {
                    "duplicate"
                } else if host == 0 || other_host == 0 {
                    "overlapping"
                } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{at}: {what} port definition with {other}"));
            }
            others.push((at, port));
        }
    }
    let mut named: HashMap<&str, Path> = HashMap::new();
    for (container, path) in containers {
        for (i, port) in items(container, "ports").iter().enumerate() {
            let (name, at) = (text(port, "name"), path.child("ports").index(i));
            match named.get(name) {
                _ if name.is_empty() => {}
                Some(other) => warnings.push(format!(
                    "{at}: duplicate port name \"{name}\" with {other}, services and probes that select ports by name \
                     will use {other}"
                )),
                None => drop(named.insert(name, at)),
            }
        }
    }
}

fn pod_affinity(affinity: &Value, path: &Path, warnings: &mut Vec<String>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    const WHY: &str = "a null labelSelector results in matching no pod";
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(kind);
        for (i, term) in items(&affinity[kind], REQUIRED).iter().enumerate() {
            if term["labelSelector"].is_null() {
                warnings.push(format!("{}: {WHY}", path.child(REQUIRED).index(i).child("labelSelector")));
            }
        }
        for (i, term) in items(&affinity[kind], PREFERRED).iter().enumerate() {
            if term["podAffinityTerm"]["labelSelector"].is_null() {
                let at = path.child(PREFERRED).index(i).child("podAffinityTerm").child("labelSelector");
                warnings.push(format!("{at}: {WHY}"));
            }
        }
    }
}
