//! Role-based access control: rights are what roles grant to the subjects of bindings (Kubernetes 1.36).
//!
//! * [`rule`]: one rule, what it allows, what it covers; [`snapshot`]: all roles and bindings, found by subject
//! * [`cache`]: the snapshot, kept in step with the store; [`policy`]: the roles and bindings that are there from the start
//! * [`grant`]: nobody gives what he has not
//!
//! Invariants: a check looks at the bindings of its user and groups, never at all bindings; it sees every write that was
//! answered before it; rights only add up, nothing takes one away.

mod cache;
mod grant;
mod policy;
mod rule;
mod snapshot;

pub(super) use cache::PolicyCache;
pub(super) use grant::admit;
pub(super) use policy::{completed, first_objects, node_rules};
pub(super) use rule::Rule;
