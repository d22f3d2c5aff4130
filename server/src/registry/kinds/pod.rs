//! Pod.

use listwatch_proto::resource::requests::PodResources;
use listwatch_proto::resource::toleration::{NO_EXECUTE, TAINT_NOT_READY, TAINT_UNREACHABLE};
use listwatch_proto::resource::{Object, Taint, Toleration};
use serde_json::{Value, json};

use super::super::table::{Cell, Column};
use super::faults::{Faults, Path};
use super::fields::{default, has, items, text as txt};
use super::strategy::{Grace, Part, Strategy, keep};
use super::{names, pod_defaults, pod_print, pod_spec, pod_update, warnings};

pub(super) struct PodStrategy;

/// How long a pod stays on a node that is not ready or out of reach, unless it says otherwise.
const STAY_SECS: i64 = 300;

impl Strategy for PodStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Pod"
    }

    fn tells_what_it_deleted(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Object) {
        pod_defaults::spec(object.at_mut(&["spec"]), true);
        let status = object.at_mut(&["status"]);
        default(status, "phase", "Pending");
        let ip = txt(status, "podIP").to_owned();
        if !ip.is_empty() && items(status, "podIPs").is_empty() {
            status["podIPs"] = json!([{"ip": ip}]);
        }
        let host = txt(status, "hostIP").to_owned();
        if !host.is_empty() && items(status, "hostIPs").is_empty() {
            status["hostIPs"] = json!([{"ip": host}]);
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
        let spec = object.at_mut(&["spec"]);
        if !items(spec, "schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": null,
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        let class = txt(spec, "runtimeClassName");
        if !class.is_empty() {
            return Err(format!("pod rejected: RuntimeClass {class:?} not found"));
        }
        stay_on_failing_nodes(spec);
        object.0.insert("status".into(), status);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        if part == Part::Status {
            keep(new, old, &["spec"]);
            new.set(&["status", "qosClass"], old.text(&["status", "qosClass"]));
            if old.is_terminating() {
                // A pod on its way out keeps the owners that may be waiting for it.
                let owners = old.at(&["metadata", "ownerReferences"]).cloned();
                match owners {
                    Some(owners) => new.set(&["metadata", "ownerReferences"], owners),
                    None => drop(new.remove(&["metadata", "ownerReferences"])),
                }
            }
            return;
        }
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

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        pod_spec::validate(spec, &Path::new("spec"), faults);
        if !items(spec, "ephemeralContainers").is_empty() {
            faults.forbidden(&Path::new("spec.ephemeralContainers"), "cannot be set on create");
        }
        if !txt(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
            let why = "cannot be set until all schedulingGates have been cleared";
            faults.forbidden(&Path::new("spec.nodeName"), why);
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        match part {
            Part::Status => pod_update::validate_status(new, old, faults),
            Part::Main | Part::Finalize => {
                let spec = new.at(&["spec"]).unwrap_or(&Value::Null);
                pod_spec::validate(spec, &Path::new("spec"), faults);
                pod_update::validate(new, old, faults);
            }
        }
    }

    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain(name, prefix)
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        warnings::pod(object)
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

    fn columns(&self) -> &'static [Column] {
        pod_print::COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        pod_print::cells(object, now)
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
