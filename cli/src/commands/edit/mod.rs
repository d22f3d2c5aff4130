//! `lw edit`: objects in the editor of one's choice, until the server takes them.
//!
//! * [`command`]: the command
//! * [`document`]: the text that is edited
//! * [`editor`]: the editor and its file

mod command;
mod document;
mod editor;

pub(crate) use command::{EditArgs, run};
