//! `lw explain`: what the fields of a kind mean, from the documents that the server has about its API.
//!
//! * [`command`]: the command
//! * [`schema`]: a document's schemas as text, laid out as kubectl 1.36 does
//! * [`wrap`]: lines of words

mod command;
mod schema;
mod wrap;

pub(crate) use command::{ExplainArgs, run};
