//! `lw get`: shows objects in tables, whose columns are the server's, or in forms for programs.
//!
//! * [`command`]: the command
//! * [`fetch`]: asks the server
//! * [`shape`]: which columns a table shows
//! * [`watch`]: changes as they come

mod command;
mod fetch;
mod shape;
mod watch;

pub(crate) use command::{GetArgs, run};
