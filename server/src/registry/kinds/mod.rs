//! What each kind means: defaults, validation, columns, selectable fields, and what each part of an object may change.
//!
//! Where to find what:
//! * a kind is a file named after it in the folder of its API group (`core/config_map.rs`; a folder where it is large:
//!   `core/pod`, `core/service`) with one [`Strategy`] in it: `default` fills in, `validate_create` and `validate_update`
//!   find faults, `columns` and `cells` print, `fields` says what can be selected by;
//! * [`template`] is what a field of a pod's spec becomes and may be, in pods and in templates of pods alike:
//!   `template/defaults.rs`, then a file for each part of the spec;
//! * [`vocabulary`] is what all kinds are written in: fields, faults, names, metadata, selectors, cells;
//! * the machinery: [`strategy`](mod@strategy) is what the verbs ask of a kind, [`by_kind`] finds a kind's rules,
//!   [`allocation`] what the server hands out, [`view`] kinds that show what another kind keeps, [`scale`] the
//!   subresource, [`review`] the kinds that are answered and not kept.
//!
//! Texts of refusals are upstream's (Kubernetes 1.36).

mod allocation;
mod apps;
mod autoscaling;
mod batch;
mod by_kind;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod extensions;
mod networking;
mod policy;
mod rbac;
mod resource;
mod review;
mod runtime;
mod scale;
mod scheduling;
mod storage;
mod strategy;
mod template;
mod view;
mod vocabulary;

pub use allocation::{AddressRange, Pools};
pub(super) use allocation::{Allocation, Claim, Draw, Ground};
pub(super) use by_kind::strategy;
pub(crate) use certificates::organizations as certificate_organizations;
pub(super) use policy::{covers as covers_pod, goes_free, needs_no_budget, spend as spend_budget};
pub(super) use scale::{COLUMNS as SCALE_COLUMNS, cells as scale_cells, read as read_scale, write as write_scale};
pub(super) use scheduling::{SYSTEM_CLASSES, system_object as system_class_object};
pub(super) use strategy::{Grace, Habits, Part, Reset, Strategy};
pub(super) use view::View;
pub(super) use vocabulary::faults::{Faults, Path, Shown, quote as quoted};
pub(super) use vocabulary::metadata::{
    OwnMetadata, validate_new as validate_new_metadata, validate_object_metadata,
    validate_update as validate_metadata_update,
};
pub(super) use vocabulary::names::{label_1035 as label_1035_faults, qualified as qualified_name_faults};
pub(super) use vocabulary::print::{AGE as AGE_COLUMN, NAME as NAME_COLUMN, since as age_since};
