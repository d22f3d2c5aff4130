//! `lw config`: the kubeconfig that `lw` uses.
//!
//! Invariants: the file is the one that every other command with the same flags takes; it is replaced whole, and what it
//! holds beside the entry that changes stays.
//!
//! * [`command`]: the subcommands; [`contexts`]: the contexts; [`file`]: the file; [`view`]: all of it, without secrets

mod command;
mod contexts;
mod file;
mod view;

pub(crate) use command::{ConfigArgs, run};
