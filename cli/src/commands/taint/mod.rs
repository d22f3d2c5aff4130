//! `lw taint`: set and remove what keeps pods off a node.
//!
//! * [`command`]: the command
//! * [`spec`]: what the words ask for
//! * [`plan`]: the taints that a node has afterwards

mod command;
mod plan;
mod spec;

pub(crate) use command::{TaintArgs, run};
