//! `lw wait`: until objects are as one wants them.
//!
//! * [`command`]: the command
//! * [`condition`]: what can be waited for, and whether an object meets it

mod command;
mod condition;

pub(crate) use command::{WaitArgs, run};
