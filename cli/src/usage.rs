//! Wrong usage that only shows when flags are looked at together, or by what they name: exit code 2, as clap's own.

/// A command or a program was called in a way that can never work: the text names the flag and the cure.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The error to return from whoever found the fault.
pub(crate) fn refuse(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// The exit code of a failed command: 2 for wrong usage, 1 for all else.
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
