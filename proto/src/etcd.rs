//! The generated messages and services of etcd v3, so that its stock clients can talk to the store.
//!
//! Invariant: packages, names and field numbers are etcd's; only the comments are ours.

/// Keys, values and events.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod mvccpb {
    include!("generated/mvccpb.rs");
}

/// Users, roles and permissions.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod authpb {
    include!("generated/authpb.rs");
}

/// The services: KV, Watch, Lease, Cluster, Maintenance, Auth.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod etcdserverpb {
    include!("generated/etcdserverpb.rs");
}
