//! Namespace.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy, keep, label_not_supported};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::default;
use crate::registry::kinds::vocabulary::metadata::{OwnMetadata, finalizer_name};
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

/// The label that names the namespace, so that selectors can.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The namespaces that cannot be deleted (Kubernetes 1.36).
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceStrategy;

const COLUMNS: &[Column] = &[NAME, column("Status", "string", "The status of the namespace", 0), AGE];

impl Strategy for NamespaceStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Namespace"
    }

    fn default(&self, object: &mut Object) {
        let name = object.name().to_owned();
        if !name.is_empty() {
            object.set(&["metadata", "labels", NAME_LABEL], name);
        }
        default(object.at_mut(&["status"]), "phase", "Active");
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        let name = object.name().to_owned();
        if !name.is_empty() {
            object.set(&["metadata", "labels", NAME_LABEL], name);
        }
        object.0.insert("status".into(), serde_json::json!({"phase": "Active"}));
        let finalizers = object.at_mut(&["spec", "finalizers"]);
        match finalizers.as_array_mut() {
            Some(list) if list.iter().any(|f| f == "kubernetes") => {}
            Some(list) => list.push(Value::from("kubernetes")),
            None => *finalizers = serde_json::json!(["kubernetes"]),
        }
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        let kept: &[&str] = match part {
            Part::Status => &["spec"],
            Part::Finalize => &["status"],
            _ => &["spec", "status"],
        };
        keep(new, old, kept);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        finalizers(object, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        match part {
            Part::Finalize => finalizers(new, faults),
            Part::Status => {
                let phase = new.text(&["status", "phase"]);
                let path = Path::new("status.Phase");
                if old.is_terminating() {
                    if phase != "Terminating" {
                        let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                        faults.invalid(&path, phase, why);
                    }
                } else if phase != "Active" {
                    faults.invalid(&path, phase, "may only be 'Active' if `deletionTimestamp` is empty");
                }
            }
            _ => {}
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, is_place: true, ..Habits::USUAL }
    }

    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        names::label(name, prefix)
    }

    fn stays(&self, name: &str) -> Option<&'static str> {
        IMMORTAL.contains(&name).then_some("this namespace may not be deleted")
    }

    fn held(&self, _old: &Object, asked: &Object, now: &str) -> Option<Object> {
        let mut held = asked.clone();
        held.set(&["metadata", "deletionTimestamp"], now);
        held.set(&["status", "phase"], "Terminating");
        Some(held)
    }

    fn may_go(&self, object: &Object) -> bool {
        let emptied = object.at(&["spec", "finalizers"]).and_then(Value::as_array).is_none_or(Vec::is_empty);
        emptied && object.finalizers().next().is_none()
    }

    fn fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(object.text(&["status", "phase"])), age(object, now)]
    }
}

fn finalizers(object: &Object, faults: &mut Faults) {
    let path = Path::new("spec.finalizers");
    let list = object.at(&["spec", "finalizers"]).and_then(Value::as_array);
    for finalizer in list.into_iter().flatten() {
        finalizer_name(finalizer.as_str().unwrap_or_default(), &path, faults);
    }
}
