//! `lw logs`: what containers have written.
//!
//! * [`command`]: the command
//! * [`sources`]: which containers of which pods
//! * [`lines`]: lines with prefixes, and those since a time
//! * [`stream`]: one after the other, or all together as they grow

mod command;
mod lines;
mod sources;
mod stream;

pub(crate) use command::{LogsArgs, run};
pub(crate) use sources::container_of;
