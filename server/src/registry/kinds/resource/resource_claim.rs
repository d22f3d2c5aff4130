//! ResourceClaim: asks for devices.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::claim_spec;
use crate::registry::kinds::strategy::{Habits, Part, Reset, STATUS_ALONE, Strategy, keep};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ResourceClaimStrategy;

const COLUMNS: &[Column] =
    &[NAME, column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.).", 0), AGE];
/// Who may use a claim at the same time.
const RESERVED_MAX: usize = 256;

impl Strategy for ResourceClaimStrategy {
    fn schema(&self) -> &'static str {
        "resource/v1.ResourceClaim"
    }

    fn default(&self, object: &mut Object) {
        if let Some(spec) = object.0.get_mut("spec") {
            claim_spec::fill_in(spec);
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({}));
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        if part == Part::Status {
            // Of the metadata only finalizers and owners may come with the status; upstream keeps the rest.
            keep(new, old, &["spec"]);
            for key in ["labels", "annotations"] {
                match old.at(&["metadata", key]) {
                    Some(value) => new.set(&["metadata", key], value.clone()),
                    None => drop(new.remove(&["metadata", key])),
                }
            }
        } else {
            keep(new, old, &["status"]);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        claim_spec::validate(object.at(&["spec"]).unwrap_or(&Value::Null), &Path::new("spec"), faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            validate_status(new, old, faults);
        } else if new.0.get("spec") != old.0.get("spec") {
            faults.invalid(&Path::new("spec"), new.at(&["spec"]).unwrap_or(&Value::Null), "field is immutable");
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, tells_what_it_deleted: true, ..Habits::USUAL }
    }

    fn reset_fields(&self, part: Part) -> Reset {
        if part == Part::Status { STATUS_ALONE } else { Reset::These(&[&["status"]]) }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let status = object.at(&["status"]).unwrap_or(&Value::Null);
        let mut states = Vec::new();
        if object.is_terminating() {
            states.push("deleted");
        }
        if has(status, "allocation") {
            states.push("allocated");
            if !items(status, "reservedFor").is_empty() {
                states.push("reserved");
            }
        } else if !object.is_terminating() {
            states.push("pending");
        }
        vec![text(object.name()), text(states.join(",")), age(object, now)]
    }
}

/// An allocation stays what it was, and only what is allocated can be used.
fn validate_status(new: &Object, old: &Object, faults: &mut Faults) {
    let null = Value::Null;
    let (is, was) = (new.at(&["status"]).unwrap_or(&null), old.at(&["status"]).unwrap_or(&null));
    let path = Path::new("status");
    let users = items(is, "reservedFor");
    let at = path.child("reservedFor");
    claim_spec::list(users, RESERVED_MAX, &at, faults, |user, path, faults| {
        for key in ["resource", "name", "uid"] {
            if field(user, key).is_empty() {
                faults.required(&path.child(key), "");
            }
        }
    });
    for (i, user) in users.iter().enumerate() {
        if users[..i].iter().any(|other| other["uid"] == user["uid"]) {
            faults.duplicate(&at.index(i).child("uid"), &user["uid"]);
        }
    }
    if users.is_empty() {
        return;
    }
    if !has(is, "allocation") {
        faults.forbidden(&at, "may not be specified when `allocated` is not set");
    } else if new.is_terminating()
        && users.iter().any(|user| !items(was, "reservedFor").iter().any(|own| own["uid"] == user["uid"]))
    {
        faults.forbidden(
            &at,
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        );
    }
    if has(was, "allocation") && has(is, "allocation") && is["allocation"] != was["allocation"] {
        faults.invalid(&path.child("allocation"), &is["allocation"], "field is immutable");
    }
}
