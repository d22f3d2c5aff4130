//! The everyday commands on objects, in kubectl's words, columns and messages.
//!
//! Invariants: what an object means stands in the server; a command asks, joins columns and prints. Results go to
//! standard output, all else to standard error. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
//!
//! * [`get`], [`describe`], [`events`], [`logs`], [`api_resources`]: look
//! * [`apply`], [`create`], [`delete`], [`edit`], [`patch`], [`label`], [`taint`], [`cordon`], [`scale`], [`set`],
//!   [`rollout`]: change
//! * [`wait`]: until something is so; [`completion`]: for shells; [`refused`]: what there is not
//! * [`selection`], [`choice`], [`follow`]: which objects, and their changes by watch; [`progress`]: while a person waits
//! * [`session`], [`names`]: connection, namespace, how objects are named
//! * [`manifest`], [`strict_value`]: objects from files
//! * [`table`], [`output`], [`yaml`], [`age`]: print
//! * [`failure`]: errors in kubectl's words
//! * [`dispatch`]: which is which

mod age;
mod api_resources;
mod apply;
mod choice;
mod completion;
mod cordon;
mod create;
mod delete;
mod describe;
mod dispatch;
mod edit;
mod events;
mod failure;
mod follow;
mod get;
mod label;
mod logs;
mod manifest;
mod names;
mod output;
mod patch;
mod progress;
mod refused;
mod rollout;
mod scale;
mod selection;
mod session;
mod set;
mod strict_value;
mod table;
mod taint;
mod wait;
mod yaml;

pub(crate) use apply::with_last_applied;
pub(crate) use completion::answer_shell;
pub(crate) use dispatch::{Command, run};
pub(crate) use failure::with_causes;
pub(crate) use progress::Waiting;
