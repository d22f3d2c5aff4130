//! kubectl's dialect of JSONPath: templates with text, `{range}` and `{end}`, and lenient paths.
//!
//! No other dialect's parser understands it, so that `lw get -o jsonpath=…` has one of its own.
//!
//! * [`parse`]: template into steps
//! * [`evaluate`]: steps over an object

mod evaluate;
mod parse;

pub(crate) use evaluate::text_of;
pub(crate) use parse::{Template, relaxed};
