//! Ports and connections: binding, TLS, who is at the other end, serving HTTP/1.1 and HTTP/2, draining.
//!
//! Invariants: a transport knows no service, only a router; who the other end is was judged once, when the connection
//! was made, and travels with each request as a [`Peer`]; every connection is a task of its listener and is joined.

mod authority;
mod deadline;
mod descriptors;
mod expiring;
mod gather;
mod listener;
mod peer;
mod port_owner;
mod served;
mod timely;
mod tls;
mod turn;
pub(crate) mod websocket;

pub use descriptors::connections_max;
pub(crate) use expiring::expiring;
pub use listener::{BindError, Door, KeepAlive, bind, serve};
pub use peer::{CertificateUser, Peer, PeerIdentity};
pub use port_owner::port_owner;
pub use served::{Answer, Front, Served};
pub use timely::StreamingMethods;
pub(crate) use timely::{BODY_SILENCE_MAX, BODY_TIME_MAX};
pub use tls::{ClientCertificates, Tls, TlsError, TlsFiles, read_chain, read_key};
