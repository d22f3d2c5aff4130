//! `lw options`: the flags that every command on objects takes.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Arg, ArgAction, Args, Command};

use super::failure::Failure;
use super::session::SessionArgs;

/// Show the flags that any command on objects takes
///
/// Examples: lw options
#[derive(Debug, Args)]
pub(crate) struct OptionsArgs {
    /// They are taken here as everywhere, and mean nothing.
    #[command(flatten)]
    _session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(_: &OptionsArgs) -> Result<ExitCode, Failure> {
    io::stdout().lock().write_all(text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// In kubectl's form: the flag with what it is without being given, and what it means.
fn text() -> String {
    let flags = SessionArgs::augment_args(Command::new("options"));
    let mut flags: Vec<&Arg> = flags.get_arguments().filter(|flag| !flag.is_hide_set()).collect();
    flags.sort_by_key(|flag| flag.get_long());
    let lines = flags.into_iter().filter_map(|flag| {
        let long = flag.get_long()?;
        let short = flag.get_short().map_or_else(|| "    ".to_owned(), |short| format!("    -{short}, "));
        let usual = match flag.get_action() {
            ArgAction::Append => "[]".to_owned(),
            ArgAction::SetTrue => "false".to_owned(),
            _ => {
                let usual: Vec<_> = flag.get_default_values().iter().filter_map(|value| value.to_str()).collect();
                format!("'{}'", usual.join(","))
            }
        };
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        Some(format!("{short}--{long}={usual}:\n\t{help}\n"))
    });
    let lines: Vec<String> = lines.collect();
    format!("The following options can be passed to any command:\n\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_stands_with_its_meaning() {
        let text = text();
        assert!(text.starts_with("The following options can be passed to any command:\n\n    --as='':\n\t"), "{text}");
        for line in
            ["    --as-group=[]:\n\t", "    -n, --namespace='':\n\t", "    --insecure-skip-tls-verify=false:\n\t"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains(":\n\t\n"), "{text}");
    }
}
