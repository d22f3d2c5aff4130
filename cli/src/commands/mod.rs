//! The everyday commands on objects, in kubectl's words, columns and messages.
//!
//! Invariants: what an object means stands in the server; a command asks, joins columns and prints. Results go to
//! standard output, all else to standard error. Exit codes are kubectl's: 0 done, 1 refused, failed or wrong usage.
//!
//! * [`get`], [`describe`], [`events`], [`logs`], [`api_resources`], [`explain`]: look; [`exec`]: into what runs
//! * [`apply`], [`create`], [`run`], [`expose`], [`autoscale`], [`replace`], [`delete`], [`edit`], [`patch`], [`label`],
//!   [`taint`], [`cordon`], [`drain`], [`scale`], [`set`], [`rollout`]: change; [`generated`]: objects made up from flags
//! * [`auth`]: who one is, and what one may do
//! * [`wait`]: until something is so; [`completion`]: for shells; [`refused`]: what there is not
//! * [`selection`], [`choice`], [`follow`]: which objects, and their changes by watch; [`progress`]: while a person waits
//! * [`session`], [`names`]: connection, namespace, how objects are named
//! * [`manifest`], [`strict_value`]: objects from files; [`rules`]: rules of roles as lines
//! * [`table`], [`output`], [`yaml`], [`kyaml`], [`age`]: print
//! * [`command_line`], [`failure`]: flags and errors in kubectl's words
//! * [`dispatch`]: which is which

mod age;
mod api_resources;
mod apply;
mod auth;
mod autoscale;
mod choice;
mod command_line;
mod completion;
mod cordon;
mod create;
mod delete;
mod describe;
mod dispatch;
mod drain;
mod edit;
mod events;
mod exec;
mod explain;
mod expose;
mod failure;
mod follow;
mod generated;
mod get;
mod kyaml;
mod label;
mod logs;
mod manifest;
mod names;
mod output;
mod patch;
mod progress;
mod refused;
mod replace;
mod rollout;
mod rules;
mod run;
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
pub(crate) use command_line::{Arranged, arrange, refusal};
pub(crate) use completion::answer_shell;
pub(crate) use dispatch::{Command, dispatch};
pub(crate) use failure::with_causes;
pub(crate) use progress::Waiting;
