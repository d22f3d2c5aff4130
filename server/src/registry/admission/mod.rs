//! Admission that looks at other objects, a file for each of upstream's plugins (Kubernetes 1.36). What needs only the
//! object itself stands with its kind.

mod chain;
mod plugin;
mod priority;
mod service_account;

pub use plugin::{AdmissionPlugin, AdmissionPlugins};
