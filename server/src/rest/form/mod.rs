//! The forms in which a client sends and is answered.
//!
//! * [`negotiate`]: in which form the answer goes; [`body`], [`media_type`] and [`yaml`]: what a client sent; [`yaml_write`]:
//!   YAML answers
//! * [`answer`]: objects and failures as HTTP answers; [`table`]: rows of columns; [`finish`] and [`pretty`]: laid out and
//!   compressed

pub(in crate::rest) mod answer;
pub(in crate::rest) mod body;
pub(in crate::rest) mod finish;
mod media_type;
pub(in crate::rest) mod negotiate;
mod pretty;
pub(in crate::rest) mod table;
mod yaml;
mod yaml_write;
