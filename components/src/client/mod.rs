//! The client of the resource API: connection, identity, and typed access to objects.
//!
//! A [`Client`] is an HTTP/2 connection that heals itself (and more, for many watches) and is cheap to clone. An [`Api`] of a type gives the verbs
//! on objects of one kind, in every namespace. Every answer moves the client's *seen revision* forward, which travels
//! with each write as its cause. Invariants: nothing here retries a write; every unary call has a deadline; errors keep
//! the server's status as it came.
//!
//! ```no_run
//! use listwatch_components::client::{Api, Client, ClientConfig, ListParams};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(&ClientConfig::new("https://127.0.0.1:6443"))?;
//! let pods = Api::<Pod>::new(&client);
//! for pod in pods.list(&ListParams::in_namespace("default").labels("app=myapp")).await?.items {
//!     println!("{} at revision {}", pod.key, pod.revision);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order:
//!
//! * [`ClientConfig`]: address, identity, trust; [`load_kubeconfig`] reads one from a file
//! * [`Client`], [`Api`]: connection and verbs; their parameters and answers
//! * [`Decode`], [`Resource`], [`Cached`]: which types objects are read into
//! * [`Watch`]: the events of a collection
//! * [`Error`]: what may go wrong and what a caller may do about it
//! * [`Backoff`]: pauses that grow
//! * [`own_writes`]: what the current task has written
//! * [`Fence`]: writes that are sent only while a leader may write

mod api;
mod backoff;
pub mod channels;
mod config;
mod connection;
mod connector;
mod error;
mod fence;
mod kinds;
mod kubeconfig;
mod lanes;
pub mod own_writes;
mod params;
mod raw;
mod tls;
mod watch;

pub use api::{Api, Deleted, List, LogStream};
pub use backoff::{Backoff, BackoffPolicy};
pub use config::{ClientCertificate, ClientConfig, Impersonation};
pub use connection::{Admin, Client, Resources};
pub use error::{ConfigError, Error};
pub use fence::Fence;
pub use kinds::{Cached, Decode, Resource};
pub use kubeconfig::{Selected, load_kubeconfig};
pub use params::{DeleteParams, ListParams, LogParams, Patch, Propagation, WatchParams, WriteParams};
pub use raw::{RawRequest, query};
pub use watch::{Watch, WatchBatch, WatchEvent, WireWatch};
