//! What may change of a job's status. A rule counts only where the status breaks it anew, so that a status that was wrong
//! before can still be written (Kubernetes 1.36).

use std::collections::HashSet;

use listwatch_proto::resource::{Object, parse_time};
use serde_json::Value;

use super::{indexes, shown};
use crate::registry::kinds::vocabulary::counts;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};

/// Whether a condition of this type has this status.
pub(super) fn is(status: &Value, kind: &str, wanted: &str) -> bool {
    items(status, "conditions").iter().any(|c| text(c, "type") == kind && text(c, "status") == wanted)
}

/// Whether the template of a job may change: it is suspended, and nothing of it runs.
pub(super) fn may_change_template(job: &Object) -> bool {
    let status = job.at(&["status"]).unwrap_or(&Value::Null);
    job.flag(&["spec", "suspend"])
        && (!has(status, "startTime") || is(status, "Suspended", "True"))
        && status["active"].as_i64().unwrap_or(0) == 0
}

/// The status before and after, and what of it has changed.
struct Change<'a> {
    spec: &'a Value,
    is: &'a Value,
    was: &'a Value,
    path: Path,
}

impl Change<'_> {
    fn now(&self, kind: &str) -> bool {
        is(self.is, kind, "True")
    }

    fn before(&self, kind: &str) -> bool {
        is(self.was, kind, "True")
    }

    /// Whether one of these conditions has changed.
    fn turned(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.now(kind) != self.before(kind))
    }

    /// Whether one of these fields has changed.
    fn changed(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.is[*key] != self.was[*key])
    }

    fn count(&self, key: &str) -> i64 {
        self.is[key].as_i64().unwrap_or(0)
    }

    fn finished(&self) -> bool {
        self.now("Complete") || self.now("Failed")
    }

    fn finish_turned(&self) -> bool {
        self.finished() != (self.before("Complete") || self.before("Failed"))
    }

    fn conditions(&self, why: &str, faults: &mut Faults) {
        faults.invalid_unshown(&self.path.child("conditions"), why);
    }
}

/// Every fault of a change of the status.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    let part = |object, key: &str| Object::at(object, &[key]).unwrap_or(&Value::Null);
    let change = Change {
        spec: part(new, "spec"),
        is: part(new, "status"),
        was: part(old, "status"),
        path: Path::new("status"),
    };
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        counts::non_negative(change.is, key, &change.path, faults);
    }
    uncounted(&change, faults);
    ends(&change, faults);
    finished(&change, faults);
    listed(&change, faults);
    if change.changed(&["terminating"]) || change.finish_turned() {
        let count = change.count("terminating");
        if count > 0 && change.finished() {
            let at = change.path.child("terminating");
            faults.invalid(&at, count, "terminating>0 is invalid for finished job");
        }
    }
    if change.changed(&["ready", "active"]) && change.count("ready") > change.count("active") {
        let at = change.path.child("ready");
        faults.invalid(&at, change.count("ready"), "cannot set more ready pods than active");
    }
    success(&change, faults);
    no_way_back(&change, faults);
}

fn uncounted(change: &Change<'_>, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        let path = change.path.child("uncountedTerminatedPods").child(key);
        for (i, uid) in items(&change.is["uncountedTerminatedPods"], key).iter().enumerate() {
            let uid = uid.as_str().unwrap_or_default();
            if uid.is_empty() {
                faults.invalid(&path.index(i), "", "must not be empty");
            } else if !seen.insert(uid) {
                faults.duplicate(&path.index(i), uid);
            }
        }
    }
}

/// How a job ends: its conditions and times fit together.
fn ends(change: &Change<'_>, faults: &mut Faults) {
    let (complete, failed) = (change.now("Complete"), change.now("Failed"));
    if change.turned(&["Complete", "Failed"]) && complete && failed {
        change.conditions("cannot set Complete=True and Failed=true conditions", faults);
    }
    if change.turned(&["Complete", "FailureTarget"]) && complete && change.now("FailureTarget") {
        change.conditions("cannot set Complete=True and FailureTarget=true conditions", faults);
    }
    let (end, start) = (&change.is["completionTime"], &change.is["startTime"]);
    let at = change.path.child("completionTime");
    if change.turned(&["Complete"]) || change.changed(&["completionTime"]) {
        if !end.is_null() && !complete {
            faults.invalid(&at, end, "cannot set completionTime when there is no Complete=True condition");
        }
        if end.is_null() && complete {
            faults.required(&at, "completionTime is required for Complete jobs");
        }
    }
    let time = |value: &Value| value.as_str().and_then(parse_time);
    if change.changed(&["startTime", "completionTime"])
        && let (Some(start), Some(ended)) = (time(start), time(end))
        && ended < start
    {
        faults.invalid(&at, end, "must be equal to or after `startTime`");
    }
    if (change.turned(&["Failed"]) || change.changed(&["failedIndexes"])) && failed && !change.now("FailureTarget") {
        change.conditions("cannot set Failed=True condition without the FailureTarget=true condition", faults);
    }
    if change.turned(&["Complete", "SuccessCriteriaMet"]) && complete && !change.now("SuccessCriteriaMet") {
        change.conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition", faults);
    }
}

/// Nothing of a finished job runs any more.
fn finished(change: &Change<'_>, faults: &mut Faults) {
    let (finished, turned) = (change.finished(), change.finish_turned());
    if (turned || change.changed(&["active"])) && change.count("active") > 0 && finished {
        faults.invalid(&change.path.child("active"), change.count("active"), "active>0 is invalid for finished job");
    }
    let nothing_to_do = change.spec["suspend"] == true && change.spec["completions"] == 0;
    if (turned || change.changed(&["startTime"])) && !nothing_to_do && !has(change.is, "startTime") && finished {
        faults.required(&change.path.child("startTime"), "startTime is required for finished job");
    }
    let waiting = &change.is["uncountedTerminatedPods"];
    let some = !items(waiting, "succeeded").is_empty() || !items(waiting, "failed").is_empty();
    if (turned || change.changed(&["uncountedTerminatedPods"])) && finished && some {
        let at = change.path.child("uncountedTerminatedPods");
        faults.invalid(&at, Shown(shown::uncounted(waiting)), "must be empty for finished job");
    }
}

/// The indexes that are completed and failed.
fn listed(change: &Change<'_>, faults: &mut Faults) {
    let (completed, failed) = (text(change.is, "completedIndexes"), change.is["failedIndexes"].as_str());
    let (completions, per_index) = (change.spec["completions"].as_i64(), has(change.spec, "backoffLimitPerIndex"));
    let [completed_at, failed_at] = ["completedIndexes", "failedIndexes"].map(|key| change.path.child(key));
    let [completed_changed, failed_changed] = ["completedIndexes", "failedIndexes"].map(|key| change.changed(&[key]));
    if completed_changed && let Some(Err(why)) = completions.map(|completions| indexes::count(completed, completions)) {
        faults.invalid(&completed_at, completed, &format!("error parsing completedIndexes: {why}"));
    }
    if failed_changed
        && per_index
        && let (Some(failed), Some(completions)) = (failed, completions)
        && let Err(why) = indexes::count(failed, completions)
    {
        faults.invalid(&failed_at, failed, &format!("error parsing failedIndexes: {why}"));
    }
    if completed_changed && !completed.is_empty() && change.spec["completionMode"] != "Indexed" {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        faults.invalid(&completed_at, completed, why);
    }
    let Some(failed) = failed else { return };
    if failed_changed && !per_index {
        faults.invalid(&failed_at, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if (failed_changed || completed_changed)
        && let Some(index) = completions.and_then(|completions| indexes::overlap(completed, failed, completions))
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        faults.invalid(&failed_at, failed, &why);
    }
}

fn success(change: &Change<'_>, faults: &mut Faults) {
    let met = change.now("SuccessCriteriaMet");
    if met && change.now("Failed") {
        change.conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions", faults);
    }
    if met && change.now("FailureTarget") {
        change.conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", faults);
    }
    if has(change.spec, "successPolicy") && !met && change.now("Complete") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        change.conditions(why, faults);
    }
}

/// What has been reached is not taken back.
fn no_way_back(change: &Change<'_>, faults: &mut Faults) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if change.before(kind) && !change.now(kind) {
            change.conditions(&format!("cannot disable the terminal {kind}=True condition"), faults);
        }
    }
    let elastic =
        change.spec["completionMode"] == "Indexed" && change.spec["completions"] == change.spec["parallelism"];
    for key in ["failed", "succeeded"].iter().filter(|key| **key == "failed" || !elastic) {
        if change.count(key) < change.was[*key].as_i64().unwrap_or(0) {
            let why = format!("cannot decrease the {key} counter");
            faults.invalid(&change.path.child(key), change.count(key), &why);
        }
    }
    let (end, ended) = (&change.is["completionTime"], &change.was["completionTime"]);
    if !end.is_null() && !ended.is_null() && end != ended {
        faults.invalid(&change.path.child("completionTime"), end, "field is immutable");
    }
    let resuming = is(change.was, "Suspended", "True") && is(change.is, "Suspended", "False");
    if change.changed(&["startTime"]) && has(change.was, "startTime") && !resuming && change.spec["suspend"] != true {
        let at = change.path.child("startTime");
        faults.invalid(&at, &change.is["startTime"], "field is immutable for unsuspended job once set");
    }
    if change.before("SuccessCriteriaMet") && !change.now("SuccessCriteriaMet") {
        change.conditions("cannot disable the SuccessCriteriaMet=True condition", faults);
    }
    if change.before("Complete") && !change.before("SuccessCriteriaMet") && change.now("SuccessCriteriaMet") {
        let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        change.conditions(why, faults);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(spec: &Value, was: &Value, is: &Value) -> Vec<String> {
        let job = |status: &Value| Object::from_value(json!({"spec": spec, "status": status})).expect("a map");
        let mut faults = Faults::new();
        validate(&job(is), &job(was), &mut faults);
        faults.told()
    }

    fn conditions(kinds: &[&str]) -> Value {
        kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
    }

    #[test]
    fn a_job_ends_in_order() {
        let start = "2026-01-01T00:00:00Z";
        let done = json!({"startTime": start, "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1,
            "conditions": conditions(&["SuccessCriteriaMet", "Complete"])});
        let spec = json!({"completionMode": "NonIndexed"});
        assert_eq!(told(&spec, &json!({"startTime": start}), &done), [""; 0]);
        let mut early = done.clone();
        early["completionTime"] = json!("2025-01-01T00:00:00Z");
        assert_eq!(
            told(&spec, &json!({}), &early),
            ["status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": must be equal to or after `startTime`"]
        );
        assert_eq!(
            told(&spec, &json!({}), &json!({"conditions": conditions(&["Failed"])})),
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true \
                 condition",
                "status.startTime: Required value: startTime is required for finished job",
            ]
        );
    }

    #[test]
    fn what_was_wrong_before_may_stay() {
        let odd = json!({"conditions": conditions(&["Failed"])});
        assert_eq!(told(&json!({}), &odd, &odd), [""; 0]);
        assert_eq!(
            told(&json!({}), &odd, &json!({})),
            ["status.conditions: Invalid value: cannot disable the terminal Failed=True condition"]
        );
    }
}
