//! The rules of a template of pods as a whole: metadata, spec, and what all that run pods for ever ask of it.

use serde_json::Value;

use super::{annotations, spec};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::metadata::{annotations as annotation_faults, labels};

/// A template of pods, whatever runs them.
pub(in crate::registry::kinds) fn pod_template(template: &Value, path: &Path, faults: &mut Faults) {
    let metadata = &template["metadata"];
    labels(Some(&metadata["labels"]), &path.child("labels"), faults);
    annotation_faults(Some(&metadata["annotations"]), &path.child("annotations"), faults);
    annotations::validate(&metadata["annotations"], &template["spec"], &path.child("annotations"), faults);
    let at = path.child("spec");
    spec::validate_template(&template["spec"], &at, faults);
    if !items(&template["spec"], "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        faults.forbidden(&at.child("ephemeralContainers"), why);
    }
}

/// Told of a template whose labels its selector does not select.
pub(in crate::registry::kinds) fn mismatch(template: &Value, path: &Path, faults: &mut Faults) {
    let own = &template["metadata"]["labels"];
    faults.invalid(&path.child("metadata").child("labels"), own, "`selector` does not match template `labels`");
}

/// A template must run its pods for ever.
pub(in crate::registry::kinds) fn runs_for_ever(template: &Value, what: &str, path: &Path, faults: &mut Faults) {
    let (spec, path) = (&template["spec"], path.child("spec"));
    let policy = text(spec, "restartPolicy");
    if policy != "Always" && !spec.is_null() {
        faults.not_supported(&path.child("restartPolicy"), policy, &["Always"]);
    }
    if has(spec, "activeDeadlineSeconds") {
        let why = format!("activeDeadlineSeconds in {what} is not Supported");
        faults.forbidden(&path.child("activeDeadlineSeconds"), &why);
    }
}
