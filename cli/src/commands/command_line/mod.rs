//! The command line as kubectl reads and refuses it: flags before the command's name, `--flag=false`, and its words for
//! what it does not understand.
//!
//! * [`arrange`]: brings arguments into the order and the forms that the parser knows
//! * [`words`]: what a refusal of the parser is called

mod arrange;
mod words;

pub(crate) use arrange::{Arranged, arrange};
pub(crate) use words::refusal;
