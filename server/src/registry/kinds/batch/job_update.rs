//! What may change of a job once it is there (Kubernetes 1.36).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::{job, job_selector, job_status, shown};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{items, items_mut};
use crate::registry::kinds::vocabulary::{names, selectors};
use crate::registry::schema::internal;

/// Every fault of a job as a whole, new or changed.
pub(super) fn validate_whole(object: &Object, new_labels: bool, faults: &mut Faults) {
    job_selector::validate(object, new_labels, faults);
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    validate_spec(spec, faults);
    let completions = spec["completions"].as_i64().unwrap_or(0);
    if spec["completionMode"] == "Indexed" && completions > 0 {
        let host = format!("{}-{}", object.name(), completions - 1);
        if !names::label(&host, false).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            faults.invalid(&Path::new("metadata.name"), object.name(), &why);
        }
    }
}

/// What is asked of the selector.
const SELECTING: template::whole::Selecting =
    template::whole::Selecting { required: true, never_empty_for: None, unreadable: None };

/// The spec with its selector.
fn validate_spec(spec: &Value, faults: &mut Faults) {
    let path = Path::new("spec");
    job::validate_spec(spec, &path, faults);
    template::whole::selector(spec, &path, &SELECTING, faults);
}

/// Every fault of a change, judged as a job and as a change of one.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    validate_whole(new, job_selector::has_new_labels(old), faults);
    let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
    let path = Path::new("spec");
    validate_spec(is, faults);
    completions(is, was, &path.child("completions"), faults);
    let ordered = |spec: &Value| selectors::ordered_selector(&spec["selector"]);
    immutable(is, was, "selector", ordered(is), faults);
    template(new, old, faults);
    for key in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        let value = match key {
            "podFailurePolicy" => shown::failure_policy(&is[key]),
            "successPolicy" => shown::success_policy(&is[key]),
            _ => is[key].to_string(),
        };
        immutable(is, was, key, value, faults);
    }
}

fn immutable(is: &Value, was: &Value, key: &str, value: String, faults: &mut Faults) {
    if is[key] != was[key] {
        faults.invalid(&Path::new("spec").child(key), Shown(value), "field is immutable");
    }
}

/// The completions of an Indexed job change together with its parallelism, others do not.
fn completions(is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    let (now, before) = (&is["completions"], &was["completions"]);
    if now == before {
        return;
    }
    if is["completionMode"] != "Indexed" {
        faults.invalid(path, now, "field is immutable");
    } else if !now.is_null() && *now != is["parallelism"] {
        // Upstream names the sibling by the path's root alone.
        faults.invalid(path, now, "can only be modified in tandem with spec.parallelism");
    }
}

/// The template stays as it is. While the job is suspended and nothing of it runs, where its pods may go and what they
/// ask for may change.
fn template(new: &Object, old: &Object, faults: &mut Faults) {
    let (is, was) = (new.at(&["spec", "template"]), old.at(&["spec", "template"]));
    let (is, was) = (is.unwrap_or(&Value::Null), was.unwrap_or(&Value::Null));
    let mut allowed = was.clone();
    let path = Path::new("spec.template");
    if !job_status::may_change_template(old) {
        if *is != allowed {
            faults.invalid(&path, Shown(internal::print("core.PodTemplateSpec", is)), "field is immutable");
        }
        return;
    }
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(&mut allowed["spec"], &is["spec"], key);
    }
    for key in ["annotations", "labels"] {
        take(&mut allowed["metadata"], &is["metadata"], key);
    }
    node_affinity(&mut allowed["spec"], &is["spec"]);
    for key in ["containers", "initContainers"] {
        let ours = items(&is["spec"], key);
        let theirs = items_mut(&mut allowed["spec"], key);
        if ours.len() != theirs.len() {
            continue;
        }
        for (own, container) in ours.iter().zip(theirs) {
            if own["name"] == container["name"] {
                take(container, own, "resources");
            }
        }
    }
    if is["spec"] != allowed["spec"] {
        let shown = Shown(internal::print("core.PodSpec", &is["spec"]));
        faults.invalid(&path.child("spec"), shown, "field is immutable");
    }
}

fn take(to: &mut Value, from: &Value, key: &str) {
    if !to.is_object() {
        *to = json!({});
    }
    let Some(map) = to.as_object_mut() else { return };
    match from.get(key) {
        Some(value) => drop(map.insert(key.to_owned(), value.clone())),
        None => drop(map.remove(key)),
    }
}

/// The affinity to nodes may change, the rest of it not.
fn node_affinity(to: &mut Value, from: &Value) {
    const KEY: &str = "nodeAffinity";
    match (from["affinity"].is_object(), to["affinity"].is_object()) {
        (false, true) => {
            let Some(affinity) = to["affinity"].as_object_mut() else { return };
            affinity.remove(KEY);
            if affinity.is_empty() {
                take(to, &Value::Null, "affinity");
            }
        }
        (true, _) => {
            let mut affinity = if to["affinity"].is_object() { to["affinity"].take() } else { json!({}) };
            take(&mut affinity, &from["affinity"], KEY);
            to["affinity"] = affinity;
        }
        (false, false) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::strategy::Strategy;

    fn job(change: impl Fn(&mut Object)) -> Object {
        let value = json!({"metadata": {"name": "x", "uid": "u"}, "spec": {"template": {"metadata": {}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        let mut object = Object::from_value(value).expect("a map");
        super::super::job::JobStrategy.default(&mut object);
        super::super::job::JobStrategy.prepare_create(&mut object).expect("taken");
        change(&mut object);
        object
    }

    fn fields(new: &Object, old: &Object) -> Vec<String> {
        let mut faults = Faults::new();
        validate(new, old, &mut faults);
        faults.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn a_running_job_keeps_its_template() {
        let old = job(|_| {});
        let moved = job(|job| job.set(&["spec", "template", "spec", "nodeSelector"], json!({"a": "b"})));
        assert_eq!(fields(&moved, &old), ["spec.template"]);
        let wider = job(|job| job.set(&["spec", "parallelism"], 3));
        assert!(fields(&wider, &old).is_empty());
    }

    #[test]
    fn a_suspended_job_may_go_elsewhere_and_ask_for_more() {
        let suspended = |change: &dyn Fn(&mut Object)| {
            job(|job| {
                job.set(&["spec", "suspend"], true);
                change(job);
            })
        };
        let old = suspended(&|_| {});
        let node_affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}});
        for change in [
            ("nodeSelector", json!({"a": "b"})),
            ("tolerations", json!([{"operator": "Exists"}])),
            ("affinity", node_affinity.clone()),
        ] {
            let new = suspended(&|job| job.set(&["spec", "template", "spec", change.0], change.1.clone()));
            assert!(fields(&new, &old).is_empty(), "{change:?}: {:?}", fields(&new, &old));
        }
        let with = suspended(&|job| job.set(&["spec", "template", "spec", "affinity"], node_affinity.clone()));
        assert!(fields(&old, &with).is_empty(), "it may be taken back");
        let other = suspended(&|job| job.set(&["spec", "template", "spec", "dnsPolicy"], "Default"));
        assert_eq!(fields(&other, &old), ["spec.template.spec"]);
    }
}
