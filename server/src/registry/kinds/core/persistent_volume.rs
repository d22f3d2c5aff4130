//! PersistentVolume: storage of the cluster.

use listwatch_proto::resource::{Object, Quantity};
use serde_json::{Value, json};

use super::{STORAGE_CLASS, begin, protect, storage_class_annotation};
use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::template::claim_spec::{access_modes, access_modes_shown, class_name, volume_mode};
use crate::registry::kinds::vocabulary::difference;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, entries, has, items, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct PersistentVolumeStrategy;

/// Keeps a volume while a claim is bound to it.
const PROTECTION: &str = "kubernetes.io/pv-protection";
/// An older way to say how a volume is mounted.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// The sources that have mount options.
const MOUNTABLE: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
/// Sources that are on their way out, with how upstream names them.
const OLD_SOURCES: [(&str, &str, &str); 6] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
/// Labels of nodes that may give way to their successors.
const SUCCESSORS: [(&str, &str); 3] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];
const PHASE_TIME: [&str; 2] = ["status", "lastPhaseTransitionTime"];

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Capacity",
        "string",
        "capacity is the description of the persistent volume's resources and capacity. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity",
        0,
    ),
    column(
        "Access Modes",
        "string",
        "accessModes contains all ways the volume can be mounted. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes",
        0,
    ),
    column(
        "Reclaim Policy",
        "string",
        "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released from its claim. Valid options are Retain (default for manually created PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and Recycle (deprecated). Recycle must be supported by the volume plugin underlying this PersistentVolume. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
        0,
    ),
    column(
        "Status",
        "string",
        "phase indicates if a volume is available, bound to a claim, or released by a claim. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
        0,
    ),
    column(
        "Claim",
        "string",
        "claimRef is part of a bi-directional binding between PersistentVolume and PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the authoritative bind between PV and PVC. More info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
        0,
    ),
    column("StorageClass", "string", "StorageClass of the pv", 0),
    column("VolumeAttributesClass", "string", "VolumeAttributesClass of the pv", 0),
    column(
        "Reason",
        "string",
        "reason is a brief CamelCase string that describes any failure and is meant for machine parsing and tidy display in the CLI.",
        0,
    ),
    AGE,
    column(
        "VolumeMode",
        "string",
        "volumeMode defines if a volume is intended to be used with a formatted filesystem or to remain in raw block state. Value of Filesystem is implied when not included in spec.",
        1,
    ),
];

impl Strategy for PersistentVolumeStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.PersistentVolume"
    }

    fn default(&self, object: &mut Object) {
        let spec = begin(object);
        if field(spec, "persistentVolumeReclaimPolicy").is_empty() {
            spec["persistentVolumeReclaimPolicy"] = "Retain".into();
        }
        default(spec, "volumeMode", "Filesystem");
        template::defaults::shared_sources(spec);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let born = object.creation_timestamp().to_owned();
        object.0.insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": born}));
        protect(object, PROTECTION);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, if part == Part::Status { &["spec"] } else { &["status"] });
    }

    fn mark_time(&self, part: Part, new: &mut Object, old: &Object, now: &str) {
        if part != Part::Status {
            return;
        }
        let time = |object: &Object| object.at(&PHASE_TIME).filter(|time| !time.is_null()).cloned();
        let (is, was) = (time(new), time(old));
        if new.text(&["status", "phase"]) != old.text(&["status", "phase"]) {
            if is.is_none() || is == was {
                new.set(&PHASE_TIME, now);
            }
        } else if let (None, Some(was)) = (is, was) {
            new.set(&PHASE_TIME, was);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validate_spec(object, faults);
        mount_options(object, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            return;
        }
        self.validate_create(new, faults);
        // Upstream judges the whole once more with the change.
        validate_spec(new, faults);
        let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
        immutable_source(is, was, faults);
        if is["volumeMode"] != was["volumeMode"] {
            faults.invalid(&Path::new("volumeMode"), &is["volumeMode"], "field is immutable");
        }
        if has(was, "nodeAffinity") && !same_place(&is["nodeAffinity"], &was["nodeAffinity"]) {
            let why = "field is immutable, except for updating from beta label to GA";
            faults.invalid(&Path::new("nodeAffinity"), shown_place(&is["nodeAffinity"]), why);
        }
        if has(was, "volumeAttributesClassName") && !has(is, "volumeAttributesClassName") {
            let at = Path::new("spec.volumeAttributesClassName");
            faults.forbidden(&at, "update from non-nil value to nil is forbidden");
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        warnings_of(object)
    }

    fn update_warnings(&self, part: Part, new: &Object, _old: &Object) -> Vec<String> {
        if part == Part::Status { Vec::new() } else { warnings_of(new) }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let claim = &spec["claimRef"];
        let claim = if claim.is_null() {
            String::new()
        } else {
            format!("{}/{}", field(claim, "namespace"), field(claim, "name"))
        };
        let phase = if object.is_terminating() { "Terminating" } else { object.text(&["status", "phase"]) };
        let or_unset = |key: &str| text(spec[key].as_str().unwrap_or("<unset>"));
        vec![
            text(object.name()),
            text(spec["capacity"]["storage"].as_str().unwrap_or("0")),
            text(access_modes_shown(spec.get("accessModes"))),
            text(field(spec, "persistentVolumeReclaimPolicy")),
            text(phase),
            text(claim),
            text(storage_class_annotation(object).unwrap_or_else(|| field(spec, "storageClassName"))),
            or_unset("volumeAttributesClassName"),
            text(object.text(&["status", "reason"])),
            age(object, now),
            or_unset("volumeMode"),
        ]
    }
}

fn validate_spec(object: &Object, faults: &mut Faults) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let path = Path::new("spec");
    if items(spec, "accessModes").is_empty() {
        faults.required(&path.child("accessModes"), "");
    }
    access_modes(spec, &path, faults);
    capacity(&spec["capacity"], &path.child("capacity"), faults);
    let policy = field(spec, "persistentVolumeReclaimPolicy");
    if !matches!(policy, "" | "Delete" | "Recycle" | "Retain") {
        let at = path.child("persistentVolumeReclaimPolicy");
        faults.not_supported(&at, policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() {
        let at = path.child("nodeAffinity").child("required");
        if has(affinity, "required") {
            template::scheduling::node_selector(&affinity["required"], &at, faults);
        } else {
            faults.required(&at, "must specify required node constraints");
        }
    }
    template::persistent_source::validate(spec, object.name(), !affinity.is_null(), &path, faults);
    let whole_disk = has(spec, "hostPath") && is_root(field(&spec["hostPath"], "path"));
    if whole_disk && policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        faults.forbidden(&path.child("persistentVolumeReclaimPolicy"), why);
    }
    class_name(spec, "storageClassName", &path, faults);
    volume_mode(spec, &path, faults);
    if has(spec, "volumeAttributesClassName") {
        if field(spec, "volumeAttributesClassName").is_empty() {
            faults.required(&path.child("volumeAttributesClassName"), "an empty string is disallowed");
        }
        class_name(spec, "volumeAttributesClassName", &path, faults);
        if !has(spec, "csi") {
            faults.required(&path.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// Whether a path leads to the root, whatever detours it takes.
fn is_root(path: &str) -> bool {
    let mut depth = 0usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn capacity(capacity: &Value, path: &Path, faults: &mut Faults) {
    let count = entries(capacity).count();
    if count == 0 {
        faults.required(path, "");
    }
    if !has(capacity, "storage") || count > 1 {
        faults.not_supported(path, capacity, &["storage"]);
    }
    for (name, amount) in entries(capacity) {
        let amount = Quantity::from_json(amount).unwrap_or(Quantity::ZERO);
        let path = path.key(name);
        if amount.value() < 0 {
            faults.invalid(&path, amount.value(), "must be a valid resource quantity");
        }
        if amount.is_zero() || amount.is_negative() {
            faults.invalid(&path, amount, "must be greater than zero");
        }
    }
}

fn mount_options(object: &Object, faults: &mut Faults) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    if object.annotation(MOUNT_OPTIONS).is_some() && !MOUNTABLE.iter().any(|key| has(spec, key)) {
        let at = Path::new("metadata.annotations").child(MOUNT_OPTIONS);
        faults.forbidden(&at, "may not specify mount options for this volume type");
    }
}

/// What the volume is made of stays; only the secret to make it larger may come.
fn immutable_source(is: &Value, was: &Value, faults: &mut Faults) {
    let (mut now, before) = (template::persistent_source::of(is), template::persistent_source::of(was));
    const SECRET: &str = "controllerExpandSecretRef";
    if has(&before, "csi") && has(&now, "csi") && !has(&before["csi"], SECRET) {
        now["csi"].as_object_mut().map(|csi| csi.remove(SECRET));
    }
    if now != before {
        let what = difference::unified(&before, &now);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{what}");
        faults.forbidden(&Path::new("spec.persistentvolumesource"), &why);
    }
}

/// Whether two affinities are the same, but for labels that gave way to their successors.
fn same_place(is: &Value, was: &Value) -> bool {
    let mut was = was.clone();
    let terms = was.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    for (i, term) in terms.into_iter().flatten().enumerate() {
        for key in ["matchExpressions", "matchFields"] {
            for (j, requirement) in term[key].as_array_mut().into_iter().flatten().enumerate() {
                let now = field(&is["required"]["nodeSelectorTerms"][i][key][j], "key");
                let old = field(requirement, "key");
                if SUCCESSORS.iter().any(|(before, after)| *before == old && *after == now) {
                    requirement["key"] = now.into();
                }
            }
            if term[key].is_null() {
                term.as_object_mut().map(|term| term.remove(key));
            }
        }
    }
    *is == was
}

/// An affinity as Go writes its own form of it.
fn shown_place(affinity: &Value) -> Shown {
    if affinity.is_null() {
        return Shown("null".into());
    }
    let requirements = |list: &Value| match list.as_array() {
        None => "null".to_owned(),
        Some(list) => {
            let one = |r: &Value| {
                let text = |key: &str| json!(field(r, key));
                format!("{{\"Key\":{},\"Operator\":{},\"Values\":{}}}", text("key"), text("operator"), r["values"])
            };
            format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(","))
        }
    };
    let one = |term: &Value| {
        let (labels, fields) = (requirements(&term["matchExpressions"]), requirements(&term["matchFields"]));
        format!("{{\"MatchExpressions\":{labels},\"MatchFields\":{fields}}}")
    };
    let required = &affinity["required"];
    if required.is_null() {
        return Shown("{\"Required\":null}".into());
    }
    let terms: Vec<String> = items(required, "nodeSelectorTerms").iter().map(one).collect();
    Shown(format!("{{\"Required\":{{\"NodeSelectorTerms\":[{}]}}}}", terms.join(",")))
}

fn warnings_of(object: &Object) -> Vec<String> {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let mut told = Vec::new();
    for (key, why) in [
        (STORAGE_CLASS, "deprecated since v1.8; use \"storageClassName\" attribute instead"),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ] {
        if object.annotation(key).is_some() {
            told.push(format!("metadata.annotations[{key}]: {why}"));
        }
    }
    if field(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        told.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
             approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let at = Path::new("spec.nodeAffinity.required.nodeSelectorTerms");
    for (i, term) in items(&spec["nodeAffinity"]["required"], "nodeSelectorTerms").iter().enumerate() {
        for (j, expression) in items(term, "matchExpressions").iter().enumerate() {
            let key = field(expression, "key");
            if let Some(why) = template::warnings::old_label(key) {
                let at = at.index(i).child("matchExpressions").index(j).child("key");
                told.push(format!("{at}: {key} is {why}"));
            }
        }
    }
    told.extend(
        OLD_SOURCES.iter().filter(|(key, _, _)| has(spec, key)).map(|(_, shown, why)| format!("spec.{shown}: {why}")),
    );
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(spec: Value) -> Object {
        let mut object = Object::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).expect("a map");
        PersistentVolumeStrategy.default(&mut object);
        object
    }

    fn told(new: &Object, old: &Object) -> Vec<String> {
        let mut faults = Faults::new();
        PersistentVolumeStrategy.validate_update(Part::Main, new, old, &mut faults);
        faults.told()
    }

    fn local(key: &str) -> Object {
        volume(json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": "/d"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]},
            ]}},
        }))
    }

    #[test]
    fn what_a_volume_is_made_of_and_where_stays() {
        let old = local("failure-domain.beta.kubernetes.io/zone");
        assert!(told(&old, &old).is_empty());
        assert!(told(&local("topology.kubernetes.io/zone"), &old).is_empty(), "a label may give way to its successor");
        let moved = told(&local("zone"), &old);
        assert_eq!(
            moved,
            ["nodeAffinity: Invalid value: {\"Required\":{\"NodeSelectorTerms\":[{\"MatchExpressions\":[{\"Key\":\
                 \"zone\",\"Operator\":\"In\",\"Values\":[\"a\"]}],\"MatchFields\":null}]}}: field is immutable, except \
                 for updating from beta label to GA"]
        );
        let mut other = old.clone();
        other.set(&["spec", "local", "path"], "/e");
        let why = told(&other, &old);
        assert!(why[0].starts_with("spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable"));
    }

    #[test]
    fn the_time_of_a_phase_is_written_down() {
        let phase = |phase: &str, time: Option<&str>| {
            let mut object = volume(json!({}));
            object.set(&["status", "phase"], phase);
            if let Some(time) = time {
                object.set(&PHASE_TIME, time);
            }
            object
        };
        let marked = |mut new: Object, old: &Object| {
            PersistentVolumeStrategy.mark_time(Part::Status, &mut new, old, "now");
            new.text(&PHASE_TIME).to_owned()
        };
        let old = phase("Pending", Some("then"));
        assert_eq!(marked(phase("Available", None), &old), "now");
        assert_eq!(marked(phase("Available", Some("then")), &old), "now");
        assert_eq!(marked(phase("Available", Some("own")), &old), "own");
        assert_eq!(marked(phase("Pending", None), &old), "then");
    }

    #[test]
    fn the_root_is_the_root_by_any_name() {
        for path in ["/", "//", "/.", "/a/.."] {
            assert!(is_root(path), "{path}");
        }
        assert!(!is_root("/a") && !is_root(""));
    }
}
