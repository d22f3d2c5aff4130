//! `lw create`: creates objects, and refuses those that exist.
//!
//! * [`command`]: from files, and what all its ways share; [`name`]: the name that each needs
//! * [`simple`], [`workload`], [`service`], [`rbac`]: objects that flags describe
//! * [`config_map`], [`secret`]: what holds keys; [`content`]: where keys come from
//! * [`token`]: a token of a service account

mod command;
mod config_map;
mod content;
mod name;
mod rbac;
mod secret;
mod service;
mod simple;
mod token;
mod workload;

pub(crate) use command::{CreateArgs, run};
