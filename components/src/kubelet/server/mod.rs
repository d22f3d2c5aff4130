//! The kubelet's own door: HTTPS on a port of the node, for container logs, commands, forwarded ports and a sign of life.
//!
//! Only the API server may ask for more than that sign: it shows a client certificate of the cluster's authority with the name
//! `kube-apiserver-kubelet-client`, or of the group `system:masters`.
//!
//! * [`tls`]: certificates, and who a client is
//! * [`query`]: what is asked for
//! * [`tail`], [`stream`]: where to begin, and how it is sent
//! * [`upgrade`]: from a request to a WebSocket
//! * [`channels`], [`command`]: a command, or a container's own output, over one
//! * [`spdy`], [`forward`]: forwarded ports over one
//! * [`service`]: requests and answers; [`streams`]: those that become WebSockets

mod channels;
mod command;
mod forward;
mod query;
mod service;
mod spdy;
mod stream;
mod streams;
mod tail;
mod tls;
mod upgrade;

pub(super) use service::{Door, LogAccess};
pub use tls::{ServingCertificate, TlsError};
