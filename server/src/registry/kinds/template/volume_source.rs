//! The rules of what a volume is made of.

use std::collections::HashSet;

use listwatch_proto::resource::Quantity;
use serde_json::Value;

use super::claim_template;
use super::downward::{VOLUME_FIELDS, field_ref, resource_ref};
use super::persistent_source::{iscsi_disk, storage_os_volume};
use super::spec::Context;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{entries, has, items, text};
use crate::registry::kinds::vocabulary::names;

/// The highest permissions: 0777.
const MODE_MAX: i64 = 0o777;
/// The sources in the order in which upstream looks at them; only the first is judged.
const ORDER: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
/// What must be said of a source, where nothing else is asked.
const REQUIRED: [(&str, &[&str]); 14] = [
    ("persistentVolumeClaim", &["claimName"]),
    ("glusterfs", &["endpoints", "path"]),
    ("rbd", &["image"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
];

/// Every fault of what a volume is made of.
pub(in crate::registry::kinds) fn validate(context: &Context<'_>, volume: &Value, path: &Path, faults: &mut Faults) {
    let mut first = true;
    for key in ORDER {
        let source = &volume[key];
        if source.is_null() {
            continue;
        }
        let at = path.child(key);
        if std::mem::replace(&mut first, false) {
            judge(context, key, source, &at, faults);
        } else {
            let slip = match key {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            faults.forbidden(&path.child(slip), "may not specify more than 1 volume type");
        }
    }
    if first {
        faults.required(path, "must specify a volume type");
    }
}

fn judge(context: &Context<'_>, key: &str, source: &Value, path: &Path, faults: &mut Faults) {
    // A slip of upstream that messages show.
    let path = if key == "gcePersistentDisk" { &path.parent().child("persistentDisk") } else { path };
    if let Some((_, keys)) = REQUIRED.iter().find(|(own, _)| *own == key) {
        required(source, keys, path, faults);
    }
    match key {
        "projected" => projected(context, source, path, faults),
        "image" => image(context, source, path, faults),
        "iscsi" => iscsi(source, path, faults),
        "csi" => csi(source, path, faults),
        "cinder" => secret_ref(source, path, faults),
        "storageos" => storage_os(source, path, faults),
        _ => plain(key, source, path, faults),
    }
}

/// What must be said of a source, and the rules that are the same in a volume of the cluster.
pub(in crate::registry::kinds) fn shared(key: &str, source: &Value, path: &Path, faults: &mut Faults) {
    if let Some((_, keys)) = REQUIRED.iter().find(|(own, _)| *own == key) {
        required(source, keys, path, faults);
    }
    plain(key, source, path, faults);
}

fn plain(key: &str, source: &Value, path: &Path, faults: &mut Faults) {
    match key {
        "emptyDir" if text(source, "sizeLimit").parse::<Quantity>().is_ok_and(Quantity::is_negative) => {
            faults.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        "hostPath" => host_path(source, path, faults),
        "gitRepo" => descending(text(source, "directory"), &path.child("directory"), faults),
        "gcePersistentDisk" | "awsElasticBlockStore" => partition(source, path, faults),
        "secret" => named_files(source, "secretName", path, faults),
        "configMap" => named_files(source, "name", path, faults),
        "nfs" => nfs(source, path, faults),
        "flocker" => flocker(source, path, faults),
        "rbd" | "cephfs" if items(source, "monitors").is_empty() => faults.required(&path.child("monitors"), ""),
        "quobyte" => quobyte(source, path, faults),
        "downwardAPI" => downward(source, path, faults),
        "fc" => fibre_channel(source, path, faults),
        "flexVolume" => reserved_options(source, path, faults),
        "azureDisk" => azure_disk(source, path, faults),
        "ephemeral" => claim_template::ephemeral(source, path, faults),
        _ => {}
    }
}

pub(in crate::registry::kinds) fn required(source: &Value, keys: &[&str], path: &Path, faults: &mut Faults) {
    for key in keys {
        if text(source, key).is_empty() {
            faults.required(&path.child(key), "");
        }
    }
}

pub(in crate::registry::kinds) fn secret_ref(source: &Value, path: &Path, faults: &mut Faults) {
    if has(source, "secretRef") && text(&source["secretRef"], "name").is_empty() {
        faults.required(&path.child("secretRef").child("name"), "");
    }
}

fn partition(source: &Value, path: &Path, faults: &mut Faults) {
    let partition = source["partition"].as_i64().unwrap_or(0);
    if !(0..=255).contains(&partition) {
        faults.invalid(&path.child("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

fn nfs(source: &Value, path: &Path, faults: &mut Faults) {
    required(source, &["server", "path"], path, faults);
    let at = text(source, "path");
    if !at.starts_with('/') {
        faults.invalid(&path.child("path"), at, "must be an absolute path");
    }
}

fn iscsi(source: &Value, path: &Path, faults: &mut Faults) {
    required(source, &["targetPortal", "iqn"], path, faults);
    let name = text(source, "iqn");
    if !name.is_empty() {
        initiator(name, &path.child("iqn"), faults);
    }
    iscsi_disk(source, path, faults);
    if let Some(name) = source["initiatorName"].as_str() {
        initiator(name, &path.child("initiatorname"), faults);
    }
}

/// The name of an end of an iSCSI session.
fn initiator(name: &str, path: &Path, faults: &mut Faults) {
    let alphanumeric =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let fits = match name.get(..3) {
        Some("iqn") => qualified_initiator(name),
        Some("eui") => name.get(4..).is_some_and(|rest| alphanumeric(rest, 16)),
        Some("naa") => name.get(4..).is_some_and(|rest| alphanumeric(rest, 32)),
        _ => {
            faults.invalid(path, name, "must be valid format starting with iqn, eui, or naa");
            return;
        }
    };
    if !fits {
        faults.invalid(path, name, "must be valid format");
    }
}

/// `iqn.2001-04.com.example:storage`.
pub(in crate::registry::kinds) fn qualified_initiator(name: &str) -> bool {
    let digits = |text: Option<&str>| text.is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
    let Some((authority, target)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let dated = digits(authority.get(..4)) && authority.get(4..5) == Some("-") && digits(authority.get(5..7));
    let domain = authority.get(7..).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    let in_domain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let in_target = |c: char| !c.is_whitespace() && !",;*&$|".contains(c);
    dated && !domain.is_empty() && domain.bytes().all(in_domain) && !target.is_empty() && target.chars().all(in_target)
}

fn flocker(source: &Value, path: &Path, faults: &mut Faults) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => faults.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            faults.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        _ => {}
    }
    if name.contains('/') {
        faults.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

fn quobyte(source: &Value, path: &Path, faults: &mut Faults) {
    const WHY: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        faults.required(&path.child("registry"), WHY);
    } else if text(source, "tenant").len() >= 65 {
        faults.required(&path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.split(',') {
            let bracketed = pair.starts_with('[') && pair.contains("]:");
            if !bracketed && pair.matches(':').count() != 1 {
                faults.invalid(&path.child("registry"), registry, WHY);
            }
        }
    }
    required(source, &["volume"], path, faults);
}

fn fibre_channel(source: &Value, path: &Path, faults: &mut Faults) {
    let (names, ids) = (items(source, "targetWWNs"), items(source, "wwids"));
    let at = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        faults.required(&at, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        faults.invalid(&at, &source["targetWWNs"], "targetWWNs and wwids can not be specified simultaneously");
    }
    if !names.is_empty() {
        match source["lun"].as_i64() {
            None => faults.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) if !(0..=255).contains(&lun) => {
                faults.invalid(&path.child("lun"), lun, "must be between 0 and 255, inclusive");
            }
            Some(_) => {}
        }
    }
}

fn reserved_options(source: &Value, path: &Path, faults: &mut Faults) {
    for (key, _) in entries(&source["options"]) {
        let domain = key.split_once('/').map_or(key.as_str(), |(domain, _)| domain);
        let dotted = format!(".{}", domain.to_lowercase());
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            faults.invalid(&path.child("options").key(key), key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn azure_disk(source: &Value, path: &Path, faults: &mut Faults) {
    const KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
    const CACHING: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
    for (key, allowed) in [("cachingMode", CACHING), ("kind", KINDS)] {
        if let Some(word) = source[key].as_str().filter(|word| !allowed.contains(word)) {
            faults.not_supported(&path.child(key), word, &allowed);
        }
    }
    let (kind, at) = (source["kind"].as_str(), text(source, "diskURI"));
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    if kind == Some("Managed") && !at.starts_with("/subscriptions/") {
        faults.not_supported(&path.child("diskURI"), at, &[MANAGED]);
    }
    if kind.is_some_and(|kind| kind != "Managed") && !at.starts_with("https://") {
        faults.not_supported(&path.child("diskURI"), at, &[BLOB]);
    }
}

fn storage_os(source: &Value, path: &Path, faults: &mut Faults) {
    storage_os_volume(source, path, faults);
    secret_ref(source, path, faults);
}

fn csi(source: &Value, path: &Path, faults: &mut Faults) {
    let driver = text(source, "driver");
    let at = path.child("driver");
    if driver.is_empty() {
        faults.required(&at, "");
    } else {
        if driver.len() > 63 {
            faults.too_long(&at, 63);
        }
        faults.invalid_all(&at, driver, names::subdomain(&driver.to_lowercase(), false));
    }
    if has(source, "nodePublishSecretRef") {
        let name = text(&source["nodePublishSecretRef"], "name");
        if name.is_empty() {
            faults.required(&path.child("nodePublishSecretRef").child("name"), "");
        } else {
            faults.invalid_all(&path.child("name"), name, names::subdomain(name, false));
        }
    }
}

fn image(context: &Context<'_>, source: &Value, path: &Path, faults: &mut Faults) {
    if context.is_pod && text(source, "reference").is_empty() {
        faults.required(&path.child("reference"), "");
    }
    let policy = text(source, "pullPolicy");
    match policy {
        "" => faults.required(&path.child("pullPolicy"), ""),
        "Always" | "IfNotPresent" | "Never" => {}
        _ => faults.not_supported(&path.child("pullPolicy"), policy, &["Always", "IfNotPresent", "Never"]),
    }
}

fn host_path(source: &Value, path: &Path, faults: &mut Faults) {
    let at = text(source, "path");
    if at.is_empty() {
        faults.required(&path.child("path"), "");
        return;
    }
    no_backsteps(at, &path.child("path"), faults);
    let kinds = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = text(source, "type");
    if !kinds.contains(&kind) {
        faults.not_supported(&path.child("type"), kind, &kinds);
    }
}

/// A path must not climb.
pub(in crate::registry::kinds) fn no_backsteps(at: &str, path: &Path, faults: &mut Faults) {
    if at.split('/').any(|part| part == "..") {
        faults.invalid(path, at, "must not contain '..'");
    }
}

/// A path below a directory.
pub(in crate::registry::kinds) fn descending(at: &str, path: &Path, faults: &mut Faults) {
    if at.starts_with('/') {
        faults.invalid(path, at, "must be a relative path");
    }
    no_backsteps(at, path, faults);
}

/// A path below a volume, whose names that begin with two dots are its own.
fn local(at: &str, path: &Path, faults: &mut Faults) {
    descending(at, path, faults);
    if at.starts_with("..") && !at.starts_with("../") {
        faults.invalid(path, at, "must not start with '..'");
    }
}

fn mode(value: &Value, path: &Path, faults: &mut Faults) {
    if let Some(mode) = value.as_i64().filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        faults.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn named_files(source: &Value, name: &str, path: &Path, faults: &mut Faults) {
    if text(source, name).is_empty() {
        faults.required(&path.child(name), "");
    }
    mode(&source["defaultMode"], &path.child("defaultMode"), faults);
    for (i, item) in items(source, "items").iter().enumerate() {
        file(item, &path.child("items").index(i), faults);
    }
}

fn file(item: &Value, path: &Path, faults: &mut Faults) {
    required(item, &["key", "path"], path, faults);
    local(text(item, "path"), &path.child("path"), faults);
    mode(&item["mode"], &path.child("mode"), faults);
}

fn downward(source: &Value, path: &Path, faults: &mut Faults) {
    mode(&source["defaultMode"], &path.child("defaultMode"), faults);
    // Upstream names the files without their index.
    for item in items(source, "items") {
        downward_file(item, path, faults);
    }
}

fn downward_file(item: &Value, path: &Path, faults: &mut Faults) {
    required(item, &["path"], path, faults);
    local(text(item, "path"), &path.child("path"), faults);
    match (has(item, "fieldRef"), has(item, "resourceFieldRef")) {
        (true, both) => {
            field_ref(&item["fieldRef"], &VOLUME_FIELDS, &path.child("fieldRef"), faults);
            if both {
                faults.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
        }
        (false, true) => resource_ref(&item["resourceFieldRef"], true, &path.child("resourceFieldRef"), faults),
        (false, false) => faults.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(&item["mode"], &path.child("mode"), faults);
}

fn projected(context: &Context<'_>, source: &Value, path: &Path, faults: &mut Faults) {
    mode(&source["defaultMode"], &path.child("defaultMode"), faults);
    let mut taken = HashSet::new();
    for (i, source) in items(source, "sources").iter().enumerate() {
        let at = path.child("sources").index(i);
        let kinds =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        let sources = kinds.iter().filter(|key| has(source, key)).count();
        for key in ["secret", "configMap"] {
            let own = &source[key];
            if own.is_null() {
                continue;
            }
            let at = at.child(key);
            required(own, &["name"], &at, faults);
            for (j, item) in items(own, "items").iter().enumerate() {
                file(item, &at.child("items").index(j), faults);
                let name = text(item, "path");
                if !name.is_empty() && !taken.insert(name) {
                    faults.invalid(path, text(own, "name"), "conflicting duplicate paths");
                }
            }
        }
        for item in items(&source["downwardAPI"], "items") {
            downward_file(item, &at.child("downwardAPI"), faults);
            let name = text(item, "path");
            if !name.is_empty() && !taken.insert(name) {
                faults.invalid(path, name, "conflicting duplicate paths");
            }
        }
        if has(source, "serviceAccountToken") {
            token(context, &source["serviceAccountToken"], path, &at.child("serviceAccountToken"), faults);
        }
        if has(source, "clusterTrustBundle") || has(source, "podCertificate") {
            certificates(source, &at, faults);
        }
        if sources > 1 {
            faults.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

fn token(context: &Context<'_>, token: &Value, volume: &Path, path: &Path, faults: &mut Faults) {
    let seconds = token["expirationSeconds"].as_i64().unwrap_or(0);
    if seconds < 600 {
        let why = "may not specify a duration less than 10 minutes";
        faults.invalid(&path.child("expirationSeconds"), seconds, why);
    }
    if seconds > 1 << 32 {
        let why = "may not specify a duration larger than 2^32 seconds";
        faults.invalid(&path.child("expirationSeconds"), seconds, why);
    }
    // Upstream names the path as one of the volume.
    match text(token, "path") {
        "" => faults.required(&volume.child("path"), ""),
        at => local(at, &volume.child("path"), faults),
    }
    if context.is_pod && text(context.spec, "serviceAccountName").is_empty() {
        faults.forbidden(path, "must not be specified when serviceAccountName is not set");
    }
}

/// What needs kinds that are not served: only what can be judged without them is.
fn certificates(source: &Value, path: &Path, faults: &mut Faults) {
    let bundle = &source["clusterTrustBundle"];
    if has(bundle, "name") && has(bundle, "signerName") {
        let shown = Shown(bundle.to_string());
        faults.invalid(&path.child("clusterTrustBundle"), shown, "only one of name and signerName may be used");
    }
    let certificate = &source["podCertificate"];
    if certificate.is_object() {
        let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
        let path = path.child("podCertificate");
        let kind = text(certificate, "keyType");
        if !kinds.contains(&kind) {
            faults.not_supported(&path.child("keyType"), kind, &kinds);
        }
        let places = ["credentialBundlePath", "keyPath", "certificateChainPath"];
        for key in places {
            local(text(certificate, key), &path.child(key), faults);
        }
        if places.iter().all(|key| text(certificate, key).is_empty()) {
            let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
            faults.required(&path, why);
        }
    }
}
