//! Pod.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::requests::PodResources;
use listwatch_proto::resource::toleration::{NO_EXECUTE, TAINT_NOT_READY, TAINT_UNREACHABLE};
use listwatch_proto::resource::{Object, Taint, Toleration};
use serde_json::{Value, json};

use super::{ephemeral, print, resize, status, update};
use crate::registry::kinds::strategy::{Grace, Habits, Part, Reset, Strategy, keep, label_not_supported};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{default, has, items, text as txt};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::table::{Cell, Column};

pub(in super::super) struct PodStrategy;

/// How long a pod stays on a node that is not ready or out of reach, unless it says otherwise.
const STAY_SECS: i64 = 300;

impl Strategy for PodStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Pod"
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        template::defaults::spec(spec, true);
        if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
            spec["terminationGracePeriodSeconds"] = json!(1);
        }
        let status = object.at_mut(&["status"]);
        let (ip, first) = (txt(status, "podIP").to_owned(), items(status, "podIPs").first());
        // The older field is the first of the newer one; where they differ the older one was written.
        match first.map(|first| txt(first, "ip").to_owned()) {
            Some(first) if ip.is_empty() => status["podIP"] = json!(first),
            first if !ip.is_empty() && first.as_deref() != Some(&ip) => status["podIPs"] = json!([{"ip": ip}]),
            _ => {}
        }
        if status.is_null() {
            *status = json!({});
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
        let born = object.creation_timestamp().to_owned();
        template::scheduling::merge_label_keys(object);
        let spec = object.at_mut(&["spec"]);
        if !items(spec, "schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": born,
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        let class = txt(spec, "runtimeClassName");
        if !class.is_empty() {
            return Err(format!("pod rejected: RuntimeClass {} not found", quote(&class)));
        }
        stay_on_failing_nodes(spec);
        template::defaults::drop_disabled(spec);
        object.0.insert("status".into(), status);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => status::prepare(new, old),
            Part::EphemeralContainers => ephemeral::prepare(new, old),
            Part::Resize => resize::prepare(new, old),
            _ => {
                keep(new, old, &["status"]);
                let spec = new.at_mut(&["spec"]);
                let was = old.at(&["spec"]).unwrap_or(&Value::Null);
                for key in ["priority", "preemptionPolicy"] {
                    if has(was, key) {
                        default(spec, key, was[key].clone());
                    }
                }
                stay_on_failing_nodes(spec);
            }
        }
        if part != Part::Status {
            template::defaults::drop_disabled(new.at_mut(&["spec"]));
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let annotations = object.at(&["metadata", "annotations"]).unwrap_or(&Value::Null);
        template::annotations::validate(annotations, spec, &Path::new("metadata.annotations"), faults);
        template::spec::validate_pod(spec, object.name(), &Path::new("spec"), faults);
        if !items(spec, "ephemeralContainers").is_empty() {
            faults.forbidden(&Path::new("spec.ephemeralContainers"), "cannot be set on create");
        }
        if !txt(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
            let why = "cannot be set until all schedulingGates have been cleared";
            faults.forbidden(&Path::new("spec.nodeName"), why);
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            template::annotations::validate_update(new, old, faults);
            status::validate(new, old, faults);
            return;
        }
        let spec = new.at(&["spec"]).unwrap_or(&Value::Null);
        let annotations = new.at(&["metadata", "annotations"]).unwrap_or(&Value::Null);
        template::annotations::validate(annotations, spec, &Path::new("metadata.annotations"), faults);
        if part == Part::Resize {
            template::spec::validate_pod(spec, new.name(), &Path::new("spec"), faults);
            resize::validate(new, old, faults);
            return;
        }
        if part != Part::EphemeralContainers {
            template::annotations::validate_update(new, old, faults);
        }
        template::spec::validate_pod(spec, new.name(), &Path::new("spec"), faults);
        if part == Part::EphemeralContainers {
            template::annotations::validate_update(new, old, faults);
            ephemeral::validate(new, old, faults);
        } else {
            update::validate(new, old, faults);
        }
    }

    fn reset_fields(&self, part: Part) -> Reset {
        match part {
            Part::Status => {
                Reset::These(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
            }
            Part::EphemeralContainers => Reset::AllBut(&[&["spec", "ephemeralContainers"]]),
            Part::Resize => Reset::AllBut(&[
                &["spec", "containers", "*", "resources"],
                &["spec", "containers", "*", "resizePolicy"],
                &["spec", "initContainers", "*", "resources"],
                &["spec", "initContainers", "*", "resizePolicy"],
            ]),
            _ => Reset::These(&[&["status"]]),
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        template::warnings::pod(object)
    }

    fn update_warnings(&self, part: Part, new: &Object, _old: &Object) -> Vec<String> {
        if matches!(part, Part::EphemeralContainers | Part::Resize) { Vec::new() } else { self.warnings(new) }
    }

    fn grace(&self, object: &Object, asked: Option<i64>) -> Grace {
        let own = object.int(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(0);
        let seconds = asked.unwrap_or(own);
        let unscheduled = object.text(&["spec", "nodeName"]).is_empty();
        let over = matches!(object.text(&["status", "phase"]), "Succeeded" | "Failed");
        Grace::Seconds(match seconds {
            _ if unscheduled || over => 0,
            ..0 => 1,
            seconds => seconds,
        })
    }

    fn fields(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn field(&self, object: &Object, path: &str) -> Option<String> {
        Some(match path {
            "spec.hostNetwork" => object.flag(&["spec", "hostNetwork"]).to_string(),
            "status.podIPs" => {
                let status = object.at(&["status"]).unwrap_or(&Value::Null);
                items(status, "podIPs").first().map(|ip| txt(ip, "ip").to_owned()).unwrap_or_default()
            }
            other => {
                let keys: Vec<&str> = other.split('.').collect();
                object.text(&keys).to_owned()
            }
        })
    }

    fn indexed_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName"]
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn columns(&self) -> &'static [Column] {
        print::COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        print::cells(object, now)
    }
}

fn qos_class(object: &Object) -> &'static str {
    let resources = object.at(&["spec"]).and_then(|spec| PodResources::of_spec(spec).ok()).unwrap_or_default();
    resources.qos_class().as_str()
}

/// Pods stay a while on nodes that fail (DefaultTolerationSeconds admission).
fn stay_on_failing_nodes(spec: &mut Value) {
    for key in [TAINT_NOT_READY, TAINT_UNREACHABLE] {
        let taint = Taint { key: key.into(), effect: NO_EXECUTE.into(), ..Taint::default() };
        let tolerations: Vec<Toleration> = serde_json::from_value(spec["tolerations"].clone()).unwrap_or_default();
        if tolerations.iter().any(|t| t.key == taint.key && (t.effect == taint.effect || t.effect.is_empty()))
            || tolerations.iter().any(|t| t.key.is_empty() && t.tolerates(&taint))
        {
            continue;
        }
        if !spec["tolerations"].is_array() {
            spec["tolerations"] = json!([]);
        }
        if let Some(list) = spec["tolerations"].as_array_mut() {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": STAY_SECS,
            }));
        }
    }
}
