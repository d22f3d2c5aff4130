//! `lw apply`: makes objects be as their manifests say, and leaves alone what the manifests never said.
//!
//! * [`command`]: the command
//! * [`server_side`]: applied by the server; [`last_applied`]: what was applied last
//! * [`three_way`]: last applied, wanted and present state into the next state
//! * [`merge_keys`]: which lists are merged item by item

mod command;
mod last_applied;
mod merge_keys;
mod server_side;
mod three_way;

pub(crate) use command::{ApplyArgs, How, LAST_APPLIED, apply, run, with_last_applied};
pub(crate) use three_way::{merge_patch, three_way};
