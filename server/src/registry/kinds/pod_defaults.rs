//! What a pod's spec gets where it says nothing (Kubernetes 1.36 `SetDefaults_*`).

use listwatch_proto::resource::requests::PodResources;
use serde_json::{Map, Value, json};

use super::fields::{default, has, items_mut, text};

/// Permissions of projected files: 0644.
const FILE_MODE: i64 = 420;

/// A pod template.
pub(super) fn template(template: &mut Value) {
    if template["spec"].is_object() {
        spec(&mut template["spec"], false);
    }
}

/// A pod's spec; a pod's own gets its requests from its limits, a template's is left for the pod to come.
pub(super) fn spec(spec: &mut Value, own: bool) {
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

/// Whether an image without a policy is always pulled: its tag is `latest` or missing, and it has no digest.
fn always_pulled(image: &str) -> bool {
    if image.is_empty() {
        return false;
    }
    let (rest, digest) = image.split_once('@').map_or((image, false), |(rest, _)| (rest, true));
    let last = rest.rsplit('/').next().unwrap_or(rest);
    match last.rsplit_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest,
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

/// A pod that sets resources for itself as a whole requests what it limits.
fn pod_resources(spec: &mut Value) {
    let containers = PodResources::of_spec(spec).map(|p| p.containers).unwrap_or_default();
    let limits = spec["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (name, amount) in limits {
        if !has(&spec["resources"]["requests"], &name) {
            // What the containers ask for together, if they all say; the limit otherwise.
            let asked: Vec<_> = containers.iter().filter_map(|c| c.resources.requests.get(&name).copied()).collect();
            let total: listwatch_proto::resource::Quantity = asked.iter().copied().sum();
            let complete = !asked.is_empty() && asked.len() == containers.len();
            let value = if complete { json!(total.to_string()) } else { amount };
            if !spec["resources"]["requests"].is_object() {
                spec["resources"]["requests"] = json!({});
            }
            spec["resources"]["requests"][&name] = value;
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
