//! The kinds of the API group `storage.k8s.io`, a file each.

use super::strategy::Strategy;

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod parameters;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "CSIDriver" => &csi_driver::CSIDriverStrategy,
        "CSINode" => &csi_node::CSINodeStrategy,
        "CSIStorageCapacity" => &csi_storage_capacity::CSIStorageCapacityStrategy,
        "StorageClass" => &storage_class::StorageClassStrategy,
        "VolumeAttachment" => &volume_attachment::VolumeAttachmentStrategy,
        "VolumeAttributesClass" => &volume_attributes_class::VolumeAttributesClassStrategy,
        _ => return None,
    })
}
