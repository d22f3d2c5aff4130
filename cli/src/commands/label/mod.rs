//! `lw label` and `lw annotate`: set and remove the words that objects carry.
//!
//! * [`command`]: both commands
//! * [`changes`]: what is to be changed, and what that comes to on one object

mod changes;
mod command;

pub(crate) use command::{AnnotateArgs, LabelArgs, annotate, label};
