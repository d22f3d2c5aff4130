//! The managers of a Scale: those of the scaled object that own its number of replicas, and back.

use listwatch_proto::resource::Object;

use super::element;
use super::managers::{Entry, Manager, Managers};
use super::set::FieldSet;
use super::track::set;

/// The version of every Scale.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the number stands, in the object as in its Scale.
fn replicas() -> Vec<String> {
    vec![element::field("spec"), element::field("replicas")]
}

fn only_replicas() -> FieldSet {
    let mut fields = FieldSet::default();
    fields.insert(&replicas());
    fields
}

/// Gives a Scale the managers of its object that own the number.
pub(in super::super) fn to_scale(scale: &mut Object, object: &Object) {
    let mut managers = Managers::stored(&object.0);
    managers.0.retain(|entry| entry.fields.has(&replicas()));
    for entry in &mut managers.0 {
        SCALE_VERSION.clone_into(&mut entry.manager.api_version);
        entry.fields = only_replicas();
    }
    set(scale, managers);
}

/// Gives an object the managers that its Scale has after a write. `object` still has its own.
pub(in super::super) fn from_scale(object: &mut Object, scale: &Object, api_version: &str) {
    let mut of_scale = Managers::stored(&scale.0);
    let mut managers = Managers::default();
    for mut entry in Managers::stored(&object.0).0 {
        let in_scale = Manager { api_version: SCALE_VERSION.to_owned(), ..entry.manager.clone() };
        if entry.fields.has(&replicas()) && of_scale.remove(&in_scale).is_none() {
            // The number was taken.
            entry.fields.subtract(&only_replicas());
        }
        managers.0.push(entry);
    }
    for entry in of_scale.0 {
        if !entry.fields.has(&replicas()) {
            continue;
        }
        let mut manager = entry.manager;
        api_version.clone_into(&mut manager.api_version);
        // Upstream loses the time here.
        managers.0.push(Entry { manager, time: None, fields: only_replicas() });
    }
    set(object, managers);
}
