//! The descriptions of Jobs and CronJobs, line by line as kubectl 1.36 writes them.

use listwatch_proto::resource::{LabelSelector, Object, parse_time};
use serde_json::Value;

use super::small::identity;
use super::template::template_of;
use super::text::{annotations, field, multiline, pairs, time};
use crate::commands::age::human_duration;

/// Where a list of completed indexes is cut (kubectl's number).
const INDEXES_MAX: usize = 50;
const UNSET: &str = "<unset>";

/// A Job, without the Events.
pub(super) fn job(out: &mut String, object: &Object) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    field(out, "Selector", &selector(&spec["selector"]));
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    if let Some(owner) = object.controller() {
        field(out, "Controlled By", &format!("{}/{}", owner.kind, owner.name));
    }
    given(out, "Parallelism", &spec["parallelism"], "");
    field(out, "Completions", &shown(&spec["completions"], "").unwrap_or_else(|| UNSET.to_owned()));
    given(out, "Completion Mode", &spec["completionMode"], "");
    given(out, "Suspend", &spec["suspend"], "");
    given(out, "Backoff Limit", &spec["backoffLimit"], "");
    given(out, "TTL Seconds After Finished", &spec["ttlSecondsAfterFinished"], "");
    let (start, end) = (object.text(&["status", "startTime"]), object.text(&["status", "completionTime"]));
    if !start.is_empty() {
        field(out, "Start Time", &time(start));
    }
    if !end.is_empty() {
        field(out, "Completed At", &time(end));
    }
    if let (Some(start), Some(end)) = (parse_time(start), parse_time(end)) {
        field(out, "Duration", &human_duration(end.as_second() - start.as_second()));
    }
    given(out, "Active Deadline Seconds", &spec["activeDeadlineSeconds"], "s");
    let count = |name: &str| object.int(&["status", name]).unwrap_or(0);
    let ready = object.int(&["status", "ready"]).map_or_else(String::new, |ready| format!(" ({ready} Ready)"));
    let (active, succeeded, failed) = (count("active"), count("succeeded"), count("failed"));
    field(out, "Pods Statuses", &format!("{active} Active{ready} / {succeeded} Succeeded / {failed} Failed"));
    if spec["completionMode"] == "Indexed" {
        field(out, "Completed Indexes", &capped(object.text(&["status", "completedIndexes"])));
    }
    template_of(out, &spec["template"]);
}

/// A CronJob, without the Events.
pub(super) fn cron_job(out: &mut String, object: &Object) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let or_unset = |value: &Value, unit: &str| shown(value, unit).unwrap_or_else(|| UNSET.to_owned());
    identity(out, object);
    field(out, "Schedule", spec["schedule"].as_str().unwrap_or_default());
    field(out, "Concurrency Policy", spec["concurrencyPolicy"].as_str().unwrap_or_default());
    field(out, "Suspend", flag(&spec["suspend"]));
    field(out, "Time Zone", &or_unset(&spec["timeZone"], ""));
    field(out, "Successful Job History Limit", &or_unset(&spec["successfulJobsHistoryLimit"], ""));
    field(out, "Failed Job History Limit", &or_unset(&spec["failedJobsHistoryLimit"], ""));
    field(out, "Starting Deadline Seconds", &or_unset(&spec["startingDeadlineSeconds"], "s"));
    let job = &spec["jobTemplate"]["spec"];
    field(out, "Selector", &if job["selector"].is_null() { UNSET.to_owned() } else { selector(&job["selector"]) });
    field(out, "Parallelism", &or_unset(&job["parallelism"], ""));
    field(out, "Completions", &or_unset(&job["completions"], ""));
    given(out, "Active Deadline Seconds", &job["activeDeadlineSeconds"], "s");
    template_of(out, &job["template"]);
    let last = object.text(&["status", "lastScheduleTime"]);
    field(out, "Last Schedule Time", &if last.is_empty() { UNSET.to_owned() } else { time(last) });
    let active = object.at(&["status", "active"]).and_then(Value::as_array).into_iter().flatten();
    let active: Vec<_> = active.filter_map(|job| job["name"].as_str()).collect();
    field(out, "Active Jobs", &if active.is_empty() { "<none>".to_owned() } else { active.join(", ") });
}

/// `True`, `False`, or that nothing is said.
pub(super) fn flag(value: &Value) -> &'static str {
    match value.as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    }
}

fn shown(value: &Value, unit: &str) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{text}{unit}")),
        other => Some(format!("{other}{unit}")),
    }
}

/// A line that is only there if something is said.
fn given(out: &mut String, label: &str, value: &Value, unit: &str) {
    if let Some(text) = shown(value, unit) {
        field(out, label, &text);
    }
}

fn selector(value: &Value) -> String {
    match LabelSelector::from_json(value) {
        Ok(selector) => selector.to_string(),
        Err(problem) => format!("Failed to get selector: {problem}"),
    }
}

/// The whole list, or as much of it as ends behind the limit.
fn capped(indexes: &str) -> String {
    if indexes.is_empty() {
        return "<none>".to_owned();
    }
    let end = indexes.get(INDEXES_MAX..).and_then(|rest| rest.find(','));
    end.map_or_else(|| indexes.to_owned(), |end| format!("{}...", &indexes[..=INDEXES_MAX + end]))
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    const TEMPLATE: &str = "\
Pod Template:
  Labels:  <none>
  Containers:
   c:
    Image:         x
    Port:          <none>
    Host Port:     <none>
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>
";

    #[test]
    fn a_job_is_described_as_kubectl_describes_it() {
        let object = json!({"metadata": {"name": "j", "namespace": "ns"},
            "spec": {"parallelism": 1, "completions": 2, "completionMode": "Indexed", "suspend": false, "backoffLimit": 6,
                "activeDeadlineSeconds": 9, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "x"}]}}},
            "status": {"active": 1, "ready": 1, "succeeded": 1, "completedIndexes": "0",
                "startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:05:10Z"}});
        let mut out = String::new();
        job(&mut out, &Object::from_value(object).expect("a map"));
        let (start, end) = (time("2026-01-02T03:04:05Z"), time("2026-01-02T03:05:10Z"));
        let head = format!(
            "Name:                     j\nNamespace:                ns\nSelector:                 a=b\n\
             Labels:                   <none>\nAnnotations:              <none>\nParallelism:              1\n\
             Completions:              2\nCompletion Mode:          Indexed\nSuspend:                  false\n\
             Backoff Limit:            6\nStart Time:               {start}\nCompleted At:             {end}\n\
             Duration:                 65s\nActive Deadline Seconds:  9s\n\
             Pods Statuses:            1 Active (1 Ready) / 1 Succeeded / 0 Failed\nCompleted Indexes:        0\n"
        );
        assert_eq!(align(&out), format!("{head}{TEMPLATE}"));
    }

    #[test]
    fn a_cron_job_is_described_as_kubectl_describes_it() {
        let object = json!({"metadata": {"name": "c", "namespace": "ns"},
            "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false,
                "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {
                "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}},
            "status": {"active": [{"name": "c-1"}, {"name": "c-2"}]}});
        let mut out = String::new();
        cron_job(&mut out, &Object::from_value(object).expect("a map"));
        let text = align(&out);
        assert!(
            text.starts_with(
                "Name:                          c\nNamespace:                     ns\n\
             Labels:                        <none>\nAnnotations:                   <none>\n\
             Schedule:                      * * * * *\nConcurrency Policy:            Allow\n\
             Suspend:                       False\nTime Zone:                     <unset>\n\
             Successful Job History Limit:  3\nFailed Job History Limit:      1\n\
             Starting Deadline Seconds:     <unset>\nSelector:                      <unset>\n\
             Parallelism:                   <unset>\nCompletions:                   <unset>\nPod Template:\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("Last Schedule Time:  <unset>\nActive Jobs:         c-1, c-2\n"), "{text}");
    }

    #[test]
    fn long_lists_of_indexes_are_cut_behind_a_comma() {
        assert_eq!(capped(""), "<none>");
        assert_eq!(capped("0-3"), "0-3");
        let long = "10,".repeat(30);
        assert_eq!(capped(&long), format!("{}...", "10,".repeat(17)));
    }
}
