//! The rules of what a claim asks for, whether it stands alone or in a template.

use listwatch_proto::resource::Quantity;
use serde_json::{Map, Value};

use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, has, items, text};
use crate::registry::kinds::vocabulary::{names, selectors};

/// How a volume may be reached.
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// What a volume may be used as.
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Fills in what was left out.
pub(in crate::registry::kinds) fn fill_in(spec: &mut Value) {
    default(spec, "volumeMode", "Filesystem");
}

/// Makes the two forms of the data's source one: what is given in one form is given in the other. Of the older form only
/// claims and snapshots count; another namespace is not reached (both as in Kubernetes 1.36). `old` is what a change
/// replaces.
pub(in crate::registry::kinds) fn unite_sources(spec: &mut Value, old: Option<&Value>) {
    let used = |key: &str| old.is_some_and(|old| has(old, key));
    let Some(map) = spec.as_object_mut() else { return };
    let is_far = map.get("dataSourceRef").is_some_and(|source| !text(source, "namespace").is_empty());
    if is_far && !used("dataSourceRef") {
        map.remove("dataSourceRef");
    }
    let has_ref = map.get("dataSourceRef").is_some_and(|source| !source.is_null());
    if !used("dataSource") && !used("dataSourceRef") && !has_ref {
        let counts = |source: &Value| {
            matches!(
                (text(source, "apiGroup"), text(source, "kind")),
                ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
            )
        };
        if !map.get("dataSource").is_some_and(counts) {
            map.remove("dataSource");
        }
    }
    unite(map);
}

fn unite(spec: &mut Map<String, Value>) {
    let given = |spec: &Map<String, Value>, key: &str| spec.get(key).filter(|source| !source.is_null()).cloned();
    let (older, newer) = (given(spec, "dataSource"), given(spec, "dataSourceRef"));
    let (key, source) = match (older, newer) {
        (Some(older), None) => ("dataSourceRef", older),
        (None, Some(newer)) if text(&newer, "namespace").is_empty() => ("dataSource", newer),
        _ => return,
    };
    let mut copy = Map::new();
    for field in ["apiGroup", "kind", "name"] {
        copy.insert(field.to_owned(), source[field].clone());
    }
    spec.insert(key.to_owned(), Value::Object(copy));
}

/// The ways a volume may be reached: known, and the exclusive one alone.
pub(in crate::registry::kinds) fn access_modes(spec: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("accessModes");
    let modes: Vec<&str> = items(spec, "accessModes").iter().filter_map(Value::as_str).collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        faults.not_supported(&at, *mode, &ACCESS_MODES);
    }
    let shared = |mode: &&str| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(shared) {
        faults.forbidden(&at, "may not use ReadWriteOncePod with other access modes");
    }
}

/// The access modes in short, each once, in a fixed order: `RWO,ROX`.
pub(in crate::registry::kinds) fn access_modes_shown(list: Option<&Value>) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let shown: Vec<&str> =
        SHORT.iter().filter(|(mode, _)| list.iter().any(|own| own == mode)).map(|(_, short)| *short).collect();
    shown.join(",")
}

/// What the volume is used as.
pub(in crate::registry::kinds) fn volume_mode(spec: &Value, path: &Path, faults: &mut Faults) {
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !VOLUME_MODES.contains(mode)) {
        faults.not_supported(&path.child("volumeMode"), mode, &VOLUME_MODES);
    }
}

/// The name of a class, where there is one.
pub(in crate::registry::kinds) fn class_name(spec: &Value, key: &str, path: &Path, faults: &mut Faults) {
    let name = text(spec, key);
    if !name.is_empty() {
        faults.invalid_all(&path.child(key), name, names::subdomain(name, false));
    }
}

/// Every fault of what a claim asks for.
pub(in crate::registry::kinds) fn validate(spec: &Value, path: &Path, faults: &mut Faults) {
    if items(spec, "accessModes").is_empty() {
        faults.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    selectors::label_selector(&spec["selector"], &path.child("selector"), faults);
    access_modes(spec, path, faults);
    let storage = path.child("resources").key("storage");
    match spec["resources"]["requests"]["storage"].as_str().map(str::parse::<Quantity>) {
        Some(Ok(amount)) if amount.is_negative() || amount.is_zero() => {
            faults.invalid(&storage, amount, "must be greater than zero");
        }
        Some(_) => {}
        None => faults.required(&storage, ""),
    }
    class_name(spec, "storageClassName", path, faults);
    volume_mode(spec, path, faults);
    let (older, newer) = (&spec["dataSource"], &spec["dataSourceRef"]);
    for key in ["dataSource", "dataSourceRef"] {
        if has(spec, key) {
            data_source(&spec[key], &path.child(key), faults);
        }
    }
    let both = !older.is_null() && !newer.is_null();
    if both && !text(newer, "namespace").is_empty() {
        faults.invalid(path, Shown("{}".into()), "may not be specified when dataSourceRef.namespace is specified");
    } else if both && ["apiGroup", "kind", "name"].iter().any(|key| older[*key] != newer[*key]) {
        faults.invalid(path, Shown("{}".into()), "must match dataSourceRef");
    }
    class_name(spec, "volumeAttributesClassName", path, faults);
}

fn data_source(source: &Value, path: &Path, faults: &mut Faults) {
    for key in ["name", "kind"] {
        if text(source, key).is_empty() {
            faults.required(&path.child(key), "");
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        faults.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() {
        faults.invalid_all(&path.child("apiGroup"), group, names::subdomain(group, false));
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        faults.invalid_all(&path.child("namespace"), namespace, names::label(namespace, false));
    }
}

/// Amounts of bytes that are no whole ones.
pub(in crate::registry::kinds) fn warnings(spec: &Value, path: &Path) -> Vec<String> {
    let told = |key: &str| {
        let amount = Quantity::from_json(&spec["resources"][key]["storage"]).ok()?;
        let at = path.child("resources").child(key).key("storage");
        (amount.milli_value() % 1000 != 0)
            .then(|| format!("{at}: fractional byte value \"{amount}\" is invalid, must be an integer"))
    };
    ["requests", "limits"].into_iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_of_a_source_say_the_same() {
        let mut spec = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "o"}});
        unite_sources(&mut spec, None);
        assert_eq!(spec["dataSourceRef"], json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "o"}));
        let mut spec = json!({"dataSourceRef": {"apiGroup": "a.b", "kind": "X", "name": "o"}});
        unite_sources(&mut spec, None);
        assert_eq!(spec["dataSource"], json!({"apiGroup": "a.b", "kind": "X", "name": "o"}));
        // Only the newer form may name anything, and none another namespace.
        let mut spec = json!({"dataSource": {"apiGroup": "a.b", "kind": "X", "name": "o"}});
        unite_sources(&mut spec, None);
        assert_eq!(spec, json!({}));
        let mut spec = json!({"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "o", "namespace": "n"}});
        unite_sources(&mut spec, None);
        assert_eq!(spec, json!({}));
    }

    #[test]
    fn access_modes_print_in_a_fixed_order() {
        let list = json!(["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"]);
        assert_eq!(access_modes_shown(Some(&list)), "RWO,RWX");
        assert_eq!(access_modes_shown(None), "");
    }
}
