//! VolumeAttachment: a volume on its way to a node, or there.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Reset, STATUS_ALONE, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{entries, has, items, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct VolumeAttachmentStrategy;

/// Bytes of the metadata that a driver returns.
const METADATA_MAX: usize = 256 << 10;
/// Bytes of the words of a failure.
const MESSAGE_MAX: usize = 1024;

const COLUMNS: &[Column] = &[
    NAME,
    Column {
        name: "Attacher",
        data_type: "string",
        format: "name",
        description: "attacher indicates the name of the volume driver that MUST handle this request. This is the name returned by GetPluginName().",
        priority: 0,
    },
    column("PV", "string", "persistentVolumeName represents the name of the persistent volume to attach.", 0),
    column("Node", "string", "nodeName represents the node that the volume should be attached to.", 0),
    column(
        "Attached",
        "boolean",
        "attached indicates the volume is successfully attached. This field must only be set by the entity completing the attach operation, i.e. the external-attacher.",
        0,
    ),
    AGE,
];

impl Strategy for VolumeAttachmentStrategy {
    fn schema(&self) -> &'static str {
        "storage/v1.VolumeAttachment"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"attached": false}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        if part == Part::Status {
            keep(new, old, &["spec", "metadata"]);
        } else {
            keep(new, old, &["status"]);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        template::persistent_source::driver(field(spec, "attacher"), &path.child("attacher"), faults);
        source(&spec["source"], &path.child("source"), faults);
        let node = field(spec, "nodeName");
        faults.invalid_all(&path.child("nodeName"), node, names::subdomain(node, false));
        validate_status(object, faults);
        if let Some(volume) = spec["source"]["persistentVolumeName"].as_str() {
            let at = path.child("source").child("persistentVolumeName");
            faults.invalid_all(&at, volume, names::subdomain(volume, false));
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        if new.0.get("spec") != old.0.get("spec") {
            let spec = new.at(&["spec"]).unwrap_or(&Value::Null);
            faults.invalid(&Path::new("spec"), spec, "field is immutable");
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_unconditional_update: false,
            tells_what_it_deleted: true,
            ..Habits::USUAL
        }
    }

    fn reset_fields(&self, part: Part) -> Reset {
        if part == Part::Status { STATUS_ALONE } else { Reset::These(&[&["status"]]) }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![
            text(object.name()),
            text(object.text(&["spec", "attacher"])),
            text(object.text(&["spec", "source", "persistentVolumeName"])),
            text(object.text(&["spec", "nodeName"])),
            Cell::Flag(object.flag(&["status", "attached"])),
            age(object, now),
        ]
    }
}

fn source(source: &Value, path: &Path, faults: &mut Faults) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (has(source, "inlineVolumeSpec"), source["persistentVolumeName"].as_str()) {
        (false, None) => faults.required(path, ONE),
        (true, Some(_)) => faults.forbidden(path, ONE),
        (false, Some("")) => {
            faults.required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (false, Some(_)) => {}
        (true, None) => inline(&source["inlineVolumeSpec"], &path.child("inlineVolumeSpec"), faults),
    }
}

/// A volume that stands in the pod itself.
fn inline(spec: &Value, path: &Path, faults: &mut Faults) {
    const NOT_HERE: &str = "may not be specified in the context of inline volumes";
    if has(spec, "claimRef") {
        faults.forbidden(&path.child("claimRef"), NOT_HERE);
    }
    if entries(&spec["capacity"]).next().is_some() {
        faults.forbidden(&path.child("capacity"), NOT_HERE);
    }
    if !has(spec, "csi") {
        faults.required(&path.child("csi"), "has to be specified in the context of inline volumes");
    }
    if items(spec, "accessModes").is_empty() {
        faults.required(&path.child("accessModes"), "");
    }
    template::claim_spec::access_modes(spec, path, faults);
    if !matches!(field(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let why = "may only be Retain in the context of inline volumes";
        faults.forbidden(&path.child("persistentVolumeReclaimPolicy"), why);
    }
    if has(spec, "nodeAffinity") {
        faults.forbidden(&path.child("nodeAffinity"), NOT_HERE);
    }
    template::persistent_source::validate(spec, "", false, path, faults);
    if !field(spec, "storageClassName").is_empty() {
        faults.forbidden(&path.child("storageClassName"), NOT_HERE);
    }
    if spec["volumeMode"].as_str().is_some_and(|mode| mode != "Filesystem") {
        let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        faults.forbidden(&path.child("volumeMode"), why);
    }
}

fn validate_status(object: &Object, faults: &mut Faults) {
    let status = object.at(&["status"]).unwrap_or(&Value::Null);
    let path = Path::new("status");
    let bytes: usize =
        entries(&status["attachmentMetadata"]).map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > METADATA_MAX {
        faults.too_long(&path.child("attachmentMetadata"), METADATA_MAX);
    }
    for key in ["attachError", "detachError"] {
        let path = path.child(key);
        if field(&status[key], "message").len() > MESSAGE_MAX {
            // Upstream tells another limit than it checks.
            faults.too_long(&path.child("message"), METADATA_MAX);
        }
        if let Some(code) = status[key]["errorCode"].as_i64().filter(|code| *code < 0) {
            faults.invalid(&path.child("errorCode"), code, "must be between 0 and 2147483647, inclusive");
        }
    }
}
