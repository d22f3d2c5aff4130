//! Admission that looks at other objects, a file for each of upstream's plugins (Kubernetes 1.36). What needs only the
//! object itself stands with its kind.

mod chain;
mod claim_resize;
mod default_class;
mod limit_ranger;
mod living;
mod namespace_lifecycle;
mod plugin;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;

pub(super) use living::Living;
pub use plugin::{AdmissionPlugin, AdmissionPlugins};
