//! Reviews: questions about who somebody is and what he may do, answered and not kept (Kubernetes 1.36).
//!
//! [`access`]: may he do this; [`rules`]: what may I do; [`identity`]: who am I, whose is this token.

mod access;
mod identity;
mod rules;

pub(super) use access::{local, own, subject};
pub(super) use identity::{self_subject, token};
pub(super) use rules::self_rules;
