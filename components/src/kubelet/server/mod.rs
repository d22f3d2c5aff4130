//! The kubelet's own door: HTTPS on a port of the node, for container logs and a sign of life.
//!
//! Only the API server may read logs: it shows a client certificate of the cluster's authority with the name
//! `kube-apiserver-kubelet-client`, or of the group `system:masters`.
//!
//! * [`tls`]: certificates, and who a client is
//! * [`query`]: what of a log is asked for
//! * [`tail`], [`stream`]: where to begin, and how it is sent
//! * [`service`]: requests and answers

mod query;
mod service;
mod stream;
mod tail;
mod tls;

pub(super) use service::{Door, LogAccess};
pub use tls::{ServingCertificate, TlsError};
