//! Whom a binding gives its role (Kubernetes 1.36, `rbac/validation`).

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::role_ref::GROUP;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items_mut, text};
use crate::registry::kinds::vocabulary::{names, print};
use crate::registry::table::Cell;

/// Users and groups that name no API group are of the one there is.
pub(super) fn default(binding: &mut Object) {
    let mut root = Value::Object(std::mem::take(&mut binding.0));
    for subject in items_mut(&mut root, "subjects") {
        if text(subject, "apiGroup").is_empty() && matches!(text(subject, "kind"), "User" | "Group") {
            subject["apiGroup"] = GROUP.into();
        }
    }
    if let Value::Object(map) = root {
        binding.0 = map;
    }
}

/// Every fault of `subjects`. A binding of a namespace may leave out that of a service account.
pub(super) fn validate(binding: &Object, namespaced: bool, faults: &mut Faults) {
    for (i, subject) in all(binding).iter().enumerate() {
        validate_one(subject, namespaced, &Path::new("subjects").index(i), faults);
    }
}

fn validate_one(subject: &Value, namespaced: bool, path: &Path, faults: &mut Faults) {
    let (kind, name, group) = (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        faults.required(&path.child("name"), "");
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                faults.invalid_all(&path.child("name"), name, names::subdomain(name, false));
            }
            if !group.is_empty() {
                faults.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                faults.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                faults.not_supported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => faults.not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

fn all(binding: &Object) -> &[Value] {
    binding.at(&["subjects"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Users, groups and service accounts, each joined by commas.
pub(super) fn cells(binding: &Object) -> [Cell; 3] {
    ["User", "Group", "ServiceAccount"].map(|kind| {
        let own = all(binding).iter().filter(|subject| text(subject, "kind") == kind);
        let shown: Vec<String> = own
            .map(|subject| match (kind, text(subject, "namespace"), text(subject, "name")) {
                ("ServiceAccount", namespace, name) if !namespace.is_empty() => format!("{namespace}/{name}"),
                (_, _, name) => name.to_owned(),
            })
            .collect();
        print::text(shown.join(", "))
    })
}
