//! The rules of volumes and of what mounts them.

use std::collections::HashSet;

use serde_json::Value;

use super::faults::{Faults, Path};
use super::fields::{has, items, text};
use super::names;
use super::pod_spec::Context;

/// What a downward volume may show of the pod.
const DOWNWARD: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The highest permissions: 0777.
const MODE_MAX: i64 = 0o777;

/// Every fault of the volumes of a spec. The answer is the names of those without a fault, which alone can be mounted.
pub(super) fn validate<'a>(spec: &'a Value, path: &Path, faults: &mut Faults) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    let mut good = HashSet::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        let name = text(volume, "name");
        let before = faults.len();
        source(volume, &path, faults);
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        } else {
            faults.invalid_all(&path.child("name"), name, names::label(name, false));
        }
        if !name.is_empty() && !seen.insert(name) {
            faults.duplicate(&path.child("name"), name);
        }
        if faults.len() == before {
            good.insert(name);
        }
    }
    good
}

fn source(volume: &Value, path: &Path, faults: &mut Faults) {
    let sources = volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
    let mut first = true;
    for (key, source) in sources {
        let path = path.child(key);
        if !std::mem::replace(&mut first, false) {
            faults.forbidden(&path, "may not specify more than 1 volume type");
            continue;
        }
        match key.as_str() {
            "emptyDir" if text(source, "sizeLimit").starts_with('-') => {
                faults.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
            "hostPath" => host_path(source, &path, faults),
            "configMap" => named_files(source, "name", &path, faults),
            "secret" => named_files(source, "secretName", &path, faults),
            "downwardAPI" => downward(source, &path, faults),
            "projected" => projected(source, &path, faults),
            "persistentVolumeClaim" => required(source, &["claimName"], &path, faults),
            "nfs" => required(source, &["server", "path"], &path, faults),
            "csi" => required(source, &["driver"], &path, faults),
            "iscsi" => iscsi(source, &path, faults),
            _ => {}
        }
    }
    if first {
        faults.required(path, "must specify a volume type");
    }
}

fn required(source: &Value, keys: &[&str], path: &Path, faults: &mut Faults) {
    for key in keys {
        if text(source, key).is_empty() {
            faults.required(&path.child(key), "");
        }
    }
}

fn iscsi(source: &Value, path: &Path, faults: &mut Faults) {
    required(source, &["targetPortal", "iqn"], path, faults);
    let lun = source["lun"].as_i64().unwrap_or(0);
    if !(0..=255).contains(&lun) {
        faults.invalid(&path.child("lun"), lun, "must be between 0 and 255, inclusive");
    }
}

fn host_path(source: &Value, path: &Path, faults: &mut Faults) {
    let at = text(source, "path");
    if at.is_empty() {
        faults.required(&path.child("path"), "");
        return;
    }
    no_backsteps(at, &path.child("path"), faults);
    let kinds = ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
    let kind = text(source, "type");
    if !kinds.contains(&kind) {
        let mut supported = kinds;
        supported.sort_unstable();
        faults.not_supported(&path.child("type"), kind, &supported);
    }
}

fn no_backsteps(at: &str, path: &Path, faults: &mut Faults) {
    if at.split('/').any(|part| part == "..") {
        faults.invalid(path, at, "must not contain '..'");
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
    files(source, path, faults);
}

fn files(source: &Value, path: &Path, faults: &mut Faults) {
    for (i, item) in items(source, "items").iter().enumerate() {
        let path = path.child("items").index(i);
        if text(item, "key").is_empty() {
            faults.required(&path.child("key"), "");
        }
        relative(text(item, "path"), &path.child("path"), faults);
        mode(&item["mode"], &path.child("mode"), faults);
    }
}

/// A path below the volume.
fn relative(at: &str, path: &Path, faults: &mut Faults) {
    if at.is_empty() {
        faults.required(path, "");
        return;
    }
    if at.starts_with('/') {
        faults.invalid(path, at, "must be a relative path");
    }
    no_backsteps(at, path, faults);
    if at.starts_with("..") && !at.split('/').any(|part| part == "..") {
        faults.invalid(path, at, "must not start with '..'");
    }
}

fn downward(source: &Value, path: &Path, faults: &mut Faults) {
    mode(&source["defaultMode"], &path.child("defaultMode"), faults);
    for item in items(source, "items") {
        relative(text(item, "path"), &path.child("path"), faults);
        mode(&item["mode"], &path.child("mode"), faults);
        match (has(item, "fieldRef"), has(item, "resourceFieldRef")) {
            (true, true) => {
                faults.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
            (false, false) => faults.required(path, "one of fieldRef and resourceFieldRef is required"),
            (true, false) => {
                let field = text(&item["fieldRef"], "fieldPath");
                let path = path.child("fieldRef").child("fieldPath");
                let bare = field.split('[').next().unwrap_or(field);
                if field.is_empty() {
                    faults.required(&path, "");
                } else if !DOWNWARD.contains(&bare) {
                    faults.not_supported(&path, field, &DOWNWARD);
                }
            }
            (false, true) => {
                if text(&item["resourceFieldRef"], "containerName").is_empty() {
                    faults.required(&path.child("resourceFieldRef").child("containerName"), "");
                }
            }
        }
    }
}

fn projected(source: &Value, path: &Path, faults: &mut Faults) {
    mode(&source["defaultMode"], &path.child("defaultMode"), faults);
    for (i, source) in items(source, "sources").iter().enumerate() {
        let path = path.child("sources").index(i);
        for key in ["secret", "configMap"] {
            if !has(source, key) {
                continue;
            }
            let path = path.child(key);
            if text(&source[key], "name").is_empty() {
                faults.required(&path.child("name"), "");
            }
            files(&source[key], &path, faults);
        }
        if has(source, "downwardAPI") {
            downward(&source["downwardAPI"], &path.child("downwardAPI"), faults);
        }
        let token = &source["serviceAccountToken"];
        if token.is_object() {
            let path = path.child("serviceAccountToken");
            let seconds = token["expirationSeconds"].as_i64().unwrap_or(0);
            if seconds < 600 {
                let why = "may not specify a duration less than 10 minutes";
                faults.invalid(&path.child("expirationSeconds"), seconds, why);
            }
            if text(token, "path").is_empty() {
                faults.required(&path.child("path"), "");
            }
        }
    }
}

/// Every fault of a container's mounts and devices.
pub(super) fn mounts(context: &Context<'_>, container: &Value, path: &Path, faults: &mut Faults) {
    let (spec, volumes) = (context.spec, &context.volumes);
    let devices: HashSet<&str> = items(container, "volumeDevices").iter().map(|d| text(d, "name")).collect();
    let mounted: HashSet<&str> = items(container, "volumeMounts").iter().map(|m| text(m, "name")).collect();
    let mut seen = HashSet::new();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let all = path.child("volumeMounts");
        let path = all.index(i);
        let (name, at) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        }
        if at.is_empty() {
            faults.required(&path.child("mountPath"), "");
        }
        if !volumes.contains(name) {
            faults.not_found(&path.child("name"), name);
        }
        if !seen.insert(at) && !at.is_empty() {
            faults.invalid(&path.child("mountPath"), at, "must be unique");
        }
        if devices.contains(name) {
            faults.invalid(&path.child("name"), name, "must not already exist in volumeDevices");
        }
        // Upstream names these three without the index.
        let sub_path = text(mount, "subPath");
        if !sub_path.is_empty() {
            relative(sub_path, &all.child("subPath"), faults);
        }
        propagation(container, mount, &all, faults);
    }
    for (i, device) in items(container, "volumeDevices").iter().enumerate() {
        let path = path.child("volumeDevices").index(i);
        block_device(spec, device, &mounted, volumes, &path, faults);
    }
}

fn propagation(container: &Value, mount: &Value, path: &Path, faults: &mut Faults) {
    match text(mount, "mountPropagation") {
        "" | "None" | "HostToContainer" => {}
        "Bidirectional" => {
            if container["securityContext"]["privileged"] != true {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                faults.forbidden(&path.child("mountPropagation"), why);
            }
        }
        other => {
            let supported = ["Bidirectional", "HostToContainer", "None"];
            faults.not_supported(&path.child("mountPropagation"), other, &supported);
        }
    }
    let recursive = text(mount, "recursiveReadOnly");
    if matches!(recursive, "IfPossible" | "Enabled") && mount["readOnly"] != true {
        faults.forbidden(&path.child("recursiveReadOnly"), "may only be specified when readOnly is true");
    } else if !matches!(recursive, "" | "Disabled" | "IfPossible" | "Enabled") {
        let supported = ["Disabled", "Enabled", "IfPossible"];
        faults.not_supported(&path.child("recursiveReadOnly"), recursive, &supported);
    }
}

fn block_device(
    spec: &Value,
    device: &Value,
    mounted: &HashSet<&str>,
    volumes: &HashSet<&str>,
    path: &Path,
    faults: &mut Faults,
) {
    let (name, at) = (text(device, "name"), text(device, "devicePath"));
    if name.is_empty() {
        faults.required(&path.child("name"), "");
    }
    if at.is_empty() {
        faults.required(&path.child("devicePath"), "");
    }
    let volume = items(spec, "volumes").iter().find(|v| text(v, "name") == name);
    if let Some(volume) = volume
        && !has(volume, "persistentVolumeClaim")
        && !has(volume, "ephemeral")
    {
        let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
        faults.invalid(&path.child("name"), name, why);
    }
    if !volumes.contains(name) {
        faults.not_found(&path.child("name"), name);
    }
    if mounted.contains(name) {
        faults.invalid(&path.child("name"), name, "must not already exist in volumeMounts");
    }
}
