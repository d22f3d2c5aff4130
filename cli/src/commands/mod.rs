//! The everyday commands on objects, in kubectl's words, columns and messages.
//!
//! Invariants: what an object means stands in the server; a command asks, joins columns and prints. Results go to
//! standard output, all else to standard error. Exit codes are kubectl's: 0 done, 1 refused, failed or wrong usage.
//!
//! * [`get`], [`describe`], [`events`], [`logs`], [`api_resources`], [`explain`], [`diff`]: look; [`exec`]: into what runs
//! * [`apply`], [`create`], [`run`], [`expose`], [`autoscale`], [`replace`], [`delete`], [`edit`], [`patch`], [`label`],
//!   [`taint`], [`cordon`], [`drain`], [`scale`], [`set`], [`rollout`]: change; [`generated`]: objects made up from flags
//! * [`auth`], [`certificate`]: who one is, and what one may do
//! * [`version`], [`api_versions`], [`cluster_info`], [`options`], [`config`]: what this is and where it goes
//! * [`wait`]: until something is so; [`completion`]: for shells; [`refused`]: what there is not
//! * [`selection`], [`choice`], [`follow`]: which objects, and their changes by watch; [`progress`]: while a person waits
//! * [`session`], [`names`]: connection, namespace, how objects are named
//! * [`manifest`], [`strict_value`], [`writing`]: objects from files, and how they are written; [`rules`]: rules of roles as lines
//! * [`table`], [`output`], [`yaml`], [`kyaml`], [`age`]: print
//! * [`command_line`], [`failure`]: flags and errors in kubectl's words
//! * [`dispatch`]: which is which

mod age;
mod api_resources;
mod api_versions;
mod apply;
mod auth;
mod autoscale;
mod certificate;
mod choice;
mod cluster_info;
mod command_line;
mod completion;
mod config;
mod cordon;
mod create;
mod delete;
mod describe;
mod diff;
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
mod options;
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
mod version;
mod wait;
mod writing;
mod yaml;

pub(crate) use apply::with_last_applied;
pub(crate) use command_line::{Arranged, arrange, refusal};
pub(crate) use completion::answer_shell;
pub(crate) use dispatch::{Command, dispatch};
pub(crate) use failure::with_causes;
pub(crate) use progress::Waiting;
