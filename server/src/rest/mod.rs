//! The Kubernetes REST API: a thin door over the registry, as thin as the gRPC one beside it.
//!
//! * [`well_formed`]: what is a request at all; [`path`]: what a path names; [`query`]: what its parameters ask; [`negotiate`]: in which form the answer goes
//! * [`door`]: from a request to the verb; [`objects`]: the verbs on one object; [`body`], [`media_type`] and [`yaml`]: what a client sent; [`yaml_write`]: YAML answers
//! * [`list`] and [`watch`]: collections, streamed; [`table`]: rows of columns; [`log`]: the log of a container
//! * [`discovery`] and [`openapi`]: what is served; [`health`]: checks; [`metrics`]: numbers; [`plain`]: paths outside the API;
//!   [`answer`]: objects and failures as HTTP answers; [`finish`] and [`pretty`]: laid out and compressed
//!
//! Invariants: paths, parameters, codes and words are those of kube-apiserver 1.36; what a verb means is the registry's
//! business alone; a list or a watch of any length is written piece by piece.

mod answer;
mod body;
mod discovery;
mod door;
mod finish;
mod health;
mod inflight;
mod list;
mod log;
mod media_type;
mod metrics;
mod negotiate;
mod objects;
mod openapi;
mod path;
mod plain;
mod pretty;
mod proxy;
mod query;
mod stream;
mod table;
mod times;
mod watch;
mod well_formed;
mod yaml;
mod yaml_write;

pub(crate) use door::{RestDoor, RestFront, routes};
pub use inflight::RequestsInflight;
pub(crate) use plain::KUBERNETES_VERSION;
pub use times::RequestTimes;
