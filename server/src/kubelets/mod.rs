//! What the server fetches from kubelets on behalf of its clients, whatever door they came through.
//!
//! * [`client`]: reaching one, over TLS, and only one that proves to be its node
//! * [`log`]: the log of a container; [`containers`]: which container is meant
//! * [`stream`]: commands, output and forwarded ports, handed through; [`port`]: a connection of the server's own to a port
//!   of a pod
//!
//! Invariant: a stream of a kubelet is handed on piece by piece, never held as a whole.

mod client;
mod containers;
mod log;
mod port;
mod stream;

pub use client::Kubelets;
pub(crate) use client::{Answer, Endpoint, no_way};
pub(crate) use log::{LogQuery, open_log};
pub(crate) use port::{PortStream, open_port};
pub(crate) use stream::{StreamQuery, Streams, open_stream};
