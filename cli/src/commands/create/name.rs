//! The name of an object to make: exactly one.

use clap::Args;

use crate::commands::failure::Failure;
use crate::usage::program;

/// Where a generator's name stands.
#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// Name of the object
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

impl NameArgs {
    /// The name.
    ///
    /// # Errors
    /// kubectl's words if there is none, or more than one; `command` is what a person typed: `secret generic`.
    pub(super) fn one(&self, command: &str) -> Result<&str, Failure> {
        match self.names.as_slice() {
            [name] => Ok(name),
            names => Err(Failure::usage(format!(
                "exactly one NAME is required, got {}\nSee '{} create {command} -h' for help and examples",
                names.len(),
                program()
            ))),
        }
    }
}
