//! The registry: Kubernetes' objects and verbs over a store of keys and revisions.
//!
//! One [`Registry`] does all verbs for all kinds. A kind is a file in `kinds` (defaults, validation, columns, selectable
//! fields, what status may touch) and a table in `schema` (fields and types). Objects are JSON; nothing here knows a
//! wire.
//!
//! Invariants:
//! * an object is stored as JSON without resourceVersion under Kubernetes' own key; its resourceVersion is the revision
//!   of its last write;
//! * every write is guarded by the revision of the object it was judged on;
//! * what one object at a time may hold (an address, a node port) has a key, written and removed with its holder;
//! * a value under `/registry` that is no object is reported and served around, never a crash.

mod access;
mod admission;
mod answered;
mod api_service;
mod apply;
mod authorship;
mod binding;
mod body;
mod bootstrap;
mod cache;
mod claims;
mod computed;
mod continue_token;
mod create;
mod current;
mod custom;
mod delete;
mod delete_collection;
mod delete_options;
mod difference;
mod engine_store;
mod error;
mod event_leases;
mod eviction;
mod facts;
mod generic;
mod json_patch;
mod kinds;
mod list;
#[cfg(test)]
mod memory_store;
mod merge_patch;
mod patch;
mod pod_references;
mod proven;
mod request;
mod scaling;
mod schema;
mod selection;
mod store;
mod stored;
mod strategic_merge;
mod structural;
mod table;
#[cfg(test)]
mod tests;
mod unstructured;
mod update;
mod watch;

pub use access::{Asked, Attributes, Change, ChangeVerb, Decision, ResourceAttributes, Security, exact};
pub use admission::{AdmissionPlugin, AdmissionPlugins};
pub use api_service::ApiService;
pub(crate) use custom::Kinds;
pub(crate) use delete_options::is_dry_run;
pub use engine_store::EngineStore;
pub use generic::{Deleted, ListPage, Registry, RegistryOptions, Written};
pub(crate) use kinds::certificate_organizations;
pub use kinds::{AddressRange, Pools};
#[cfg(test)]
pub(crate) use memory_store::MemoryStore;
pub(crate) use pod_references::{api_reference, config_map_names, projections, projects_token, secret_names};
pub use request::{
    DeleteOptions, FieldValidation, ListOptions, MASTERS, Patch, PatchKind, Propagation, RequestContext, Target, User,
    WatchOptions, WriteOptions,
};
pub(crate) use schema::{Words, declared, protobuf_write};
pub use store::{Commit, Guard, Page, Store, StoreError, StoreEvents, StoreWatch, StoreWatcher, Write};
pub use stored::StoredObject;
pub use table::{Cell, Column};
pub use watch::{EventType, RegistryEvent, RegistryWatch, RegistryWatcher, WatchBatch};
