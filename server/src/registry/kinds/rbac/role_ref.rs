//! Which role a binding gives (Kubernetes 1.36, `rbac/validation`).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::text;
use crate::registry::kinds::vocabulary::names;

/// The group that roles, users and groups are of.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// A reference that names no group means this one.
pub(super) fn default(binding: &mut Object) {
    if binding.text(&["roleRef", "apiGroup"]).is_empty() {
        binding.set(&["roleRef", "apiGroup"], GROUP);
    }
}

/// Every fault of `roleRef`; `kinds` are those it may be of.
pub(super) fn validate(binding: &Object, kinds: &[&str], faults: &mut Faults) {
    let (path, role) = (Path::new("roleRef"), binding.at(&["roleRef"]).unwrap_or(&Value::Null));
    let (group, kind, name) = (text(role, "apiGroup"), text(role, "kind"), text(role, "name"));
    if group != GROUP {
        faults.not_supported(&path.child("apiGroup"), group, &[GROUP]);
    }
    if !kinds.contains(&kind) {
        faults.not_supported(&path.child("kind"), kind, kinds);
    }
    if name.is_empty() {
        faults.required(&path.child("name"), "");
    } else {
        faults.invalid_all(&path.child("name"), name, names::whole_path_segment(name));
    }
}

/// A binding gives the same role for ever.
pub(super) fn unchanged(new: &Object, old: &Object, faults: &mut Faults) {
    let role = |binding: &Object| ["apiGroup", "kind", "name"].map(|key| binding.text(&["roleRef", key]).to_owned());
    let now = role(new);
    if now != role(old) {
        let [group, kind, name] = now.map(|text| json!(text));
        let shown = Shown(format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}"));
        faults.invalid(&Path::new("roleRef"), shown, "cannot change roleRef");
    }
}

/// `Role/reader`.
pub(super) fn shown(binding: &Object) -> String {
    format!("{}/{}", binding.text(&["roleRef", "kind"]), binding.text(&["roleRef", "name"]))
}
