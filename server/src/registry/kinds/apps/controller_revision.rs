//! ControllerRevision (apps): a template as it was, kept for a way back.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, number, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ControllerRevisionStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column("Controller", "string", "Controller of the object", 0),
    column("Revision", "string", "Revision indicates the revision of the state represented by Data.", 0),
    AGE,
];

impl Strategy for ControllerRevisionStrategy {
    fn schema(&self) -> &'static str {
        "apps/v1.ControllerRevision"
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        revision(object, faults);
        match object.at(&["data"]) {
            None | Some(Value::Null) => faults.required(&Path::new("data"), "data is mandatory"),
            Some(Value::Object(_)) => {}
            Some(_) => faults.required(&Path::new("data"), "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        revision(new, faults);
        let (was, is) = (old.at(&["data"]), new.at(&["data"]));
        if was != is {
            let shown = is.map_or_else(|| Shown("{}".into()), Shown::from);
            faults.invalid(&Path::new("data"), shown, "field is immutable");
        }
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(controller(object)), number(object, &["revision"]), age(object, now)]
    }
}

fn revision(object: &Object, faults: &mut Faults) {
    if let Some(revision) = object.int(&["revision"]).filter(|revision| *revision < 0) {
        faults.invalid(&Path::new("revision"), revision, "must be greater than or equal to 0");
    }
}

/// `statefulset.apps/web`.
fn controller(object: &Object) -> String {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let Some(owner) = owners.into_iter().flatten().find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let part = |key: &str| owner[key].as_str().unwrap_or_default();
    let kind = part("kind").to_lowercase();
    match part("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", part("name")),
        None => format!("{kind}/{}", part("name")),
    }
}
