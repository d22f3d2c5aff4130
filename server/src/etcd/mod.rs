//! The etcd v3 door: stock etcd clients talk to the store through it.
//!
//! One file per service, each a thin translation: check the request ([`validate`]), turn it into the store's own
//! operations ([`translate`]), run them, and turn the answer or the error ([`error`]) back. Invariants: codes and texts
//! of errors are etcd's to the letter where etcd has them; nothing here decides what a revision, a lease or a watch is;
//! what is not supported is refused by name.

mod caller;
mod entry;
mod front;
mod header;

mod error;
mod translate;
mod validate;

mod auth;
mod cluster;
mod kv;
mod lease;
mod long_range;
mod maintenance;
mod range_stream;
mod watch;

mod health;
mod http;
mod metrics;
mod routes;

pub use entry::Entry;
pub use front::{EtcdOptions, REQUEST_BYTES_MAX, SERVER_VERSION, TXN_OPS_MAX};
pub use routes::routes;
