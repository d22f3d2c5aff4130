//! The rules of volumes' names and of what mounts them.

use std::collections::{HashMap, HashSet};

use listwatch_proto::go_quote::quote;
use serde_json::Value;

use super::spec::Context;
use super::volume_source;
use super::volume_source::descending;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::names;

/// Every fault of the volumes of a spec. The answer is the names of those without a fault, which alone can be mounted.
pub(in crate::registry::kinds) fn validate<'a>(
    context: &Context<'a>,
    path: &Path,
    faults: &mut Faults,
) -> HashSet<&'a str> {
    let spec = context.spec;
    let claim = |name: &str| format!("{}-{name}", context.pod_name);
    let named = !context.pod_name.is_empty();
    let made: HashSet<String> = items(spec, "volumes")
        .iter()
        .filter(|v| named && has(v, "ephemeral"))
        .map(|v| claim(text(v, "name")))
        .collect();
    let mut good = HashSet::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        let name = text(volume, "name");
        let before = faults.len();
        volume_source::validate(context, volume, &path, faults);
        if named && !name.is_empty() && has(volume, "ephemeral") {
            let claim = claim(name);
            for why in names::subdomain(&claim, false) {
                faults.invalid(&path.child("name"), name, &format!("PVC name {claim}: {why}", claim = quote(&claim)));
            }
        }
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        } else {
            faults.invalid_all(&path.child("name"), name, names::label(name, false));
        }
        if good.contains(name) {
            faults.duplicate(&path.child("name"), name);
        }
        if faults.len() == before {
            good.insert(name);
        }
        let source = &volume["persistentVolumeClaim"];
        if source.is_object() && made.contains(text(source, "claimName")) {
            let at = path.child("persistentVolumeClaim").child("claimName");
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            faults.invalid(&at, text(source, "claimName"), why);
        }
    }
    good
}

/// Every fault of a container's mounts and devices.
pub(in crate::registry::kinds) fn mounts(context: &Context<'_>, container: &Value, path: &Path, faults: &mut Faults) {
    let volumes = &context.volumes;
    let pairs = |key: &str, at: &'static str| -> HashMap<&str, &str> {
        items(container, key).iter().map(|entry| (text(entry, "name"), text(entry, at))).collect()
    };
    let (devices, mounted) = (pairs("volumeDevices", "devicePath"), pairs("volumeMounts", "mountPath"));
    let mut seen = HashSet::new();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let all = path.child("volumeMounts");
        let path = all.index(i);
        let (name, at) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        }
        if !volumes.contains(name) {
            faults.not_found(&path.child("name"), name);
        }
        if at.is_empty() {
            faults.required(&path.child("mountPath"), "");
        }
        if !seen.insert(at) {
            faults.invalid(&path.child("mountPath"), at, "must be unique");
        }
        if devices.contains_key(name) {
            faults.invalid(&path.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.values().any(|device| *device == at) {
            faults.invalid(&path.child("mountPath"), at, "must not already exist as a path in volumeDevices");
        }
        sub_path(mount, &path, &all, faults);
        propagation(container, mount, &all, faults);
    }
    let mut taken = Devices::default();
    for (i, device) in items(container, "volumeDevices").iter().enumerate() {
        let path = path.child("volumeDevices").index(i);
        taken.device(context, device, &mounted, &path, faults);
    }
}

/// Upstream names what is below a path without the index.
fn sub_path<'a>(mount: &'a Value, path: &Path, all: &Path, faults: &mut Faults) {
    let (plain, expanded): (&'a str, &'a str) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !plain.is_empty() {
        descending(plain, &all.child("subPath"), faults);
    }
    if !expanded.is_empty() {
        if !plain.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            faults.invalid(&path.child("subPathExpr"), expanded, why);
        }
        descending(expanded, &all.child("subPathExpr"), faults);
    }
}

fn propagation(container: &Value, mount: &Value, path: &Path, faults: &mut Faults) {
    let mode = mount["mountPropagation"].as_str();
    match mode {
        None | Some("None" | "HostToContainer") => {}
        Some("Bidirectional") => {
            if container["securityContext"]["privileged"] != true {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                faults.forbidden(&path.child("mountPropagation"), why);
            }
        }
        Some(other) => {
            let supported = ["Bidirectional", "HostToContainer", "None"];
            faults.not_supported(&path.child("mountPropagation"), other, &supported);
        }
    }
    let Some(recursive) = mount["recursiveReadOnly"].as_str() else { return };
    let path = path.child("recursiveReadOnly");
    match recursive {
        "Disabled" => {}
        "IfPossible" | "Enabled" => {
            if mount["readOnly"] != true {
                faults.forbidden(&path, "may only be specified when readOnly is true");
            }
            if mode.is_some_and(|mode| mode != "None") {
                faults.forbidden(&path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        other => faults.not_supported(&path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// The devices seen so far.
#[derive(Default)]
struct Devices<'a> {
    names: HashSet<&'a str>,
    paths: HashSet<&'a str>,
}

impl<'a> Devices<'a> {
    fn device(
        &mut self,
        context: &Context<'_>,
        device: &'a Value,
        mounted: &HashMap<&str, &str>,
        path: &Path,
        faults: &mut Faults,
    ) {
        let (name, at) = (text(device, "name"), text(device, "devicePath"));
        let (names, places) = (path.child("name"), path.child("devicePath"));
        if name.is_empty() {
            faults.required(&names, "");
        }
        if self.names.contains(name) {
            faults.invalid(&names, name, "must be unique");
        }
        let known = context.volumes.contains(name);
        let volume = items(context.spec, "volumes").iter().find(|v| text(v, "name") == name).filter(|_| known);
        if volume.is_some_and(|v| !has(v, "persistentVolumeClaim") && !has(v, "ephemeral")) {
            let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            faults.invalid(&names, name, why);
        }
        if !known {
            faults.not_found(&names, name);
        }
        if at.is_empty() {
            faults.required(&places, "");
        }
        if self.paths.contains(at) {
            faults.invalid(&places, at, "must be unique");
        }
        if at.split('/').any(|part| part == "..") {
            faults.invalid(&places, at, "can not contain backsteps ('..')");
        } else {
            self.paths.insert(at);
        }
        if mounted.contains_key(name) {
            faults.invalid(&names, name, "must not already exist in volumeMounts");
        }
        if mounted.values().any(|mount| *mount == at) {
            faults.invalid(&places, at, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            self.names.insert(name);
        }
    }
}
