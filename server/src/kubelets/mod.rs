//! What the server fetches from kubelets on behalf of its clients, whatever door they came through.
//!
//! * [`client`]: reaching one, over TLS, and only one that proves to be its node
//! * [`log`]: the log of a container; [`containers`]: which container is meant
//! * [`stream`]: commands, output and forwarded ports, handed through
//!
//! Invariant: a stream of a kubelet is handed on piece by piece, never held as a whole.

mod client;
mod containers;
mod log;
mod stream;

pub(crate) use client::Answer;
pub use client::Kubelets;
pub(crate) use log::{LogQuery, open_log};
pub(crate) use stream::{StreamQuery, Streams, open_stream};
