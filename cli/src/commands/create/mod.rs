//! `lw create`: creates objects, and refuses those that exist.
//!
//! * [`command`]: from files, and what all its ways share
//! * [`simple`]: a namespace or a deployment by flags
//! * [`config_map`]: a ConfigMap from literals and files

mod command;
mod config_map;
mod simple;

pub(crate) use command::{CreateArgs, run};
