//! The forms of output that are no tables of the server.
//!
//! * [`forms`]: JSON, YAML, names
//! * [`printer`]: what `-o` can ask for
//! * [`columns`]: `-o custom-columns=…`
//! * [`jsonpath`]: kubectl's dialect of JSONPath
//! * [`go_template`]: the templates of Go
//! * [`sort`]: the order that `--sort-by` asks for

mod columns;
mod forms;
mod go_template;
mod jsonpath;
mod printer;
mod sort;

pub(crate) use forms::{Form, go_indented, print, print_list, to_json, with_go_escapes, without_managers};
pub(crate) use jsonpath::{Template, relaxed, text_of};
pub(crate) use printer::{PrintArgs, Printer};
pub(crate) use sort::SortKey;
