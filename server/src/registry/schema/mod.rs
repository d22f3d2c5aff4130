//! What the fields of each kind are: names, types, omission, merge and list strategies, defaults, protobuf numbers.
//!
//! The tables are data, one file for each API package, written by `examples/schema_tables.rs` from the types that
//! Kubernetes declares, and read once at first use. Their form, one line each:
//!
//! ```text
//! alias core/v1.Protocol string                     a named scalar or map
//! struct core/v1.ContainerPort [atomic]             fields follow, indented
//!   containerPort int32 pb=3                        JSON name, type
//!   protocol core/v1.Protocol omit pb=4 default="TCP"
//!   ports []core/v1.ContainerPort omit pb=6 patch=merge:containerPort list=map:containerPort,protocol
//!   & core/v1.ProbeHandler pb=1                     the fields of a struct stand among these
//! ```
//!
//! Types: `string bool int32 int64 float64`, `time microtime duration quantity intorstring any`, `schemaorbool
//! schemaorarray schemaorstrings`, `*T` (absent differs from empty), `[]T` (`[]uint8` is base64), `map[K]T`, and names.
//! Words: `omit` (left out when empty), `zero` (left out also as an empty struct), `optional` and `required`
//! (where documents say otherwise than the omission does), `pb=` (protobuf number), `patch=` and `list=` and `map=` (how strategic merge and apply
//! treat it), `default=` (JSON).
//!
//! Invariant: an object that has passed [`decode`] has exactly the form in which Kubernetes would print it.

pub(crate) mod blank;
pub(crate) mod declared;
pub(crate) mod decode;
pub(crate) mod internal;
pub(crate) mod json;
pub(crate) mod openapi;
pub(crate) mod protobuf;
pub(crate) mod protobuf_write;
pub(crate) mod table;
mod words;

pub(crate) use decode::{decode, decode_value};
#[cfg(test)]
pub(crate) use table::schema;
pub(crate) use words::Words;
