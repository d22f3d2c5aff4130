//! What the subresources of pods do: each needs the store, and so is more than a kind's rules can say.
//!
//! * [`binding`]: a pod is put on a node; [`eviction`]: a pod goes if disruption budgets let it
//! * [`references`]: what else a pod's spec names

mod binding;
mod eviction;
mod references;

pub(crate) use references::{api_reference, config_map_names, projections, projects_token, secret_names};
