//! IPAddress (networking.k8s.io): an address that is taken, and by what.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown, quote};
use crate::registry::kinds::vocabulary::fields::text as word;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{NAME, NONE, age, column, text};
use crate::registry::kinds::vocabulary::{addresses, names};
use crate::registry::table::{Cell, Column};

pub(super) struct IPAddressStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "ParentRef",
        "string",
        "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a parent object.",
        0,
    ),
];

impl Strategy for IPAddressStrategy {
    fn schema(&self) -> &'static str {
        "networking/v1.IPAddress"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let path = Path::new("spec.parentRef");
        let Some(parent) = object.at(&["spec", "parentRef"]).filter(|parent| !parent.is_null()) else {
            faults.required(&path, "");
            return;
        };
        let group = word(parent, "group");
        if !group.is_empty() {
            faults.invalid_all(&path.child("group"), group, names::subdomain(group, false));
        }
        for (key, needed) in [("resource", true), ("name", true), ("namespace", false)] {
            let value = word(parent, key);
            if !value.is_empty() {
                faults.invalid_all(&path.child(key), value, names::path_segment_name(value));
            } else if needed {
                faults.required(&path.child(key), "");
            }
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
        let (was, is) = (old.at(&["spec", "parentRef"]), new.at(&["spec", "parentRef"]));
        if was != is {
            faults.invalid(&Path::new("spec.parentRef"), shown(is.unwrap_or(&Value::Null)), "field is immutable");
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, ..Habits::USUAL }
    }

    fn name_faults(&self, name: &str, _prefix: bool) -> Vec<String> {
        let mut faults = Faults::new();
        addresses::canonical_ip(name, &Path::new(""), &mut faults);
        let head = format!("Invalid value: {}: ", quote(name));
        faults.into_causes().into_iter().map(|cause| cause.message.replacen(&head, "", 1)).collect()
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // Upstream's rows have one cell more than there are columns.
    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let parent = object.at(&["spec", "parentRef"]).unwrap_or(&Value::Null);
        let mut reference = NONE.to_owned();
        if !parent.is_null() {
            reference = word(parent, "resource").to_lowercase();
            if !word(parent, "group").is_empty() {
                reference = format!("{reference}.{}", word(parent, "group").to_lowercase());
            }
            for key in ["namespace", "name"].into_iter().filter(|key| *key == "name" || !word(parent, key).is_empty()) {
                reference = format!("{reference}/{}", word(parent, key));
            }
        }
        vec![text(object.name()), text(reference), age(object, now)]
    }
}

/// A reference as Go writes it: in the order in which the fields are declared.
fn shown(parent: &Value) -> Shown {
    if parent.is_null() {
        return Shown("null".to_owned());
    }
    let field = |name: &str, key: &str| format!("{name:?}:{}", quote(word(parent, key)));
    let fields = [
        field("Group", "group"),
        field("Resource", "resource"),
        field("Namespace", "namespace"),
        field("Name", "name"),
    ];
    Shown(format!("{{{}}}", fields.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_is_an_address_in_its_usual_form() {
        let told = |name: &str| IPAddressStrategy.name_faults(name, false);
        assert!(told("10.0.0.1").is_empty());
        assert!(told("fd00::1").is_empty());
        assert_eq!(told("fd00:0::1"), ["must be in canonical form (\"fd00::1\")"]);
        assert_eq!(told("x"), ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]);
    }

    #[test]
    fn the_parent_is_named_and_stays() {
        let of = |parent: Value| Object::from_value(json!({"spec": {"parentRef": parent}})).expect("a map");
        let mut faults = Faults::new();
        IPAddressStrategy.validate_create(&of(json!({})), &mut faults);
        let fields: Vec<_> = faults.into_causes().into_iter().map(|cause| cause.field).collect();
        assert_eq!(fields, ["spec.parentRef.resource", "spec.parentRef.name"]);
        let old = of(json!({"resource": "services", "namespace": "n", "name": "a"}));
        let new = of(json!({"resource": "services", "namespace": "n", "name": "b"}));
        let mut faults = Faults::new();
        IPAddressStrategy.validate_update(Part::Main, &new, &old, &mut faults);
        assert_eq!(
            faults.into_causes()[0].message,
            "Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"n\",\"Name\":\"b\"}: field is immutable"
        );
        assert_eq!(IPAddressStrategy.cells(&old, 0)[1], text("services/n/a"));
    }
}
