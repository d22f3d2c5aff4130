//! The admission plugins that there are, by upstream's names.

use std::collections::BTreeSet;
use std::str::FromStr;

/// A plugin that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionPlugin {
    /// Who approves a request for a certificate may do so for its signer.
    CertificateApproval,
    /// Who issues a certificate may sign as its signer.
    CertificateSigning,
    /// Nobody asks for a certificate of those who may do everything.
    CertificateSubjectRestriction,
    /// An ingress that names no class gets the default one.
    DefaultIngressClass,
    /// A claim that names no class gets the default one.
    DefaultStorageClass,
    /// What pods and claims may ask for, and get by default.
    LimitRanger,
    /// A kubelet writes only what belongs to its node.
    NodeRestriction,
    /// A claim grows only where its class allows it.
    PersistentVolumeClaimResize,
    /// A pod's priority comes from its class.
    Priority,
    /// A namespace uses no more than its quotas allow.
    ResourceQuota,
    /// A pod has the cost and the place of its runtime class.
    RuntimeClass,
    /// A pod has a service account and its token.
    ServiceAccount,
}

/// Every plugin, with its name.
const PLUGINS: [(AdmissionPlugin, &str); 12] = [
    (AdmissionPlugin::CertificateApproval, "CertificateApproval"),
    (AdmissionPlugin::CertificateSigning, "CertificateSigning"),
    (AdmissionPlugin::CertificateSubjectRestriction, "CertificateSubjectRestriction"),
    (AdmissionPlugin::DefaultIngressClass, "DefaultIngressClass"),
    (AdmissionPlugin::DefaultStorageClass, "DefaultStorageClass"),
    (AdmissionPlugin::LimitRanger, "LimitRanger"),
    (AdmissionPlugin::NodeRestriction, "NodeRestriction"),
    (AdmissionPlugin::PersistentVolumeClaimResize, "PersistentVolumeClaimResize"),
    (AdmissionPlugin::Priority, "Priority"),
    (AdmissionPlugin::ResourceQuota, "ResourceQuota"),
    (AdmissionPlugin::RuntimeClass, "RuntimeClass"),
    (AdmissionPlugin::ServiceAccount, "ServiceAccount"),
];

impl FromStr for AdmissionPlugin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = PLUGINS.iter().find(|(_, name)| *name == text).map(|(plugin, _)| *plugin);
        found.ok_or_else(|| {
            let names: Vec<&str> = PLUGINS.iter().map(|(_, name)| *name).collect();
            format!("{text:?} is no plugin that can be switched here ({})", names.join(", "))
        })
    }
}

/// The plugins that are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionPlugins(BTreeSet<AdmissionPlugin>);

impl AdmissionPlugins {
    /// All of them (kube-apiserver's default, with NodeRestriction as kubeadm has it).
    pub fn all() -> Self {
        AdmissionPlugins(PLUGINS.iter().map(|(plugin, _)| *plugin).collect())
    }

    /// These without those.
    #[must_use]
    pub fn without(mut self, off: &[AdmissionPlugin]) -> Self {
        self.0.retain(|plugin| !off.contains(plugin));
        self
    }

    /// Whether it is on.
    pub fn has(&self, plugin: AdmissionPlugin) -> bool {
        self.0.contains(&plugin)
    }
}

impl Default for AdmissionPlugins {
    /// Those that need no controller beside the registry.
    fn default() -> Self {
        Self::all().without(&[AdmissionPlugin::ServiceAccount])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_known_by_upstreams_names() {
        assert_eq!("ServiceAccount".parse(), Ok(AdmissionPlugin::ServiceAccount));
        let unknown = "serviceaccount".parse::<AdmissionPlugin>().expect_err("unknown");
        assert!(unknown.contains("RuntimeClass, ServiceAccount"), "{unknown}");
        assert!(!AdmissionPlugins::default().has(AdmissionPlugin::ServiceAccount));
        assert!(AdmissionPlugins::default().has(AdmissionPlugin::Priority));
    }
}
