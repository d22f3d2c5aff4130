//! The rules of a container's environment.

use serde_json::Value;

use super::downward::{VARIABLE_FIELDS, field_ref, resource_ref};
use super::volume_source::no_backsteps;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::names;

/// Every fault of `env` and `envFrom`.
pub(in crate::registry::kinds) fn validate(container: &Value, path: &Path, faults: &mut Faults) {
    for (i, variable) in items(container, "env").iter().enumerate() {
        let path = path.child("env").index(i);
        let name = text(variable, "name");
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        } else {
            faults.invalid_all(&path.child("name"), name, names::env_var(name));
        }
        if has(variable, "valueFrom") {
            source(variable, &path.child("valueFrom"), faults);
        }
    }
    for (i, from) in items(container, "envFrom").iter().enumerate() {
        env_from(from, &path.child("envFrom").index(i), &path.child("envFrom"), faults);
    }
}

fn source(variable: &Value, path: &Path, faults: &mut Faults) {
    let from = &variable["valueFrom"];
    let mut sources = 0;
    for (key, rule) in [
        ("fieldRef", pod_field as fn(&Value, &Path, &mut Faults)),
        ("resourceFieldRef", container_resource),
        ("configMapKeyRef", key_ref),
        ("secretKeyRef", key_ref),
        ("fileKeyRef", file_ref),
    ] {
        if has(from, key) {
            sources += 1;
            rule(&from[key], &path.child(key), faults);
        }
    }
    if sources == 0 {
        faults.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    }
    if !text(variable, "value").is_empty() && sources > 0 {
        faults.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        faults.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn pod_field(reference: &Value, path: &Path, faults: &mut Faults) {
    field_ref(reference, &VARIABLE_FIELDS, path, faults);
}

fn container_resource(reference: &Value, path: &Path, faults: &mut Faults) {
    resource_ref(reference, false, path, faults);
}

fn key_ref(reference: &Value, path: &Path, faults: &mut Faults) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    faults.invalid_all(&path.child("name"), name, names::subdomain(name, false));
    if key.is_empty() {
        faults.required(&path.child("key"), "");
    } else {
        faults.invalid_all(&path.child("key"), key, names::config_key(key));
    }
}

fn file_ref(reference: &Value, path: &Path, faults: &mut Faults) {
    let (key, volume, at) = (text(reference, "key"), text(reference, "volumeName"), text(reference, "path"));
    for (name, value, rule) in [
        ("key", key, names::env_var as fn(&str) -> Vec<String>),
        ("volumeName", volume, |name| names::label(name, false)),
    ] {
        if value.is_empty() {
            faults.required(&path.child(name), "");
        } else {
            faults.invalid_all(&path.child(name), value, rule(value));
        }
    }
    if at.is_empty() {
        faults.required(&path.child("path"), "");
    } else {
        no_backsteps(at, &path.child("path"), faults);
    }
}

fn env_from(from: &Value, path: &Path, all: &Path, faults: &mut Faults) {
    let prefix = text(from, "prefix");
    if !prefix.is_empty() {
        faults.invalid_all(&path.child("prefix"), prefix, names::env_var(prefix));
    }
    let mut sources = 0;
    for key in ["configMapRef", "secretRef"] {
        if !has(from, key) {
            continue;
        }
        sources += 1;
        let name = text(&from[key], "name");
        if name.is_empty() {
            faults.required(&path.child(key).child("name"), "");
        } else {
            faults.invalid_all(&path.child(key).child("name"), name, names::subdomain(name, false));
        }
    }
    match sources {
        0 => faults.invalid(all, "", "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => faults.invalid(all, "", "may not have more than one field specified at a time"),
    }
}
