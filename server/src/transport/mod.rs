//! Ports and connections: binding, TLS, who is at the other end, serving HTTP/1.1 and HTTP/2, draining.
//!
//! Invariants: a transport knows no service, only a router; who the other end is was judged once, when the connection
//! was made, and travels with each request as a [`Peer`]; every connection is a task of its listener and is joined.

mod authority;
mod deadline;
mod gather;
mod listener;
mod peer;
mod port_owner;
mod served;
mod tls;

pub use listener::{BindError, Door, KeepAlive, bind, serve};
pub use peer::{CertificateUser, Peer, PeerIdentity};
pub use port_owner::port_owner;
pub use served::{Answer, Front, Served};
pub use tls::{ClientCertificates, Tls, TlsError, TlsFiles, read_chain, read_key};
