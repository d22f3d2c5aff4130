//! The program's own name, and wrong usage that only shows when flags are looked at together, or by what they name: exit code 2, as clap's own.

use std::path::Path;
use std::sync::LazyLock;

/// The name by which this program was called, for messages that tell a person what to type: `lw`, or whatever it was
/// linked or copied to.
pub(crate) fn program() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let path = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.is_empty() { "lw".to_owned() } else { name }
    });
    &NAME
}

/// Where a person finds more about a command: `See 'lw taint -h' for help and examples`.
pub(crate) fn see(command: &str) -> String {
    format!("See '{} {command} -h' for help and examples", program())
}

/// A command or a program was called in a way that can never work: the text names the flag and the cure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The error to return from whoever found the fault.
pub(crate) fn refuse(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// The exit code of a failed command, but for those on objects, which end with 1 as kubectl does: 2 for wrong usage, 1 for all else.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn wrong_usage_is_told_from_failure_whatever_was_said_around_it() {
        assert_eq!(exit_code(&refuse("--name: no")), 2);
        let wrapped = Err::<(), _>(refuse("--name: no")).context("find the cluster").expect_err("an error");
        assert_eq!(exit_code(&wrapped), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("the disk is full")), 1);
    }
}
