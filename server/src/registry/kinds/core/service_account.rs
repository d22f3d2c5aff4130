//! ServiceAccount: who a process in a pod is.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ServiceAccountStrategy;

/// The annotation that holds pods to the secrets of their account.
const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

const COLUMNS: &[Column] = &[NAME, AGE];

impl Strategy for ServiceAccountStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.ServiceAccount"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        keep_names_only(object);
        Ok(())
    }

    fn prepare_update(&self, _part: Part, new: &mut Object, _old: &Object) {
        keep_names_only(new);
    }

    fn validate_create(&self, _object: &Object, _faults: &mut Faults) {}

    fn validate_update(&self, _part: Part, _new: &Object, _old: &Object, _faults: &mut Faults) {}

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        if object.at(&["metadata", "annotations", ENFORCE_MOUNTABLE]).is_none() {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate \
             access to mounted secrets"
        )]
    }

    fn update_warnings(&self, _part: Part, new: &Object, old: &Object) -> Vec<String> {
        match old.at(&["metadata", "annotations", ENFORCE_MOUNTABLE]) {
            Some(_) => Vec::new(),
            None => self.warnings(new),
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), age(object, now)]
    }
}

/// Of a reference to a secret only the name is kept: it lies in the account's own namespace.
fn keep_names_only(object: &mut Object) {
    for secret in object.at_mut(&["secrets"]).as_array_mut().into_iter().flatten() {
        *secret = match &secret["name"] {
            Value::String(name) if !name.is_empty() => json!({"name": name}),
            _ => json!({}),
        };
    }
    if object.at(&["secrets"]).is_some_and(Value::is_null) {
        object.remove(&["secrets"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_secret_only_the_name_is_kept() {
        let mut account =
            Object::from_value(json!({"secrets": [{"name": "a", "namespace": "other", "kind": "Secret"}]}))
                .expect("a map");
        ServiceAccountStrategy.prepare_create(&mut account).expect("admitted");
        assert_eq!(account.into_value(), json!({"secrets": [{"name": "a"}]}));
        let mut account = Object::default();
        ServiceAccountStrategy.prepare_create(&mut account).expect("admitted");
        assert_eq!(account.into_value(), json!({}));
    }

    #[test]
    fn the_deprecated_annotation_is_told_once() {
        let old = Object::default();
        let mut new = Object::default();
        new.set(&["metadata", "annotations", ENFORCE_MOUNTABLE], "true");
        assert_eq!(ServiceAccountStrategy.warnings(&new).len(), 1);
        assert_eq!(ServiceAccountStrategy.update_warnings(Part::Main, &new, &old).len(), 1);
        assert!(ServiceAccountStrategy.update_warnings(Part::Main, &new, &new).is_empty());
    }
}
