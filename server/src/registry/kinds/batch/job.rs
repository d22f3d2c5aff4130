//! Job (batch).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, parse_time};
use serde_json::{Value, json};

use super::{job_selector, job_spec, job_status, job_update};
use crate::registry::Propagation;
use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields;
use crate::registry::kinds::vocabulary::fields::{default, has, items};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, column, duration, selector, text, workload_row};
use crate::registry::table::{Cell, Column};

pub(super) struct JobStrategy;

/// The description of a job's selector, which stands in the columns of a CronJob too.
pub(super) const SELECTOR: &str = "A label query over pods that should match the pod count. Normally, the system sets this \
    field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors";

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "Status of the job.", 0),
    column(
        "Completions",
        "string",
        "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. However, it \
         may decrease in reaction to scale down of elastic indexed jobs.",
        0,
    ),
    column("Duration", "string", "Time required to complete the job.", 0),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
    column("Selector", "string", SELECTOR, 1),
];

impl Strategy for JobStrategy {
    fn schema(&self) -> &'static str {
        "batch/v1.Job"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        if !has(spec, "completions") && !has(spec, "parallelism") {
            default(spec, "completions", 1);
        }
        default(spec, "parallelism", 1);
        let unlimited = has(spec, "backoffLimitPerIndex");
        default(spec, "backoffLimit", if unlimited { i64::from(i32::MAX) } else { 6 });
        default(spec, "completionMode", "NonIndexed");
        default(spec, "suspend", false);
        let replaced = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        default(spec, "podReplacementPolicy", replaced);
        default(spec, "manualSelector", false);
        failure_policy_defaults(spec);
        template::defaults::template(&mut spec["template"]);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        // In Kubernetes both are one map from here on, so that what is put into one is in the other too.
        let shared = labels_from_template(object);
        if !object.flag(&["spec", "manualSelector"]) {
            job_selector::generate(object);
        }
        if shared {
            object.remove(&["metadata", "labels"]);
            labels_from_template(object);
        }
        object.0.insert("status".into(), json!({}));
        template::defaults::drop_disabled(object.at_mut(&["spec", "template", "spec"]));
        Ok(())
    }

    fn canonicalize(&self, object: &mut Object) {
        labels_from_template(object);
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                template::defaults::drop_disabled(new.at_mut(&["spec", "template", "spec"]));
            }
        }
        labels_from_template(new);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        job_update::validate_whole(object, true, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            job_status::validate(new, old, faults);
        } else {
            job_update::validate(new, old, faults);
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, ..Habits::USUAL }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let mut told = template::warnings::name_of_pods(object);
        told.extend(spec_warnings(object, &["spec"]));
        told
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        let changed = part != Part::Status && new.generation() != old.generation();
        if changed { spec_warnings(new, &["spec"]) } else { Vec::new() }
    }

    /// As jobs always did (batch/v1), other than newer kinds.
    fn default_propagation(&self) -> Option<Propagation> {
        Some(Propagation::Orphan)
    }

    fn delete_warnings(&self) -> &'static [&'static str] {
        &[
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
           propagationPolicy=Orphan to suppress this warning",
        ]
    }

    fn fields(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn field(&self, object: &Object, _path: &str) -> Option<String> {
        Some(object.int(&["status", "succeeded"]).unwrap_or(0).to_string())
    }

    fn unknown_field(&self, path: &str) -> String {
        format!("field label {} not supported for Job", quote(&path))
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        workload_row(
            object,
            [text(state(object)), text(completions(object)), text(took(object, now))],
            now,
            Some(selector(object, &["spec", "selector"])),
        )
    }
}

/// A condition of a failure policy is looked for as true.
pub(super) fn failure_policy_defaults(spec: &mut Value) {
    let rules =
        spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules")).and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            if pattern["status"].as_str().is_none_or(str::is_empty) {
                pattern["status"] = json!("True");
            }
        }
    }
}

/// About the spec of a job at a path.
pub(super) fn spec_warnings(object: &Object, path: &[&str]) -> Vec<String> {
    const COMPLETIONS_SOFT_MAX: i64 = 100_000;
    const PARALLELISM_SOFT_MAX: i64 = 10_000;
    let spec = object.at(path).unwrap_or(&Value::Null);
    let count = |key: &str| spec[key].as_i64().unwrap_or(0);
    let mut told = Vec::new();
    if spec["completionMode"] == "Indexed"
        && count("completions") > COMPLETIONS_SOFT_MAX
        && count("parallelism") > PARALLELISM_SOFT_MAX
    {
        told.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            path.join(".")
        ));
    }
    told.extend(template::warnings::pod_template(object, &[path, &["template"]].concat()));
    told
}

/// A job without labels has those of its template, as every read of it in Kubernetes finds it. The answer is whether it
/// got them now.
fn labels_from_template(object: &mut Object) -> bool {
    let own = object.at(&["metadata", "labels"]).unwrap_or(&Value::Null);
    let of_template = object.at(&["spec", "template", "metadata", "labels"]).unwrap_or(&Value::Null);
    if fields::entries(own).next().is_some() || fields::entries(of_template).next().is_none() {
        return false;
    }
    let labels = of_template.clone();
    object.set(&["metadata", "labels"], labels);
    true
}

fn state(object: &Object) -> &'static str {
    let status = object.at(&["status"]).unwrap_or(&Value::Null);
    let is = |kind: &str| job_status::is(status, kind, "True");
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if object.is_terminating() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(object: &Object) -> String {
    let done = object.int(&["status", "succeeded"]).unwrap_or(0);
    match (object.int(&["spec", "completions"]), object.int(&["spec", "parallelism"]).unwrap_or(0)) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    }
}

/// How long the job has run, or ran; empty before it has begun.
fn took(object: &Object, now: i64) -> String {
    let time = |key: &str| object.at(&["status", key]).and_then(Value::as_str).and_then(parse_time);
    let Some(start) = time("startTime") else { return String::new() };
    let end = time("completionTime").map_or(now, |end| end.as_second());
    duration(end - start.as_second())
}

/// Every fault of a job's spec but its selector, also of one in a CronJob.
pub(super) fn validate_spec(spec: &Value, path: &Path, faults: &mut Faults) {
    job_spec::validate(spec, path, faults);
    template::whole::pod_template(&spec["template"], &path.child("template"), faults);
    job_spec::restart_policy(spec, path, faults);
}

/// The names of all containers of a template that have one.
pub(super) fn container_names(template: &Value) -> Vec<&str> {
    let spec = &template["spec"];
    let lists = ["containers", "initContainers"].into_iter().flat_map(|key| items(spec, key));
    lists.filter_map(|container| container["name"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(mut spec: Value) -> Object {
        spec["template"] = json!({"metadata": {"labels": {"l": "m"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let value = json!({"metadata": {"name": "x", "uid": "u"}, "spec": spec});
        let mut object = Object::from_value(value).expect("a map");
        JobStrategy.default(&mut object);
        object
    }

    #[test]
    fn a_name_too_long_for_a_label_is_told_of_where_the_client_put_labels() {
        let fields = |labels: Value| {
            let mut job = job(json!({}));
            job.set(&["metadata", "name"], "a".repeat(64));
            job.set(&["spec", "template", "metadata", "labels"], labels);
            JobStrategy.prepare_create(&mut job).expect("taken");
            let own = job.at(&["metadata", "labels", "job-name"]).is_some();
            JobStrategy.canonicalize(&mut job);
            assert!(job.at(&["metadata", "labels", "job-name"]).is_some());
            own
        };
        assert!(!fields(json!({})), "labels of the template alone are judged");
        assert!(fields(json!({"l": "m"})));
    }

    #[test]
    fn what_is_left_out_depends_on_what_is_there() {
        for (spec, expected) in [
            (json!({}), json!([1, 1, 6, "TerminatingOrFailed"])),
            (json!({"parallelism": 3}), json!([null, 3, 6, "TerminatingOrFailed"])),
            (json!({"completions": 3, "backoffLimitPerIndex": 1}), json!([3, 1, 2_147_483_647, "TerminatingOrFailed"])),
            (json!({"podFailurePolicy": {"rules": []}}), json!([1, 1, 6, "Failed"])),
        ] {
            let job = job(spec.clone());
            let of = |key: &str| job.at(&["spec", key]).cloned().unwrap_or_default();
            let told: Value =
                ["completions", "parallelism", "backoffLimit", "podReplacementPolicy"].map(of).to_vec().into();
            assert_eq!(told, expected, "{spec}");
        }
    }

    #[test]
    fn the_selector_is_made_and_the_labels_follow_the_template() {
        let mut made = job(json!({}));
        JobStrategy.prepare_create(&mut made).expect("taken");
        let mut faults = Faults::new();
        JobStrategy.validate_create(&made, &mut faults);
        assert!(faults.is_empty(), "{:?}", faults.into_causes());
        assert_eq!(made.text(&["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"]), "u");
        assert_eq!(made.at(&["metadata", "labels"]), made.at(&["spec", "template", "metadata", "labels"]));
        assert_eq!(made.text(&["metadata", "labels", "job-name"]), "x");
    }

    #[test]
    fn the_cells_tell_how_far_a_job_is() {
        let mut job = job(json!({"parallelism": 3}));
        job.set(&["status", "succeeded"], 2);
        job.set(&["status", "startTime"], "2026-01-01T00:00:00Z");
        job.set(&["status", "completionTime"], "2026-01-01T00:00:09Z");
        job.set(&["status", "conditions"], json!([{"type": "Complete", "status": "True"}]));
        let shown: Vec<String> = JobStrategy.cells(&job, 0).iter().map(ToString::to_string).collect();
        assert_eq!(&shown[1..4], ["Complete", "2/1 of 3", "9s"]);
    }
}
