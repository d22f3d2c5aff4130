//! `proxy` of pods, services and nodes: a request is passed on to a port of a pod, or to the kubelet of a node.
//!
//! * [`request`]: what is asked; [`place`]: which pod and port is meant, or which node; [`pass`]: the request onward and the
//!   answer back
//!
//! Invariants: a pod is reached through its kubelet, never by an address out of an object; what proves who the client is
//! stays here; an answer is handed on piece by piece, as it comes.

mod pass;
mod place;
mod request;

pub(super) use request::proxy;
