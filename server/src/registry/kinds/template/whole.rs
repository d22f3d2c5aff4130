//! The rules of a template of pods as a whole: metadata, spec, the selector beside it, and what all that run pods for ever
//! ask of it.

use serde_json::Value;

use super::{annotations, spec};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::metadata::{annotations as annotation_faults, labels};
use crate::registry::kinds::vocabulary::selectors;

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

/// What a kind says of the selector that stands beside its template, where kinds differ.
pub(in crate::registry::kinds) struct Selecting {
    /// Whether there must be one.
    pub(in crate::registry::kinds) required: bool,
    /// For whom one that selects everything is invalid, as upstream names it; `None` = it may.
    pub(in crate::registry::kinds) never_empty_for: Option<&'static str>,
    /// What is said beside its own faults of one that cannot be read; `None` = nothing.
    pub(in crate::registry::kinds) unreadable: Option<&'static str>,
}

/// Every fault of the selector, and a template that it does not select. False = the selector cannot be read, and the kind
/// says so: some look no further then.
pub(in crate::registry::kinds) fn selector(spec: &Value, path: &Path, rules: &Selecting, faults: &mut Faults) -> bool {
    let (selector, at) = (&spec["selector"], path.child("selector"));
    if selector.is_null() {
        if rules.required {
            faults.required(&at, "");
        }
    } else {
        selectors::label_selector(selector, &at, faults);
        if let Some(whom) = rules.never_empty_for
            && selectors::is_empty_selector(selector)
        {
            faults.invalid(&at, Shown("{}".into()), &format!("empty selector is invalid for {whom}"));
        }
    }
    let template = &spec["template"];
    match (selectors::selects(selector, &template["metadata"]["labels"]), rules.unreadable) {
        (None, Some(why)) => {
            faults.invalid(&at, Shown(selectors::ordered_selector(selector)), why);
            return false;
        }
        (Some(false), _) => mismatch(template, &path.child("template"), faults),
        (Some(true) | None, _) => {}
    }
    true
}

/// Told of a template whose labels its selector does not select.
pub(in crate::registry::kinds) fn mismatch(template: &Value, path: &Path, faults: &mut Faults) {
    let own = &template["metadata"]["labels"];
    faults.invalid(&path.child("metadata").child("labels"), own, "`selector` does not match template `labels`");
}

/// A template that is whole and runs its pods for ever.
pub(in crate::registry::kinds) fn for_ever(template: &Value, what: &str, path: &Path, faults: &mut Faults) {
    pod_template(template, path, faults);
    runs_for_ever(template, what, path, faults);
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
