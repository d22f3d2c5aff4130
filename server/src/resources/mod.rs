//! The resource door: `listwatch.v1` over gRPC.
//!
//! Thin: each verb reads its request ([`request`]), asks the registry, and writes the answer in the view asked for
//! ([`view`]). Invariants: what is not supported is refused by name; every message is bounded; a watch is never silent;
//! errors are the registry's own Status, carried whole.
//!
//! * `service`: the verbs; `list` and `watch` cut what is big, `log` fetches from the kubelet
//! * `admin`: what an operator asks of the store
//! * `refusal`: what the gRPC layer refuses by itself
//! * `routes`: all of it as one router

mod refusal;
mod request;
mod view;

mod list;
mod service;
mod watch;

mod log;

mod admin;
mod routes;

pub use routes::{ResourceOptions, routes};
