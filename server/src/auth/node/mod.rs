//! What a kubelet may do: read what the pods of its node need, write its own node, lease and pods (Kubernetes 1.36).
//!
//! * [`authorizer`]: by what is asked; [`related`]: whether an object belongs to the node; [`restriction`]: by what a
//!   write would do; [`audience`]: for whom it may ask tokens
//!
//! Invariant: a node's certificate reaches no other node's pods, secrets, leases or Node.

mod audience;
mod authorizer;
mod related;
mod restriction;

pub(super) use authorizer::NodeAuthorizer;
pub(super) use restriction::{admit, admit_token};

use crate::registry::User;

/// The node that a user is the kubelet of; `Some("")` for one of no name.
pub(super) fn node_of(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    user.groups.iter().any(|group| group == "system:nodes").then_some(name)
}
