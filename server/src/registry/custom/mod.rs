//! Custom resources: kinds that users define by CustomResourceDefinitions, served by the machinery of all other kinds.
//!
//! * `definition`: what a stored definition says, in memory; each served version becomes a row and the rules hung on it
//! * `kinds`: the kinds of a moment: the table, then what the definitions add. Paths, discovery and requests are read
//!   against it
//! * `naming` decides which definitions get the names they want; `settle` writes that down, keeps `kinds` current and
//!   empties what is being deleted
//! * `resource`: the rules of a custom resource, as every kind has them; `body`, `columns`, `json_path` and `scaling` are
//!   its parts
//! * `form`: from the form that is stored to the one that is served, and back
//!
//! Invariants:
//! * a row, once made, never changes: a definition that says something else gets other rows, and the watches of the old
//!   ones end. The same content is the same row again, and how many there may be is bounded;
//! * an object is created only under a guard that its definition still stands as it was looked at, so that nothing appears
//!   in a collection that is being emptied;
//! * stored objects say the storage version; what is served is pruned and defaulted by the schema of today.

mod body;
mod columns;
mod definition;
mod form;
mod json_path;
mod kinds;
mod naming;
mod resource;
mod scaling;
mod settle;

pub(super) use body::refuse;
pub(super) use form::{served, stored};
pub(super) use json_path::JsonPath;
pub(crate) use kinds::Kinds;
pub(super) use resource::{CustomResource, custom, tell};
pub(super) use settle::{Definitions, marked};
