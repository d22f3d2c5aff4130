//! What each kind means: defaults, validation, columns, selectable fields, and what each part of an object may change.
//!
//! One file for a kind, one [`Strategy`] in it. The rules that kinds share stand beside them: metadata, the pod template
//! with its containers and volumes, names and labels. Texts of refusals are upstream's (Kubernetes 1.36).

mod addresses;
mod allocation;
mod apps;
mod autoscaling;
mod batch;
mod claim_spec;
mod claim_template;
mod config_map;
mod container;
mod core;
mod deployment;
mod difference;
mod discovery;
mod downward;
mod environment;
mod event;
mod events;
mod extensions;
mod faults;
mod fields;
mod lease;
mod metadata;
mod names;
mod namespace;
mod networking;
mod node;
mod persistent_source;
mod pod;
mod pod_annotations;
mod pod_defaults;
mod pod_print;
mod pod_resources;
mod pod_scheduling;
mod pod_security;
mod pod_spec;
mod pod_status;
mod pod_update;
mod policy;
mod print;
mod priority_class;
mod probe;
mod rbac;
mod replica_set;
mod resource;
mod resources;
mod review;
mod runtime;
mod scale;
mod storage;
mod strategy;
mod view;
mod volume;
mod volume_source;
mod warnings;
mod workload;

pub use allocation::{AddressRange, Pools};
pub(super) use allocation::{Allocation, Claim, Draw, Ground};
pub(super) use faults::{Faults, Path, Shown, quote as quoted};
pub(super) use metadata::{
    OwnMetadata, validate_new as validate_new_metadata, validate_object_metadata,
    validate_update as validate_metadata_update,
};
pub(super) use names::{
    label_1035 as label_1035_faults, qualified as qualified_name_faults, subdomain as subdomain_faults,
};
pub(super) use policy::{covers as covers_pod, goes_free, needs_no_budget, spend as spend_budget};
pub(super) use print::{AGE as AGE_COLUMN, NAME as NAME_COLUMN, since as age_since};
pub(super) use priority_class::{SYSTEM_CLASSES, system_object as system_class_object};
pub(super) use scale::{COLUMNS as SCALE_COLUMNS, cells as scale_cells, read as read_scale, write as write_scale};
pub(super) use strategy::{Grace, Part, Strategy, strategy};
pub(super) use view::View;
