//! Label and field selectors: parse, match, print (Kubernetes 1.36).
//!
//! Invariant: an empty selector matches everything; a selector prints to text that parses to the same selector; what is
//! refused is refused in apimachinery's words.

mod error;
mod field;
mod label;
mod label_text;
mod names;

pub use error::SelectorError;
pub use field::FieldSelector;
pub use label::LabelSelector;
