//! ComponentStatus: how the parts of a control plane are. Read only, and made when it is read (`registry/computed.rs`).

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Part, Strategy};
use crate::registry::kinds::vocabulary::faults::Faults;
use crate::registry::kinds::vocabulary::fields::text as txt;
use crate::registry::kinds::vocabulary::print::{NAME, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct ComponentStatusStrategy;

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
    use serde_json::json;

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
