//! ResourceSlice: devices that a driver offers.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::claim_spec;
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text as field};
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ResourceSliceStrategy;

/// Devices of a slice, and of one whose devices have taints or share what they consume.
const DEVICES_MAX: [usize; 2] = [128, 64];
/// Sets of shared counters of a slice.
const COUNTER_SETS_MAX: usize = 8;
/// Bytes of a pool's name.
const POOL_MAX: usize = 253;
const WHERE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Node",
        "string",
        "NodeName identifies the node which provides the resources in this pool. A field selector can be used to list only ResourceSlice objects belonging to a certain node.\n\nThis field can be used to limit access from nodes to ResourceSlices with the same node name. It also indicates to autoscalers that adding new nodes of the same type as some old node might also make new resources available.\n\nExactly one of NodeName, NodeSelector, AllNodes, and PerDeviceNodeSelection must be set. This field is immutable.",
        0,
    ),
    column(
        "Driver",
        "string",
        "Driver identifies the DRA driver providing the capacity information. A field selector can be used to list only ResourceSlice objects with a certain driver name.\n\nMust be a DNS subdomain and should end with a DNS domain owned by the vendor of the driver. It should use only lower case characters. This field is immutable.",
        0,
    ),
    column(
        "Pool",
        "string",
        "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not required.\n\nIt must not be longer than 253 characters and must consist of one or more DNS sub-domains separated by slashes. This field is immutable.",
        0,
    ),
    AGE,
];

impl Strategy for ResourceSliceStrategy {
    fn schema(&self) -> &'static str {
        "resource/v1.ResourceSlice"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let path = Path::new("spec");
        template::persistent_source::driver(field(spec, "driver"), &path.child("driver"), faults);
        pool(&spec["pool"], &path.child("pool"), faults);
        place(spec, &path, faults);
        let devices = items(spec, "devices");
        if has(spec, "sharedCounters") && has(spec, "devices") {
            faults.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
        }
        let advanced = |device: &Value| has(device, "taints") || has(device, "consumesCounters");
        let max = DEVICES_MAX[usize::from(devices.iter().any(advanced))];
        claim_spec::set(devices, max, &path.child("devices"), faults, |device, path, faults| {
            name(field(device, "name"), &path.child("name"), faults);
        });
        let at = path.child("sharedCounters");
        claim_spec::set(items(spec, "sharedCounters"), COUNTER_SETS_MAX, &at, faults, |set, path, faults| {
            name(field(set, "name"), &path.child("name"), faults);
        });
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        for keys in [&["pool", "name"][..], &["driver"], &["nodeName"]] {
            let full: Vec<&str> = ["spec"].into_iter().chain(keys.iter().copied()).collect();
            let (is, was) = (new.at(&full).unwrap_or(&Value::Null), old.at(&full).unwrap_or(&Value::Null));
            if is != was {
                faults.invalid(&Path::new(&full.join(".")), is, "field is immutable");
            }
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let driver = object.text(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        vec![format!("spec.driver: driver names should be lowercase; {} contains uppercase characters", quote(&driver))]
    }

    fn habits(&self) -> Habits {
        Habits { tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }

    fn unknown_field(&self, path: &str) -> String {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {path}")
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let own = |path: &[&str]| text(object.text(path));
        vec![
            text(object.name()),
            own(&["spec", "nodeName"]),
            own(&["spec", "driver"]),
            own(&["spec", "pool", "name"]),
            age(object, now),
        ]
    }
}

fn name(name: &str, path: &Path, faults: &mut Faults) {
    if name.is_empty() {
        faults.required(path, "");
    } else {
        faults.invalid_all(path, name, names::label(name, false));
    }
}

fn pool(pool: &Value, path: &Path, faults: &mut Faults) {
    let (name, at) = (field(pool, "name"), path.child("name"));
    if name.is_empty() {
        faults.required(&at, "");
    } else {
        if name.len() > POOL_MAX {
            faults.too_long(&at, POOL_MAX);
        }
        name.split('/').for_each(|part| faults.invalid_all(&at, part, names::subdomain(part, false)));
    }
    let count = pool["resourceSliceCount"].as_i64().unwrap_or(0);
    if count <= 0 {
        faults.invalid(&path.child("resourceSliceCount"), count, "must be greater than zero");
    }
    if let Some(generation) = pool["generation"].as_i64().filter(|generation| *generation < 0) {
        faults.invalid(&path.child("generation"), generation, "must be greater than or equal to zero");
    }
}

/// Where the devices are: said in one way.
fn place(spec: &Value, path: &Path, faults: &mut Faults) {
    let mut said = Vec::new();
    match spec["nodeName"].as_str() {
        None => {}
        Some("") => {
            faults.invalid(&path.child("nodeName"), "", "must be either unset or set to a non-empty string");
        }
        Some(node) => {
            said.push("`nodeName`");
            faults.invalid_all(&path.child("nodeName"), node, names::subdomain(node, false));
        }
    }
    if has(spec, "nodeSelector") {
        said.push("`nodeSelector`");
        let at = path.child("nodeSelector");
        template::scheduling::node_selector(&spec["nodeSelector"], &at, faults);
        if items(&spec["nodeSelector"], "nodeSelectorTerms").len() != 1 {
            let shown = &spec["nodeSelector"]["nodeSelectorTerms"];
            faults.invalid(&at.child("nodeSelectorTerms"), shown, "must have exactly one node selector term");
        }
    }
    for (key, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec[key].as_bool() {
            None => {}
            Some(true) => said.push(shown),
            Some(false) => {
                faults.invalid(&path.child(key), Shown("false".into()), "must be either unset or set to true");
            }
        }
    }
    match said.len() {
        0 => faults.required(path, WHERE),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", said.join(", "));
            faults.invalid(path, shown.as_str(), &format!("{WHERE}, but multiple fields are set"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_slice_says_in_one_way_where_it_is() {
        let told = |more: Value| -> Vec<String> {
            let mut spec = json!({"driver": "a.b", "pool": {"name": "p", "resourceSliceCount": 1}});
            more.as_object().expect("a map").iter().for_each(|(key, value)| spec[key] = value.clone());
            let mut faults = Faults::new();
            let object = Object::from_value(json!({"spec": spec})).expect("a map");
            ResourceSliceStrategy.validate_create(&object, &mut faults);
            faults.told()
        };
        assert!(told(json!({"nodeName": "n", "devices": [{"name": "d"}]})).is_empty());
        assert_eq!(told(json!({})), [format!("spec: Required value: {WHERE}")]);
        assert_eq!(
            told(json!({"nodeName": "n", "allNodes": true})),
            [format!("spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {WHERE}, but multiple fields are set")]
        );
        let twice = json!({"allNodes": true, "devices": [{"name": "d"}, {"name": "d"}]});
        assert_eq!(told(twice), ["spec.devices[1]: Duplicate value: \"d\""]);
    }
}
