//! The rules that pods share with templates of pods, wherever a template stands (Kubernetes 1.36).
//!
//! * [`defaults`]: what is filled in
//! * [`whole`]: a template with its metadata; [`annotations`]; [`spec`]: a pod's spec, and from there
//!   [`container`] ([`environment`], [`downward`], [`probe`]), [`ephemeral`], [`volume`] ([`volume_source`], [`claim_template`]),
//!   [`scheduling`], [`security`], [`requests`]: every fault of the part
//! * [`claim_spec`] and [`persistent_source`]: what a pod's volumes share with claims and volumes of the cluster
//! * [`warnings`]: what a person is told about what is valid and will surprise

pub(super) mod annotations;
pub(super) mod claim_spec;
mod claim_template;
mod container;
pub(super) mod defaults;
mod downward;
mod environment;
mod ephemeral;
pub(super) mod persistent_source;
mod probe;
pub(super) mod requests;
pub(super) mod scheduling;
mod security;
pub(super) mod spec;
mod volume;
mod volume_source;
pub(super) mod warnings;
pub(super) mod whole;
