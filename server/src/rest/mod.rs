//! The Kubernetes REST API: a thin door over the registry, as thin as the gRPC one beside it.
//!
//! * [`well_formed`]: what is a request at all; [`path`]: what a path names; [`query`]: what its parameters ask; [`form`]: in
//!   which form clients send and are answered
//! * [`door`]: from a request to the verb; [`objects`]: the verbs on one object
//! * [`list`] and [`watch`]: collections, streamed; [`log`]: the log of a container; [`stream`] and [`proxy`]: through to
//!   kubelets and pods
//! * [`discovery`] and [`openapi`]: what is served; [`health`]: checks; [`metrics`]: numbers; [`plain`]: paths outside the API
//!
//! Invariants: paths, parameters, codes and words are those of kube-apiserver 1.36; what a verb means is the registry's
//! business alone; a list or a watch of any length is written piece by piece.

mod discovery;
mod door;
mod form;
mod health;
mod inflight;
mod list;
mod log;
mod metrics;
mod objects;
mod openapi;
mod path;
mod plain;
mod proxy;
mod query;
mod stream;
mod times;
mod watch;
mod well_formed;

pub(crate) use door::{RestDoor, RestFront, routes};
pub use inflight::RequestsInflight;
pub(crate) use listwatch_proto::version::KUBERNETES_VERSION;
pub use times::RequestTimes;
