//! The selector of a job: made by the server, unless the client takes it upon itself.

use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::{Map, Value};

use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::selectors;

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The same labels without a domain, as they once were; pods have both.
const OLD_CONTROLLER_UID: &str = "controller-uid";
const OLD_JOB_NAME: &str = "job-name";

/// Labels the pods with the job's name and uid, and selects by the uid. What the client has put in their place stays,
/// and is refused later.
pub(super) fn generate(job: &mut Object) {
    let (name, uid) = (job.name().to_owned(), job.uid().to_owned());
    let labels = job.at_mut(&["spec", "template", "metadata", "labels"]);
    for (key, value) in [(OLD_JOB_NAME, &name), (JOB_NAME, &name), (OLD_CONTROLLER_UID, &uid), (CONTROLLER_UID, &uid)] {
        map(labels).entry(key).or_insert_with(|| value.as_str().into());
    }
    let selected = job.at_mut(&["spec", "selector", "matchLabels"]);
    map(selected).entry(CONTROLLER_UID).or_insert_with(|| uid.into());
}

fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made a map above")
}

/// Whether the template has the labels with a domain, which jobs of old times had not.
pub(super) fn has_new_labels(job: &Object) -> bool {
    let has = |key: &str| job.at(&["spec", "template", "metadata", "labels", key]).is_some();
    has(JOB_NAME) && has(CONTROLLER_UID)
}

/// Every fault of a selector that was to be made by the server.
pub(super) fn validate(job: &Object, new_labels: bool, faults: &mut Faults) {
    let selector = job.at(&["spec", "selector"]).unwrap_or(&Value::Null);
    if job.flag(&["spec", "manualSelector"]) || selector.is_null() {
        return;
    }
    let labels = job.at(&["spec", "template", "metadata", "labels"]).unwrap_or(&Value::Null);
    let mut wanted = vec![(OLD_CONTROLLER_UID, job.uid()), (OLD_JOB_NAME, job.name())];
    if new_labels {
        wanted.extend([(CONTROLLER_UID, job.uid()), (JOB_NAME, job.name())]);
    }
    let path = Path::new("spec.template.metadata.labels");
    for (key, value) in &wanted {
        let why = format!("must be '{value}'");
        match labels[*key].as_str() {
            None => faults.required(&path.key(key), &why),
            Some(own) if own != *value => faults.invalid(&path.key(key), labels, &why),
            Some(_) => {}
        }
    }
    if selectors::selects(selector, &Value::Null).is_none() {
        return;
    }
    let selected = LabelSelector::from_json(selector)
        .is_ok_and(|s| s.matches(|key| wanted.iter().find(|(own, _)| *own == key).map(|(_, value)| *value)));
    if !selected {
        let shown = Shown(selectors::ordered_selector(selector));
        faults.invalid(&Path::new("spec.selector"), shown, "`selector` not auto-generated");
    }
}
