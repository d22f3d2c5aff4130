//! The chain from a Deployment to Running pods, shown as it happens.

use std::time::Instant;

use super::spec::Plan;

/// Placeholder until the client stands.
pub(crate) async fn run(_plan: &Plan, _begun: Instant) {}
