//! The kinds of the API group `apiextensions.k8s.io`, a file each.

use super::strategy::Strategy;

mod custom_resource_definition;
mod definition_schema;
mod definition_spec;
mod structurality;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    match kind {
        "CustomResourceDefinition" => Some(&custom_resource_definition::CustomResourceDefinitionStrategy),
        _ => None,
    }
}
