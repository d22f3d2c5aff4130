//! The everyday commands on objects, in kubectl's words, columns and messages.
//!
//! Invariants: what an object means stands in the server; a command asks, joins columns and prints. Results go to
//! standard output, all else to standard error. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
//!
//! * [`get`], [`describe`], [`events`], [`logs`]: look
//! * [`apply`], [`create`], [`delete`], [`scale`]: change
//! * [`session`]: connection, namespace, how objects are named
//! * [`manifest`], [`strict_value`]: objects from files
//! * [`table`], [`output`], [`yaml`], [`age`]: print
//! * [`failure`]: errors in kubectl's words
//! * [`dispatch`]: which is which

mod age;
mod apply;
mod create;
mod delete;
mod describe;
mod dispatch;
mod events;
mod failure;
mod get;
mod logs;
mod manifest;
mod output;
mod scale;
mod session;
mod strict_value;
mod table;
mod yaml;

pub(crate) use apply::with_last_applied;
pub(crate) use dispatch::{Command, run};
pub(crate) use failure::with_causes;
