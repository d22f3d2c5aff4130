//! CronJob (batch).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::{job, schedule};
use crate::registry::kinds::strategy::{Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, has, items, text as txt};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, selector, since, text};
use crate::registry::kinds::vocabulary::{counts, selectors};
use crate::registry::table::{Cell, Column};

pub(super) struct CronJobStrategy;

/// Where the spec of the jobs stands.
const JOB_SPEC: [&str; 3] = ["spec", "jobTemplate", "spec"];
/// Characters of a name: eleven more must fit into a label behind it.
const NAME_MAX: usize = 52;

const COLUMNS: &[Column] = &[
    NAME,
    column("Schedule", "string", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron.", 0),
    column(
        "Timezone",
        "string",
        "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If \
         not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time \
         zone names and the time zone offset is loaded from the system-wide time zone database by the API server during \
         CronJob validation and the controller manager during execution. If no system-wide time zone database can be \
         found a bundled version of the database is used instead. If the time zone name becomes invalid during the \
         lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs \
         and will create a system event with the reason UnknownTimeZone. More information can be found in \
         https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
        0,
    ),
    column(
        "Suspend",
        "boolean",
        "This flag tells the controller to suspend subsequent executions, it does not apply to already started \
         executions.  Defaults to false.",
        0,
    ),
    column("Active", "integer", "A list of pointers to currently running jobs.", 0),
    column("Last Schedule", "string", "Information when was the last time the job was successfully scheduled.", 0),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
    column("Selector", "string", job::SELECTOR, 1),
];

impl Strategy for CronJobStrategy {
    fn schema(&self) -> &'static str {
        "batch/v1.CronJob"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        if txt(spec, "concurrencyPolicy").is_empty() {
            spec["concurrencyPolicy"] = json!("Allow");
        }
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        let job_spec = &mut spec["jobTemplate"]["spec"];
        job::failure_policy_defaults(job_spec);
        template::defaults::template(&mut job_spec["template"]);
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({}));
        template::defaults::drop_disabled(object.at_mut(&["spec", "jobTemplate", "spec", "template", "spec"]));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                template::defaults::drop_disabled(new.at_mut(&["spec", "jobTemplate", "spec", "template", "spec"]));
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validate_spec(object.at(&["spec"]).unwrap_or(&Value::Null), None, faults);
        if object.name().len() > NAME_MAX {
            let why = format!("must be no more than {NAME_MAX} characters");
            faults.invalid(&Path::new("metadata.name"), object.name(), &why);
        }
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part != Part::Status {
            validate_spec(new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]), faults);
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let mut told = template::warnings::name_of_pods(object);
        told.extend(job::spec_warnings(object, &JOB_SPEC));
        told
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let mut told = Vec::new();
        if new.generation() != old.generation() {
            told = job::spec_warnings(new, &JOB_SPEC);
        }
        if new.text(&["spec", "schedule"]).contains("TZ") {
            // Upstream names the path so.
            told.push(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        told
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let status = object.at(&["status"]).unwrap_or(&Value::Null);
        let suspended = match spec["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let last = status["lastScheduleTime"].as_str().map_or_else(|| NONE.to_owned(), |time| since(time, now));
        let pod = &spec["jobTemplate"]["spec"]["template"]["spec"];
        let joined = |key: &str| {
            let words: Vec<_> = items(pod, "containers").iter().map(|container| txt(container, key)).collect();
            text(words.join(","))
        };
        vec![
            text(object.name()),
            text(txt(spec, "schedule")),
            text(spec["timeZone"].as_str().unwrap_or(NONE)),
            text(suspended),
            Cell::Int(i64::try_from(items(status, "active").len()).unwrap_or(i64::MAX)),
            text(last),
            age(object, now),
            joined("name"),
            joined("image"),
            selector(object, &["spec", "jobTemplate", "spec", "selector"]),
        ]
    }
}

fn validate_spec(spec: &Value, old: Option<&Value>, faults: &mut Faults) {
    let path = Path::new("spec");
    let schedule_at = path.child("schedule");
    match txt(spec, "schedule") {
        "" => faults.required(&schedule_at, ""),
        text => {
            let zone_allowed = old.is_some_and(|old| txt(old, "schedule").contains("TZ"));
            check_schedule(text, zone_allowed, has(spec, "timeZone"), &schedule_at, faults);
        }
    }
    counts::non_negative(spec, "startingDeadlineSeconds", &path, faults);
    if old.is_none_or(|old| old["timeZone"] != spec["timeZone"]) {
        time_zone(&spec["timeZone"], &path.child("timeZone"), faults);
    }
    match txt(spec, "concurrencyPolicy") {
        "" => faults.required(&path.child("concurrencyPolicy"), ""),
        "Allow" | "Forbid" | "Replace" => {}
        other => faults.not_supported(&path.child("concurrencyPolicy"), other, &["Allow", "Forbid", "Replace"]),
    }
    let (job_spec, at) = (&spec["jobTemplate"]["spec"], path.child("jobTemplate").child("spec"));
    job::validate_spec(job_spec, &at, faults);
    if has(job_spec, "selector") {
        let shown = Shown(selectors::ordered_selector(&job_spec["selector"]));
        faults.invalid(&at.child("selector"), shown, "`selector` will be auto-generated");
    }
    if job_spec["manualSelector"] == true {
        faults.not_supported(&at.child("manualSelector"), &Value::Bool(true), &["nil", "false"]);
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        counts::non_negative(spec, key, &path, faults);
    }
}

fn check_schedule(text: &str, zone_allowed: bool, has_zone: bool, path: &Path, faults: &mut Faults) {
    if let Err(why) = schedule::check(text, |zone| zone.is_empty() || zone == "Local" || is_zone(zone)) {
        faults.invalid(path, text, &why);
    }
    if !text.contains("TZ") {
        return;
    }
    if !zone_allowed {
        faults.invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    } else if has_zone {
        faults.invalid(path, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    }
}

fn time_zone(zone: &Value, path: &Path, faults: &mut Faults) {
    const PART_MAX: usize = 14;
    let Some(zone) = zone.as_str() else { return };
    if zone.is_empty() {
        faults.invalid(path, zone, "timeZone must be nil or non-empty string");
        return;
    }
    let unknown = format!("unknown time zone {zone}");
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.starts_with('-')
            && part.len() <= PART_MAX
            && part.bytes().all(allowed)
    };
    if !zone.split('/').all(is_part) {
        faults.invalid(path, zone, &unknown);
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.invalid(path, zone, why);
    }
    if zone != "Local" && !is_zone(zone) {
        faults.invalid(path, zone, &unknown);
    }
}

/// Whether there is a time zone of exactly this name. The database is the one built in: which zones there are must not
/// depend on the machine.
fn is_zone(name: &str) -> bool {
    name == "UTC" || jiff::tz::db().get(name).is_ok_and(|zone| zone.iana_name() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(spec: Value, old: Option<Value>) -> Vec<String> {
        let cron_job = |spec: Value| {
            let mut spec = spec;
            spec["jobTemplate"] = json!({"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
            let value = json!({"metadata": {"name": "x"}, "spec": spec});
            let mut object = Object::from_value(value).expect("a map");
            CronJobStrategy.default(&mut object);
            object
        };
        let mut faults = Faults::new();
        let new = cron_job(spec);
        match old.map(cron_job) {
            None => CronJobStrategy.validate_create(&new, &mut faults),
            Some(old) => CronJobStrategy.validate_update(Part::Main, &new, &old, &mut faults),
        }
        faults.told()
    }

    #[test]
    fn zones_are_those_of_the_database() {
        for (zone, told) in [
            ("Europe/Berlin", 0),
            ("UTC", 0),
            ("Etc/GMT+5", 0),
            ("europe/berlin", 1),
            ("Foo/Bar", 1),
            ("local", 2),
            ("Local", 1),
            ("", 1),
            ("../x", 1),
        ] {
            let faults = faults_of(json!({"schedule": "@daily", "timeZone": zone}), None);
            assert_eq!(faults.len(), told, "{zone}: {faults:?}");
        }
    }

    #[test]
    fn a_zone_in_the_schedule_may_stay_but_not_come() {
        let with = json!({"schedule": "TZ=UTC 0 0 * * *"});
        assert_eq!(faults_of(with.clone(), None).len(), 1);
        assert!(faults_of(with.clone(), Some(with.clone())).is_empty());
        let both = json!({"schedule": "TZ=UTC 0 0 * * *", "timeZone": "UTC"});
        assert_eq!(
            faults_of(both, Some(with)),
            [
                "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use both timeZone field and TZ or CRON_TZ in \
              schedule"
            ]
        );
    }
}
