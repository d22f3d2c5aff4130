//! Which plugin sees which write, in upstream's order.

use listwatch_proto::resource::{Kind, Object, Status};

use super::super::Registry;
use super::super::current::{Beside, Current};
use super::super::kinds::Part;
use super::AdmissionPlugin;
use super::resource_quota::Use;
use crate::storage::KeyRange;

impl Registry {
    /// Whether a plugin is on.
    pub(crate) fn runs(&self, plugin: AdmissionPlugin) -> bool {
        self.shared.options.plugins.has(plugin)
    }

    /// Admits a new object before it is validated; may change it.
    pub(in super::super) async fn admit(&self, kind: &'static Kind, object: &mut Object) -> Result<(), Status> {
        match (kind.group, kind.kind) {
            ("", "Pod") => {
                if self.runs(AdmissionPlugin::LimitRanger) {
                    self.admit_default_limits(object).await?;
                }
                if self.runs(AdmissionPlugin::ServiceAccount) {
                    self.admit_service_account(kind, object).await?;
                }
                if self.runs(AdmissionPlugin::Priority) {
                    self.admit_priority(kind, object).await?;
                }
                if self.runs(AdmissionPlugin::RuntimeClass) {
                    self.admit_runtime_class(kind, object).await?;
                }
                Ok(())
            }
            ("", "PersistentVolumeClaim") if self.runs(AdmissionPlugin::DefaultStorageClass) => {
                self.admit_storage_class(object).await
            }
            ("networking.k8s.io", "Ingress") if self.runs(AdmissionPlugin::DefaultIngressClass) => {
                self.admit_ingress_class(object).await
            }
            _ => Ok(()),
        }
    }

    /// Admits a valid object (`old`: what it replaces). The answer is what must be written in the same commit, if
    /// anything is.
    pub(in super::super) async fn admit_valid(
        &self,
        kind: &'static Kind,
        part: Part,
        object: &Object,
        old: Option<&Object>,
    ) -> Result<Beside, Status> {
        let limited = matches!((kind.group, kind.kind), ("", "Pod" | "PersistentVolumeClaim"));
        let is_pod = (kind.group, kind.kind) == ("", "Pod");
        if (kind.group, kind.kind) == ("scheduling.k8s.io", "PriorityClass") && self.runs(AdmissionPlugin::Priority) {
            self.admit_default_class(kind, object, old).await?;
        }
        // Of a pod only the birth and a change of its resources are judged, of a claim also what may still change.
        let is_new_amount = match part {
            Part::Main => old.is_none() || !is_pod,
            Part::Resize => true,
            _ => false,
        };
        if limited && is_new_amount && self.runs(AdmissionPlugin::LimitRanger) {
            self.admit_limits(kind, object, old).await?;
        }
        if is_pod && old.is_none() && self.runs(AdmissionPlugin::RuntimeClass) {
            self.admit_overhead(kind, object).await?;
        }
        if let Some(was) = old.filter(|_| limited && !is_pod && part == Part::Main)
            && self.runs(AdmissionPlugin::PersistentVolumeClaimResize)
        {
            self.admit_resize(kind, object, was).await?;
        }
        if !self.runs(AdmissionPlugin::ResourceQuota) {
            return Ok(Beside::default());
        }
        self.charge(&Use { kind, part, new: object, old }).await
    }

    /// All objects of a kind that others are judged by (an empty namespace: of a cluster-wide kind), by name.
    pub(super) async fn all_of(&self, kind: &str, namespace: &str) -> Result<Vec<Object>, Status> {
        let kind = listwatch_proto::resource::KINDS
            .iter()
            .find(|own| own.kind == kind)
            .expect("what others are judged by is a served kind");
        let page = self.shared.store.range(&KeyRange::prefix(kind.collection_key(namespace)), 0, 0).await?;
        // A value that is no object is no rule; whoever asks for it by name is told so.
        Ok(page.kvs.into_iter().filter_map(|kv| Current::of(kv).ok()).map(|current| current.object).collect())
    }
}
