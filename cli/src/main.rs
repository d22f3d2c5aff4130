//! `lw`: one binary for every process and every command of Listwatch.
//!
//! This is the composition root: it reads flags, sets up logging and hands over. Invariants: no rule of the store, of
//! the API or of a controller stands here; `main` is synchronous, so that a small process (a shim, a built-in image)
//! never pays for an async runtime; what is printed goes through [`terminal`], which never panics.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(all(feature = "jemalloc", target_os = "linux", target_env = "gnu"))]
mod allocator;
mod cluster;
mod commands;
mod connection;
mod programs;
mod terminal;
mod up;
mod usage;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use terminal::{Unwritten, tell};

/// A Kubernetes-style control plane on one machine, built on list and watch.
#[derive(Debug, Parser)]
#[command(name = "lw", version, propagate_version = true, arg_required_else_help = true, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Grouped as a person meets them: the cluster, its objects, the single processes.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a process reads its arguments once")]
enum Command {
    #[command(flatten)]
    Cluster(up::Command),
    #[command(flatten)]
    Objects(commands::Command),
    #[command(flatten)]
    Program(programs::Command),
}

/// Exit codes: 0 done, 1 refused or failed, 2 wrong usage (clap's own); commands on objects end wrong usage with 1, as
/// kubectl does.
fn main() -> ExitCode {
    commands::answer_shell::<Cli>();
    let outcome = run();
    let written = terminal::flush();
    match outcome.and_then(|code| Ok(written.map(|()| code)?)) {
        Ok(code) => code,
        Err(error) if error.downcast_ref::<Unwritten>().is_some_and(Unwritten::is_reader_gone) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("error: {}", commands::with_causes(error.as_ref()));
            ExitCode::from(usage::exit_code(&error))
        }
    }
}

/// Reads the command line and does what it says.
fn run() -> anyhow::Result<ExitCode> {
    let root = Cli::command().name(usage::program()).args_override_self(true);
    let arguments = std::env::args_os().collect();
    let arranged = match commands::arrange(&root, arguments, commands::Command::has_subcommand) {
        Ok(arranged) => arranged,
        Err(problem) => {
            tell!("error: {problem}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let parsed = root.clone().try_get_matches_from(&arranged.arguments);
    let answer = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(Cli { command: Command::Cluster(command) }) => return up::run(command),
        Ok(Cli { command: Command::Objects(command) }) => return commands::dispatch(command),
        Ok(Cli { command: Command::Program(command) }) => return programs::run(command),
        Err(answer) => answer,
    };
    if let Some(problem) =
        is_kubectls(&answer, &arranged).then(|| commands::refusal(&answer, &root, &arranged)).flatten()
    {
        tell!("error: {problem}");
        return Ok(ExitCode::FAILURE);
    }
    let is_help_alone = !arranged.path.is_empty() && answer.use_stderr();
    // Help is no error, and goes to standard output.
    match answer.print() {
        Err(error) if !answer.use_stderr() => Err(Unwritten::from(error).into()),
        _ if is_help_alone => Ok(ExitCode::FAILURE),
        _ => Ok(ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2))),
    }
}

/// Whether a refusal is told as kubectl does: that of a command on objects, and of one that there is not.
fn is_kubectls(answer: &clap::Error, arranged: &commands::Arranged) -> bool {
    let unknown = answer.get(ContextKind::InvalidSubcommand);
    let is_first = |word: &String| arranged.arguments.get(1).is_some_and(|first| *first == **word);
    !arranged.path.is_empty() || matches!(unknown, Some(ContextValue::String(word)) if is_first(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_put_together_well() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        let mut bare = Vec::new();
        find_bare(&Cli::command(), "lw", &mut bare);
        assert!(bare.is_empty(), "no example in the help of: {bare:?}");
    }

    fn find_bare(command: &clap::Command, path: &str, bare: &mut Vec<String>) {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", command.get_name());
            let mut shown = command.clone();
            if !shown.render_long_help().to_string().contains("Example") {
                bare.push(path.clone());
            }
            find_bare(command, &path, bare);
        }
    }
}
