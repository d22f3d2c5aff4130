//! Commands that kubectl has and this program has not: refused by name, with what to do instead.
//!
//! They take any arguments, so that whoever types them hears of the command and not of a flag.

use std::process::ExitCode;

use clap::Args;

use super::failure::Failure;

/// Whatever stands behind the command's name.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RefusedArgs {
    #[arg(num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<String>,
}

/// What serves in place of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The manifest.
    Apply,
    /// Another thing to do.
    Do(&'static str),
    /// There is nothing like it.
    Nothing,
}

impl RefusedArgs {
    /// What stands behind the name, but for flags.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str).filter(|word| !word.starts_with('-'))
    }

    /// Says that there is no such command: wrong usage.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn refuse(&self, name: &str, instead: Instead) -> Result<ExitCode, Failure> {
        let advice = match instead {
            Instead::Apply => ": change the object's manifest and use lw apply",
            Instead::Do(advice) => return Err(Failure::usage(format!("lw {name} is not supported: {advice}"))),
            Instead::Nothing => "",
        };
        Err(Failure::usage(format!("lw {name} is not supported{advice}")))
    }
}
