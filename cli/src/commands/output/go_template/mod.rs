//! `-o go-template=…`: the language of Go's `text/template`, as far as objects need it.
//!
//! There are text, trimmed or not, fields, variables, pipelines, `if`, `range`, `with`, `break`, `continue` and Go's
//! functions with kubectl's `exists` and `base64decode`. Templates in templates (`define`, `block`, `template`) are refused
//! by name. One rule is softer than Go's: whole and broken numbers compare with each other.
//!
//! * [`lex`]: text into tokens
//! * [`parse`]: tokens into a tree
//! * [`run`]: the tree over an object
//! * [`functions`]: what a template can call

mod functions;
mod lex;
mod parse;
mod run;

pub(super) use run::GoTemplate;
