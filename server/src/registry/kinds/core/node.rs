//! Node.

use std::collections::HashSet;

use listwatch_proto::resource::toleration::{NO_SCHEDULE, TAINT_NOT_READY};
use listwatch_proto::resource::{Object, Quantity};
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep, label_not_supported};
use crate::registry::kinds::template::scheduling::taint_effect;
use crate::registry::kinds::vocabulary::addresses::is_range;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, items, text as txt};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, UNKNOWN, age, column, text};
use crate::registry::kinds::vocabulary::{addresses, names, resources};
use crate::registry::table::{Cell, Column};

pub(super) struct NodeStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "The status of the node", 0),
    column("Roles", "string", "The roles of the node", 0),
    AGE,
    column("Version", "string", "Kubelet Version reported by the node.", 0),
    column(
        "Internal-IP",
        "string",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
        1,
    ),
    column(
        "External-IP",
        "string",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).",
        1,
    ),
    column(
        "OS-Image",
        "string",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
        1,
    ),
    column(
        "Kernel-Version",
        "string",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
        1,
    ),
    column(
        "Container-Runtime",
        "string",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
        1,
    ),
];

impl Strategy for NodeStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Node"
    }

    fn default(&self, object: &mut Object) {
        let capacity = object.at(&["status", "capacity"]).cloned();
        let status = object.at_mut(&["status"]);
        if let Some(capacity) = capacity.filter(|c| c.as_object().is_some_and(|c| !c.is_empty())) {
            default(status, "allocatable", capacity);
        }
        let spec = object.at_mut(&["spec"]);
        let cidr = txt(spec, "podCIDR").to_owned();
        // The older field is the first of the newer one; where they differ the older one was written.
        let first = items(spec, "podCIDRs").first().and_then(Value::as_str).map(str::to_owned);
        match first {
            Some(first) if cidr.is_empty() => spec["podCIDR"] = json!(first),
            first if !cidr.is_empty() && first.as_deref() != Some(&cidr) => spec["podCIDRs"] = json!([cidr]),
            _ => {}
        }
    }

    /// A new node is not ready until its kubelet says so (TaintNodesByCondition admission).
    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let taints = object.at_mut(&["spec", "taints"]);
        if !taints.is_array() {
            *taints = json!([]);
        }
        let list = taints.as_array_mut().expect("made a list above");
        if !list.iter().any(|t| txt(t, "key") == TAINT_NOT_READY && txt(t, "effect") == NO_SCHEDULE) {
            list.push(json!({"key": TAINT_NOT_READY, "effect": NO_SCHEDULE}));
        }
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        keep(new, old, if part == Part::Status { &["spec"] } else { &["status"] });
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        taints(spec, faults);
        capacities(object, faults);
        ranges(spec, &Path::new("spec.podCIDRs"), faults);
    }

    /// A change is judged as a new node and as a change, so that some faults are told twice, as upstream does.
    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        let (was, is) = (old.at(&["spec"]).unwrap_or(&Value::Null), new.at(&["spec"]).unwrap_or(&Value::Null));
        if part != Part::Status {
            self.validate_create(new, faults);
        }
        capacities(new, faults);
        own_addresses(new, faults);
        let path = Path::new("spec.podCIDRs");
        let (before, now) = (items(was, "podCIDRs"), items(is, "podCIDRs"));
        let moved = match before.len() == now.len() || before.is_empty() {
            true => before.iter().zip(now).filter(|(before, now)| before != now).count(),
            false => 1,
        };
        for _ in 0..moved {
            faults.forbidden(&path, "node updates may not change podCIDR except from \"\" to valid");
        }
        if !txt(was, "providerID").is_empty() && was["providerID"] != is["providerID"] {
            let why = "node updates may not change providerID except from \"\" to valid";
            faults.forbidden(&Path::new("spec.providerID"), why);
        }
        taints(is, faults);
        if was["externalID"] != is["externalID"] {
            faults.forbidden(&Path::new("spec.externalID"), "may not be updated");
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, ..Habits::USUAL }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        if object.text(&["spec", "externalID"]).is_empty() {
            return Vec::new();
        }
        vec!["spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned()]
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn field(&self, object: &Object, _path: &str) -> Option<String> {
        Some(object.flag(&["spec", "unschedulable"]).to_string())
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let info = |key: &str| match object.text(&["status", "nodeInfo", key]) {
            "" => UNKNOWN.to_owned(),
            known => known.to_owned(),
        };
        let kernel = match object.text(&["status", "nodeInfo", "architecture"]) {
            "" => info("kernelVersion"),
            architecture => format!("{} ({architecture})", info("kernelVersion")),
        };
        vec![
            text(object.name()),
            text(status(object)),
            text(roles(object)),
            age(object, now),
            text(object.text(&["status", "nodeInfo", "kubeletVersion"])),
            text(address(object, "InternalIP")),
            text(address(object, "ExternalIP")),
            text(info("osImage")),
            text(kernel),
            text(info("containerRuntimeVersion")),
        ]
    }
}

fn status(object: &Object) -> String {
    let ready = object.condition("Ready").map(|c| c["status"] == "True");
    let mut status = match ready {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object.flag(&["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(object: &Object) -> String {
    let mut roles: Vec<&str> = object
        .labels()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then_some(value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address(object: &Object, kind: &str) -> String {
    let addresses = object.at(&["status", "addresses"]).and_then(Value::as_array);
    let found = addresses.into_iter().flatten().find(|a| txt(a, "type") == kind);
    found.map_or(NONE, |a| txt(a, "address")).to_owned()
}

/// Upstream names the path of taints as if they stood in the metadata.
fn taints(spec: &Value, faults: &mut Faults) {
    let path = Path::new("metadata.taints");
    let mut seen = HashSet::new();
    for (i, taint) in items(spec, "taints").iter().enumerate() {
        let path = path.index(i);
        let (key, value, effect) = (txt(taint, "key"), txt(taint, "value"), txt(taint, "effect"));
        faults.invalid_all(&path.child("key"), key, names::qualified(key));
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            faults.invalid(&path.child("value"), value, &wrong.join(";"));
        }
        taint_effect(effect, false, &path.child("effect"), faults);
        if !seen.insert((key, effect)) {
            let shown = Shown(format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                json!(key),
                json!(value),
                json!(effect),
                taint["timeAdded"]
            ));
            faults.duplicate_because(&path, shown, "taints must be unique by key and effect pair");
        }
    }
}

/// Amounts of what a node has. Upstream names them by a path, though they are keys.
fn capacities(object: &Object, faults: &mut Faults) {
    for part in ["capacity", "allocatable"] {
        let amounts = object.at(&["status", part]).and_then(Value::as_object);
        for (name, amount) in amounts.into_iter().flatten() {
            if let Some(Ok(amount)) = amount.as_str().map(str::parse::<Quantity>) {
                resources::quantity(name, amount, &Path::new("status").child(part).child(name), faults);
            }
        }
    }
}

fn own_addresses(object: &Object, faults: &mut Faults) {
    let mut seen = HashSet::new();
    let list = object.at(&["status", "addresses"]).and_then(Value::as_array);
    for (i, address) in list.into_iter().flatten().enumerate() {
        let (kind, at) = (txt(address, "type"), txt(address, "address"));
        if !seen.insert((kind, at)) {
            let shown = Shown(format!("{{\"Type\":{},\"Address\":{}}}", json!(kind), json!(at)));
            faults.duplicate(&Path::new("status.addresses").index(i), shown);
        }
    }
}

/// The ranges of pods' addresses: at most one of each family.
fn ranges(spec: &Value, path: &Path, faults: &mut Faults) {
    let list: Vec<&str> = items(spec, "podCIDRs").iter().filter_map(Value::as_str).collect();
    for (i, range) in list.iter().enumerate() {
        addresses::range(range, &path.index(i), faults);
    }
    if list.len() < 2 {
        return;
    }
    if let Some((i, range)) = list.iter().enumerate().find(|(_, range)| !is_range(range)) {
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: \
             {range})"
        );
        faults.internal(path, &why);
    }
    let both = list.iter().all(|range| is_range(range))
        && list.iter().any(|range| range.contains(':'))
        && list.iter().any(|range| !range.contains(':'));
    if !both || list.len() > 2 {
        faults.invalid(path, &spec["podCIDRs"], "may specify no more than one CIDR for each IP family");
    }
}
