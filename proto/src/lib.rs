//! The contract of Listwatch: what travels on the wire, and what server, scheduler and kubelet must judge alike.
//!
//! Invariants: no IO, no clock, no async. Everything above stands on this crate; it stands on nothing of ours.
//!
//! * [`v1`]: the generated messages and services of `listwatch.v1` (resources, admin)
//! * [`etcd`]: the generated messages and services of etcd v3
//! * [`resource`]: the kinds and facts about them, access to objects, selectors, quantities, tolerations, errors
//! * [`go_quote`]: texts between quotes in the words of Kubernetes' messages
//! * [`yaml`]: how deep a document is nested, before it is parsed
//! * [`kubeconfig`]: how a client finds a server and who it is there
//! * [`version`]: which release this is
//! * [`DESCRIPTORS`]: the descriptors of all services, for gRPC reflection

pub mod etcd;
pub mod go_quote;
pub mod kubeconfig;
pub mod resource;
pub mod version;
pub mod yaml;

/// The generated messages and services of the resource API.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    include!("generated/listwatch.v1.rs");
}

/// The rich error model of gRPC.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod google_rpc {
    include!("generated/google.rpc.rs");
}

/// The encoded `FileDescriptorSet` of every service in the contract.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
