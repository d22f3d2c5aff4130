//! `lw auth`: who one is, and what one may do.
//!
//! * [`command`]: its subcommands
//! * [`can_i`]: whether something is allowed, and all that is
//! * [`who_am_i`]: as whom the server knows the client

mod can_i;
mod command;
mod who_am_i;

pub(crate) use command::{AuthArgs, run};
