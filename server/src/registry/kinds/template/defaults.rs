//! What a pod's spec gets where it says nothing (Kubernetes 1.36 `SetDefaults_*`).

use listwatch_proto::resource::requests::PodResources;
use serde_json::{Map, Value, json};

use crate::registry::kinds::vocabulary::fields::{default, has, items_mut, text};

/// Permissions of projected files: 0644.
const FILE_MODE: i64 = 420;

/// A pod template.
pub(in crate::registry::kinds) fn template(template: &mut Value) {
    if template["spec"].is_object() {
        spec(&mut template["spec"], false);
    }
}

/// A pod's spec; a pod's own gets its requests from its limits, a template's is left for the pod to come.
pub(in crate::registry::kinds) fn spec(spec: &mut Value, own: bool) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "schedulerName", "default-scheduler");
    if own {
        default(spec, "enableServiceLinks", true);
    }
    service_account(spec);
    let host_network = spec["hostNetwork"] == true;
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for item in items_mut(spec, key) {
            container(item, own);
            if host_network && key != "ephemeralContainers" {
                host_ports(item);
            }
        }
    }
    for item in items_mut(spec, "volumes") {
        volume(item);
    }
    if own && spec["resources"].is_object() {
        pod_resources(spec);
    }
}

/// The deprecated name of the field follows the present one.
fn service_account(spec: &mut Value) {
    let (name, old) = (text(spec, "serviceAccountName").to_owned(), text(spec, "serviceAccount").to_owned());
    let name = if name.is_empty() { old } else { name };
    if !name.is_empty() {
        spec["serviceAccountName"] = json!(name);
        spec["serviceAccount"] = json!(name);
    }
}

fn container(container: &mut Value, own: bool) {
    let image = text(container, "image");
    let policy = if always_pulled(image) { "Always" } else { "IfNotPresent" };
    default(container, "imagePullPolicy", policy);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if has(variable, "valueFrom") && has(&variable["valueFrom"], "fieldRef") {
            default(&mut variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
        }
        if has(variable, "valueFrom") && has(&variable["valueFrom"], "fileKeyRef") {
            default(&mut variable["valueFrom"]["fileKeyRef"], "optional", false);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, key) {
            probe(&mut container[key]);
        }
    }
    for key in ["postStart", "preStop"] {
        if has(container, "lifecycle") && has(&container["lifecycle"], key) {
            http_get(&mut container["lifecycle"][key]);
        }
    }
    if own {
        requests_from_limits(&mut container["resources"]);
    }
}

/// Whether an image without a policy is always pulled: its tag is `latest` or missing, and it has no digest. What is no
/// reference at all has no tag.
fn always_pulled(image: &str) -> bool {
    match reference(image) {
        None => false,
        Some((Some(tag), _)) => tag == "latest",
        Some((None, has_digest)) => !has_digest,
    }
}

/// The tag of an image, and whether it has a digest; `None` for what is no reference (distribution's grammar).
fn reference(image: &str) -> Option<(Option<&str>, bool)> {
    const NAME_MAX: usize = 255;
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    if digest.is_some_and(|digest| !is_digest(digest)) || (digest.is_none() && is_hex(rest, 64)) {
        return None;
    }
    let is_domain = |head: &str| head.contains(['.', ':']) || head == "localhost" || head.to_lowercase() != *head;
    let (domain, remainder) = match rest.split_once('/') {
        Some((head, tail)) if is_domain(head) => (head, tail),
        _ => ("docker.io", rest),
    };
    let (path, tag) = remainder.split_once(':').map_or((remainder, None), |(path, tag)| (path, Some(tag)));
    let fits = is_host(domain) && path.split('/').all(is_path_part) && tag.is_none_or(is_tag);
    (fits && domain.len() + 1 + path.len() <= NAME_MAX).then_some((tag, digest.is_some()))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_digest(digest: &str) -> bool {
    match digest.split_once(':') {
        Some(("sha256", hex)) => is_hex(hex, 64),
        Some(("sha384", hex)) => is_hex(hex, 96),
        Some(("sha512", hex)) => is_hex(hex, 128),
        _ => false,
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let inner = |b: u8| word(b) || matches!(b, b'.' | b'-');
    (1..=128).contains(&tag.len()) && tag.bytes().next().is_some_and(word) && tag.bytes().all(inner)
}

/// A host's name with a port, if any.
fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let part = |part: &str| {
        let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && ends(part.as_bytes().first())
            && ends(part.as_bytes().last())
    };
    name.split('.').all(part) && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Lower case words between dots, one or two underscores, or dashes.
fn is_path_part(part: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = part.split(alphanumeric).filter(|s| !s.is_empty());
    let mut separators = separators.map(|s| matches!(s, "." | "_" | "__") || s.chars().all(|c| c == '-'));
    part.starts_with(alphanumeric) && part.ends_with(alphanumeric) && separators.all(|fits| fits)
}

/// What is behind a gate that is off (Kubernetes 1.36) is dropped: the signals that end a container.
pub(in crate::registry::kinds) fn drop_disabled(spec: &mut Value) {
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(spec, key) {
            if let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) {
                let dropped = lifecycle.remove("stopSignal").is_some();
                if dropped && lifecycle.is_empty() {
                    container.as_object_mut().map(|container| container.remove("lifecycle"));
                }
            }
        }
    }
}

fn probe(probe: &mut Value) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    http_get(probe);
    if has(probe, "grpc") {
        default(&mut probe["grpc"], "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if has(handler, "httpGet") {
        default(&mut handler["httpGet"], "path", "/");
        default(&mut handler["httpGet"], "scheme", "HTTP");
    }
}

/// With the host's network a container's port is the host's.
fn host_ports(container: &mut Value) {
    for port in items_mut(container, "ports") {
        let number = port["containerPort"].clone();
        default(port, "hostPort", number);
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources["limits"].as_object().cloned() else { return };
    let requests = &mut resources["requests"];
    if requests.is_null() {
        *requests = Value::Object(Map::new());
    }
    for (name, amount) in limits {
        default(requests, &name, amount);
    }
    if requests.as_object().is_some_and(Map::is_empty)
        && let Some(map) = resources.as_object_mut()
    {
        map.remove("requests");
    }
}

/// A pod that sets resources for itself as a whole limits its huge pages to what the containers may have, and requests
/// what they ask for together, or else what it limits.
fn pod_resources(spec: &mut Value) {
    let containers = PodResources::of_spec(spec).map(|mut pod| {
        pod.resources = None;
        pod.overhead.clear();
        pod
    });
    let Ok(containers) = containers else { return };
    let is_huge = |name: &str| name.starts_with("hugepages-");
    let amounts = |spec: &Value, part: &str| spec["resources"][part].as_object().cloned().unwrap_or_default();
    let (mut limits, mut requests) = (amounts(spec, "limits"), amounts(spec, "requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (name, limit) in containers.limits().into_iter().filter(|(name, _)| is_huge(name)) {
        if !requests.contains_key(&name) {
            limits.entry(name).or_insert_with(|| json!(limit.to_string()));
        }
    }
    if !limits.is_empty() {
        for (name, request) in containers.requests() {
            if matches!(name.as_str(), "cpu" | "memory") {
                requests.entry(name).or_insert_with(|| json!(request.to_string()));
            }
        }
        for (name, limit) in &limits {
            if matches!(name.as_str(), "cpu" | "memory") || is_huge(name) {
                requests.entry(name).or_insert_with(|| limit.clone());
            }
        }
    }
    for (part, amounts) in [("limits", limits), ("requests", requests)] {
        if !amounts.is_empty() {
            spec["resources"][part] = Value::Object(amounts);
        }
    }
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    if map.keys().all(|key| key == "name") {
        map.insert("emptyDir".into(), json!({}));
    }
    for key in ["configMap", "secret", "downwardAPI", "projected"] {
        if has(volume, key) {
            default(&mut volume[key], "defaultMode", FILE_MODE);
        }
    }
    shared_sources(volume);
    if has(volume, "image") && text(&volume["image"], "pullPolicy").is_empty() {
        let policy = if always_pulled(text(&volume["image"], "reference")) { "Always" } else { "IfNotPresent" };
        volume["image"]["pullPolicy"] = json!(policy);
    }
    if has(volume, "downwardAPI") {
        items_mut(&mut volume["downwardAPI"], "items").iter_mut().for_each(field_ref);
    }
    if has(volume, "projected") {
        for source in items_mut(&mut volume["projected"], "sources") {
            if has(source, "downwardAPI") {
                items_mut(&mut source["downwardAPI"], "items").iter_mut().for_each(field_ref);
            }
            if has(source, "serviceAccountToken") {
                default(&mut source["serviceAccountToken"], "expirationSeconds", 3600);
            }
        }
    }
    if has(volume, "ephemeral") && has(&volume["ephemeral"], "volumeClaimTemplate") {
        default(&mut volume["ephemeral"]["volumeClaimTemplate"]["spec"], "volumeMode", "Filesystem");
    }
}

/// Defaults of the sources that volumes of pods and of the cluster have in common.
pub(in crate::registry::kinds) fn shared_sources(volume: &mut Value) {
    if has(volume, "hostPath") {
        default(&mut volume["hostPath"], "type", "");
    }
    if has(volume, "iscsi") {
        default(&mut volume["iscsi"], "iscsiInterface", "default");
    }
    if has(volume, "rbd") {
        for (key, value) in [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")] {
            default(&mut volume["rbd"], key, value);
        }
    }
    for (key, fields) in [
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")][..]),
        ("azureDisk", &[("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")]),
    ] {
        if has(volume, key) {
            fields.iter().for_each(|(field, value)| default(&mut volume[key], field, *value));
        }
    }
    if has(volume, "azureDisk") {
        default(&mut volume["azureDisk"], "readOnly", false);
    }
}

fn field_ref(item: &mut Value) {
    if has(item, "fieldRef") {
        default(&mut item["fieldRef"], "apiVersion", "v1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_fixed_tag_are_always_pulled() {
        for image in ["nginx", "nginx:latest", "host:5000/nginx", "a/b:latest"] {
            assert!(always_pulled(image), "{image}");
        }
        for image in ["nginx:1", "host:5000/nginx:v1", "nginx@sha256:0", "nginx:1@sha256:0"] {
            assert!(!always_pulled(image), "{image}");
        }
    }

    #[test]
    fn a_volume_without_a_source_is_an_empty_directory() {
        let mut spec = json!({"containers": [], "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "c"}}]});
        super::spec(&mut spec, true);
        assert_eq!(spec["volumes"][0], json!({"name": "a", "emptyDir": {}}));
        assert_eq!(spec["volumes"][1]["configMap"]["defaultMode"], 420);
    }
}
