//! `lw drain`: moves the pods of a node elsewhere.
//!
//! * [`command`]: the command
//! * [`choose`]: which pods go, and which stand in the way
//! * [`evict`]: asks for them to go, again and again where a budget forbids it, and waits until they are gone

mod choose;
mod command;
mod evict;

pub(crate) use command::{DrainArgs, run};
