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
mod apply;
mod authorship;
mod body;
mod cache;
mod computed;
mod continue_token;
mod create;
mod current;
mod custom;
mod delete;
mod delete_collection;
mod delete_options;
mod difference;
mod error;
mod facts;
mod first;
mod generic;
mod kinds;
mod list;
mod patch;
mod patches;
mod pods;
mod proven;
mod request;
mod scaling;
mod schema;
mod selection;
mod store;
mod stored;
mod structural;
mod table;
#[cfg(test)]
mod tests;
mod unstructured;
mod update;
mod watch;

pub use access::{Asked, Attributes, Change, ChangeVerb, Decision, ResourceAttributes, Security, exact};
pub use admission::{AdmissionPlugin, AdmissionPlugins};
pub(crate) use custom::Kinds;
pub(crate) use delete_options::is_dry_run;
pub use first::ApiService;
pub(crate) use generic::manager_faults;
pub use generic::{Deleted, ListPage, Registry, RegistryOptions, Written};
pub(crate) use kinds::certificate_organizations;
pub use kinds::{AddressRange, Pools};
pub(crate) use pods::{api_reference, config_map_names, projections, projects_token, secret_names};
pub use request::{
    DeleteOptions, FieldValidation, ListOptions, MASTERS, Patch, PatchKind, Propagation, RequestContext, Target, User,
    WatchOptions, WriteOptions,
};
pub(crate) use schema::{Words, declared, protobuf_write};
#[cfg(test)]
pub(crate) use store::MemoryStore;
pub use store::{Commit, EngineStore, Guard, Page, Store, StoreError, StoreEvents, StoreWatch, StoreWatcher, Write};
pub use stored::StoredObject;
pub use table::{Cell, Column};
pub use watch::{EventType, RegistryEvent, RegistryWatch, RegistryWatcher, WatchBatch};
