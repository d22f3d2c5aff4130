//! The rules of what a volume of the cluster is made of (Kubernetes 1.36). Where they differ from those of a pod's volume
//! they stand here.

use serde_json::{Map, Value};

use super::volume_source::{no_backsteps, qualified_initiator, required, shared};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::names;

/// The sources in the order in which upstream looks at them; only the first is judged.
pub(in crate::registry::kinds) const ORDER: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Every fault of the source of a volume of that name. `placed`: it says on which nodes it can be reached.
pub(in crate::registry::kinds) fn validate(spec: &Value, name: &str, placed: bool, path: &Path, faults: &mut Faults) {
    let mut found = 0;
    for key in ORDER.into_iter().filter(|key| has(spec, key)) {
        // A flexible volume is never one too many; upstream forgot to look.
        if found > 0 && key != "flexVolume" {
            let shown = if key == "cephfs" { "cephFS" } else { key };
            faults.forbidden(&path.child(shown), "may not specify more than 1 volume type");
            continue;
        }
        found += 1;
        // A slip of upstream that messages show.
        let at = path.child(if key == "gcePersistentDisk" { "persistentDisk" } else { key });
        judge(key, &spec[key], name, &at, faults);
        if key == "local" && !placed {
            faults.required(&path.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if found == 0 {
        faults.required(path, "must specify a volume type");
    }
}

/// The source alone, for comparison.
pub(in crate::registry::kinds) fn of(spec: &Value) -> Value {
    let fields = ORDER.iter().filter(|key| has(spec, key)).map(|key| ((*key).to_owned(), spec[*key].clone()));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn judge(key: &str, source: &Value, name: &str, path: &Path, faults: &mut Faults) {
    match key {
        "glusterfs" => glusterfs(source, path, faults),
        "rbd" => {
            if items(source, "monitors").is_empty() {
                faults.required(&path.child("monitors"), "");
            }
            required(source, &["image"], path, faults);
        }
        "iscsi" => iscsi(source, name, path, faults),
        "cinder" => {
            required(source, &["volumeID"], path, faults);
            far_secret(source, path, faults);
        }
        "azureFile" => {
            required(source, &["secretName", "shareName"], path, faults);
            if source["secretNamespace"].as_str() == Some("") {
                faults.required(&path.child("secretNamespace"), "");
            }
        }
        "local" => {
            let at = text(source, "path");
            if at.is_empty() {
                faults.required(&path.child("path"), "");
            } else {
                no_backsteps(at, &path.child("path"), faults);
            }
        }
        "storageos" => storage_os(source, path, faults),
        "csi" => csi(source, path, faults),
        _ => shared(key, source, path, faults),
    }
}

fn glusterfs(source: &Value, path: &Path, faults: &mut Faults) {
    required(source, &["endpoints", "path"], path, faults);
    let at = path.child("endpointsNamespace");
    match source["endpointsNamespace"].as_str() {
        None => {}
        Some("") => faults.invalid(&at, "", "if the endpointnamespace is set, it must be a valid namespace name"),
        Some(namespace) => faults.invalid_all(&at, namespace, names::label(namespace, false)),
    }
}

/// Which disk of an iSCSI target it is, and that there is a secret where one is asked for.
pub(super) fn iscsi_disk(source: &Value, path: &Path, faults: &mut Faults) {
    let lun = source["lun"].as_i64().unwrap_or(0);
    if !(0..=255).contains(&lun) {
        faults.invalid(&path.child("lun"), lun, "must be between 0 and 255, inclusive");
    }
    let authenticates = source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true;
    if authenticates && !has(source, "secretRef") {
        faults.required(&path.child("secretRef"), "");
    }
}

fn iscsi(source: &Value, name: &str, path: &Path, faults: &mut Faults) {
    let portal = text(source, "targetPortal");
    required(source, &["targetPortal"], path, faults);
    let initiator_name = source["initiatorName"].as_str();
    if initiator_name.is_some() && name.len() + 1 + portal.len() > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                   iscsi.initiatorName is specified.";
        faults.invalid(&path.child("targetportal"), portal, why);
    }
    let iqn = text(source, "iqn");
    if iqn.is_empty() {
        faults.required(&path.child("iqn"), "");
    } else {
        initiator(iqn, &path.child("iqn"), faults);
    }
    iscsi_disk(source, path, faults);
    if has(source, "secretRef") {
        required(&source["secretRef"], &["name"], &path.child("secretRef"), faults);
    }
    if let Some(name) = initiator_name {
        initiator(name, &path.child("initiatorname"), faults);
    }
}

/// The name of an end of an iSCSI session.
fn initiator(name: &str, path: &Path, faults: &mut Faults) {
    let long = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let fits = match name.get(..3) {
        Some("iqn") => qualified_initiator(name),
        Some("eui") => name.get(4..).is_some_and(|rest| long(rest, 16)),
        Some("naa") => name.get(4..).is_some_and(|rest| long(rest, 32)),
        _ => false,
    };
    if !fits {
        faults.invalid(path, name, "must be valid format");
    }
}

/// A secret of any namespace, if one is named.
fn far_secret(source: &Value, path: &Path, faults: &mut Faults) {
    if has(source, "secretRef") {
        required(&source["secretRef"], &["name", "namespace"], &path.child("secretRef"), faults);
    }
}

fn storage_os(source: &Value, path: &Path, faults: &mut Faults) {
    storage_os_volume(source, path, faults);
    far_secret(source, path, faults);
}

/// Which volume of StorageOS it is.
pub(super) fn storage_os_volume(source: &Value, path: &Path, faults: &mut Faults) {
    required(source, &["volumeName"], path, faults);
    for key in ["volumeName", "volumeNamespace"] {
        let name = text(source, key);
        if !name.is_empty() {
            faults.invalid_all(&path.child(key), name, names::label(name, false));
        }
    }
}

fn csi(source: &Value, path: &Path, faults: &mut Faults) {
    driver(text(source, "driver"), &path.child("driver"), faults);
    required(source, &["volumeHandle"], path, faults);
    for key in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let secret = &source[key];
        if secret.is_null() {
            continue;
        }
        let path = path.child(key);
        let (name, namespace) = (text(secret, "name"), text(secret, "namespace"));
        required(secret, &["name"], &path, faults);
        if !name.is_empty() {
            faults.invalid_all(&path.child("name"), name, names::subdomain(name, false));
        }
        required(secret, &["namespace"], &path, faults);
        if !namespace.is_empty() {
            faults.invalid_all(&path.child("namespace"), namespace, names::label(namespace, false));
        }
    }
}

/// The name of a driver of the Container Storage Interface.
pub(in crate::registry::kinds) fn driver(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.required(path, "");
        return;
    }
    if name.len() > 63 {
        faults.too_long(path, 63);
    }
    faults.invalid_all(path, name, names::subdomain(&name.to_lowercase(), false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(spec: Value, placed: bool) -> Vec<String> {
        let mut faults = Faults::new();
        validate(&spec, "pv", placed, &Path::new("spec"), &mut faults);
        faults.told()
    }

    #[test]
    fn one_source_is_judged_and_more_are_refused() {
        assert_eq!(told(json!({}), false), ["spec: Required value: must specify a volume type"]);
        assert!(told(json!({"hostPath": {"path": "/a"}}), false).is_empty());
        assert_eq!(
            told(json!({"hostPath": {"path": "/a"}, "cephfs": {}, "flexVolume": {}}), false),
            [
                "spec.cephFS: Forbidden: may not specify more than 1 volume type",
                "spec.flexVolume.driver: Required value",
            ]
        );
        assert_eq!(
            told(json!({"local": {"path": "/a/../b"}}), false),
            [
                "spec.local.path: Invalid value: \"/a/../b\": must not contain '..'",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ]
        );
        assert!(told(json!({"local": {"path": "/a"}}), true).is_empty());
        assert_eq!(told(json!({"csi": {"driver": "A_b", "nodePublishSecretRef": {"name": "s"}}}), false).len(), 3,);
    }
}
