//! `lw apply`: makes objects be as their manifests say, and leaves alone what the manifests never said.
//!
//! * [`command`]: the command
//! * [`three_way`]: last applied, wanted and present state into the next state
//! * [`merge_keys`]: which lists are merged item by item

mod command;
mod merge_keys;
mod three_way;

pub(crate) use command::{ApplyArgs, DryRun, LAST_APPLIED, Validation, run, with_last_applied, write_params};
pub(crate) use three_way::merge_patch;
