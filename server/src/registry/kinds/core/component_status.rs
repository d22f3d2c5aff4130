//! ComponentStatus: how the parts of a control plane are. Read only, and made when it is read (`registry/computed.rs`).
//!
//! Of this server that is its store alone; whether scheduler and controllers are well, their own health tells, and the
//! leases that they hold.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Part, Strategy};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::fields::text as txt;
use crate::registry::kinds::vocabulary::print::{NAME, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ComponentStatusStrategy;

/// What kube-apiserver calls the first member of its store.
const STORE: &str = "etcd-0";

const COLUMNS: &[Column] = &[
    NAME,
    column("Status", "string", "Status of the component conditions", 0),
    column("Message", "string", "Message of the component conditions", 0),
    column("Error", "string", "Error of the component conditions", 0),
];

impl Strategy for ComponentStatusStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.ComponentStatus"
    }

    fn computed(&self, store: Result<(), String>) -> Vec<Object> {
        let condition = match store {
            Ok(()) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Err(error) => json!({"type": "Healthy", "status": "False", "error": error}),
        };
        let mut object = Object::default();
        object.set(&["metadata"], json!({"name": STORE}));
        object.set(&["conditions"], json!([condition]));
        vec![object]
    }

    fn validate_create(&self, _object: &Object, _faults: &mut Faults) {}

    fn validate_update(&self, _part: Part, _new: &Object, _old: &Object, _faults: &mut Faults) {}

    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, _now: i64) -> Vec<Cell> {
        let conditions = object.at(&["conditions"]).and_then(Value::as_array);
        let healthy = conditions.into_iter().flatten().find(|own| txt(own, "type") == "Healthy");
        let status = match healthy.map(|own| txt(own, "status")) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let told = |key: &str| text(healthy.map(|own| txt(own, key)).unwrap_or_default());
        vec![text(object.name()), text(status), told("message"), told("error")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_answers_or_not() {
        let shown = |store: Result<(), String>| {
            let made = ComponentStatusStrategy.computed(store);
            assert_eq!(made.len(), 1);
            let cells = ComponentStatusStrategy.cells(&made[0], 0);
            cells.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
        };
        assert_eq!(shown(Ok(())), "etcd-0|Healthy|ok|");
        assert_eq!(shown(Err("away".into())), "etcd-0|Unhealthy||away");
    }

    #[test]
    fn a_component_is_well_or_not() {
        let shown = |conditions: Value| {
            let object = Object::from_value(json!({"metadata": {"name": "etcd-0"}, "conditions": conditions}));
            let cells = ComponentStatusStrategy.cells(&object.expect("a map"), 0);
            cells.iter().map(ToString::to_string).collect::<Vec<_>>().join("|")
        };
        assert_eq!(shown(json!([{"type": "Healthy", "status": "True", "message": "ok"}])), "etcd-0|Healthy|ok|");
        assert_eq!(shown(json!([{"type": "Healthy", "status": "False", "error": "away"}])), "etcd-0|Unhealthy||away");
        assert_eq!(shown(json!(null)), "etcd-0|Unknown||");
    }
}
