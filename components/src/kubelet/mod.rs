//! The kubelet: runs the pods of one node and tells the API how they fare.
//!
//! It hears of pods by a watch on `spec.nodeName`, gives each a worker, starts containers through a runtime and writes
//! statuses back. All its memory is cache: killed at any time, it finds its pods in the API and its containers under
//! their shims again. In reading order:
//!
//! * [`run`], [`Options`]: the program
//! * [`pod`]: what should be done with a pod and what is said of it; pure
//! * [`runtime`]: what runs containers
//! * `worker`: one task for each pod
//! * `node`: registration, status, heartbeats
//! * `server`: logs over HTTPS

mod node;
pub mod pod;
mod program;
pub mod runtime;
mod server;
mod worker;

pub use program::{Error, Options, Ready, RuntimeKind, run};
pub use server::{ServingCertificate, TlsError};
