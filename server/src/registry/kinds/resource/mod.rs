//! The kinds of the API group `resource.k8s.io`, a file each.

use super::strategy::Strategy;

mod claim_spec;
mod device_class;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "DeviceClass" => &device_class::DeviceClassStrategy,
        "ResourceClaim" => &resource_claim::ResourceClaimStrategy,
        "ResourceClaimTemplate" => &resource_claim_template::ResourceClaimTemplateStrategy,
        "ResourceSlice" => &resource_slice::ResourceSliceStrategy,
        _ => return None,
    })
}
