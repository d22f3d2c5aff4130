//! Which plugin sees which write, in upstream's order.

use listwatch_proto::resource::{Kind, Object, Status};

use super::super::Registry;
use super::AdmissionPlugin;

impl Registry {
    /// Whether a plugin is on.
    pub(crate) fn runs(&self, plugin: AdmissionPlugin) -> bool {
        self.shared.options.plugins.has(plugin)
    }

    /// Admits a new object before it is validated; may change it.
    pub(in super::super) async fn admit(&self, kind: &'static Kind, object: &mut Object) -> Result<(), Status> {
        match (kind.group, kind.kind) {
            ("", "Pod") => {
                if self.runs(AdmissionPlugin::ServiceAccount) {
                    self.admit_service_account(kind, object).await?;
                }
                if self.runs(AdmissionPlugin::Priority) {
                    self.admit_priority(kind, object).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Admits a valid object (`old`: what it replaces).
    pub(in super::super) async fn admit_valid(
        &self,
        kind: &'static Kind,
        object: &Object,
        old: Option<&Object>,
    ) -> Result<(), Status> {
        match (kind.group, kind.kind) {
            ("scheduling.k8s.io", "PriorityClass") if self.runs(AdmissionPlugin::Priority) => {
                self.admit_default_class(kind, object, old).await
            }
            _ => Ok(()),
        }
    }
}
