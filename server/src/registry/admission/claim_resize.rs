//! Only a bound claim of a class that allows it may grow (upstream's PersistentVolumeClaimResize plugin, Kubernetes 1.36).

use listwatch_proto::resource::{Kind, Object, Quantity, Status};

use super::super::Registry;

/// An older way for a claim to name its class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

impl Registry {
    /// Refuses a change that makes a claim larger where that cannot be done.
    pub(super) async fn admit_resize(&self, kind: &'static Kind, new: &Object, old: &Object) -> Result<(), Status> {
        let size = |claim: &Object| {
            let asked = claim.at(&["spec", "resources", "requests", "storage"]);
            asked.and_then(|amount| Quantity::from_json(amount).ok()).unwrap_or(Quantity::ZERO)
        };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old.text(&["status", "phase"]) != "Bound" {
            return Err(Status::forbidden(kind, new.name(), "Only bound persistent volume claims can be expanded"));
        }
        if self.may_grow(new, old).await? {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                   support resize";
        Err(Status::forbidden(kind, new.name(), why))
    }

    async fn may_grow(&self, new: &Object, old: &Object) -> Result<bool, Status> {
        let class = |claim: &Object| {
            claim.annotation(CLASS_ANNOTATION).unwrap_or_else(|| claim.text(&["spec", "storageClassName"])).to_owned()
        };
        let name = class(new);
        if name.is_empty() || name != class(old) {
            return Ok(false);
        }
        let classes = Kind::by_api_version("storage.k8s.io/v1", "StorageClass").expect("StorageClass is a served kind");
        let class = self.current(classes, "", &name).await?;
        Ok(class.is_some_and(|class| class.object.flag(&["allowVolumeExpansion"])))
    }
}
