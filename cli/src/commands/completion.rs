//! `lw completion`: what a shell needs to complete commands, flags, kinds and the names of objects.
//!
//! The shell asks this program itself, through an environment variable, so that what it offers is never out of date.
//! Invariant: a question of a shell says nothing on standard error and takes no longer than [`LIMIT`].

use std::ffi::OsStr;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Command, CommandFactory, Parser, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use listwatch_proto::resource::{KINDS, Kind};
use listwatch_proto::v1::{ListRequest, View};

use super::failure::Failure;
use super::session::{Session, SessionArgs};

/// The variable by which a shell asks.
const VARIABLE: &str = "LW_COMPLETE";
/// Nobody waits longer for a tab.
const LIMIT: Duration = Duration::from_secs(2);
/// How many names are offered: more than a person reads.
const NAMES_MAX: i64 = 500;

/// Print the completions for a shell
///
/// Examples: source <(lw completion bash); source <(lw completion zsh); lw completion fish | source
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &CompletionArgs) -> Result<ExitCode, Failure> {
    let shells = Shells::builtins();
    let shell = shells.completer(args.shell.name()).expect("every one of them is built in");
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "lw", "lw", "lw", &mut script)?;
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a shell that asks, and ends the process; does nothing if none asks.
pub(crate) fn answer_shell<C: CommandFactory>() {
    let wants_flags = words_of_shell().is_some_and(|(words, at)| words.get(at).is_some_and(|w| w.starts_with('-')));
    CompleteEnv::with_factory(|| prepared(C::command(), wants_flags)).var(VARIABLE).complete();
}

/// The words behind `lw` as a shell gives them, and which of them is completed.
fn words_of_shell() -> Option<(Vec<String>, usize)> {
    // What is no text names no object, but must not take the answer from the other words.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|text| text.parse::<usize>().ok());
    let at = index.map_or(words.len().checked_sub(1)?, |index| index.saturating_sub(1));
    Some((words, at))
}

/// Every argument that names objects can be completed, in every command; flags are offered to those who begin one.
fn prepared(command: Command, wants_flags: bool) -> Command {
    let command = command.disable_help_flag(!wants_flags).disable_version_flag(!wants_flags).mut_args(|arg| {
        if arg.get_id() == "words" {
            return arg.add(ArgValueCompleter::new(objects));
        }
        let is_flag = !arg.is_positional();
        arg.hide(is_flag && !wants_flags)
    });
    command.mut_subcommands(|command| prepared(command, wants_flags))
}

/// Completes the word that a shell stands at.
fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let (words, at) = words_of_shell().unwrap_or_default();
    let line = Line::read(&words[..at.min(words.len())]);
    let offered: Vec<String> = match line.question(current) {
        Question::Kinds => KINDS.iter().map(|kind| kind.plural.to_owned()).collect(),
        Question::Names { kind, prefix } => {
            let names = names(&line.session, kind).unwrap_or_default();
            names.into_iter().map(|name| format!("{prefix}{name}")).collect()
        }
    };
    let fitting = offered.into_iter().filter(|word: &String| word.starts_with(current));
    fitting.map(CompletionCandidate::new).collect()
}

/// What stands before the word that is completed.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// The command and what else is no flag.
    words: Vec<String>,
    /// The flags that say which cluster and namespace.
    session: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Question {
    Kinds,
    Names { kind: &'static Kind, prefix: String },
}

impl Line {
    fn read(words: &[String]) -> Line {
        const SESSION: &[&str] = &["-n", "--namespace", "--kubeconfig", "--name", "--data-dir", "--server", "--token"];
        let mut line = Line { words: Vec::new(), session: Vec::new() };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if SESSION.contains(&word.as_str()) {
                line.session.extend([word.clone(), rest.next().cloned().unwrap_or_default()]);
            } else if SESSION.iter().any(|flag| word.strip_prefix(flag).is_some_and(|v| v.starts_with('='))) {
                line.session.push(word.clone());
            } else if !word.starts_with('-') {
                line.words.push(word.clone());
            }
        }
        line
    }

    /// What is wanted at a word that begins so.
    fn question(&self, current: &str) -> Question {
        if let Some((word, _)) = current.split_once('/')
            && let Some(kind) = Kind::by_name(word)
        {
            return Question::Names { kind, prefix: format!("{word}/") };
        }
        let pods = Kind::by_name("pods").expect("a served kind");
        match self.words.first().map(String::as_str) {
            Some("logs") => return Question::Names { kind: pods, prefix: String::new() },
            None => return Question::Kinds,
            Some(_) => {}
        }
        match self.words[1..].iter().find_map(|word| Kind::by_name(word)) {
            Some(kind) => Question::Names { kind, prefix: String::new() },
            None => Question::Kinds,
        }
    }
}

#[derive(Debug, Parser)]
struct Probe {
    #[command(flatten)]
    session: SessionArgs,
}

/// The names of the objects of a kind; `None` if the server cannot be asked.
fn names(flags: &[String], kind: &'static Kind) -> Option<Vec<String>> {
    let probe = Probe::try_parse_from(["lw".to_owned()].iter().chain(flags)).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        let session = Session::open(&probe.session).ok()?;
        let request = ListRequest {
            resource: Some(kind.reference(session.namespace_of(kind), "")),
            limit: NAMES_MAX,
            view: View::Metadata as i32,
            ..ListRequest::default()
        };
        let list = tokio::time::timeout(LIMIT, session.client.list_wire(request)).await.ok()?.ok()?;
        Some(list.items.into_iter().map(|object| object.name).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, current: &str, expected: &Question) {
        let words: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
        assert_eq!(&Line::read(&words).question(current), expected, "{before} {current}");
    }

    #[test]
    fn a_line_tells_what_is_wanted_next() {
        let names = |kind: &str, prefix: &str| Question::Names {
            kind: Kind::by_name(kind).expect("known"),
            prefix: prefix.to_owned(),
        };
        check("get", "", &Question::Kinds);
        check("get", "deploy/w", &names("deploy", "deploy/"));
        check("get -n x deploy", "", &names("deploy", ""));
        check("describe pod -n=x", "web", &names("pod", ""));
        check("logs -f", "we", &names("pod", ""));
        check("logs", "rs/we", &names("rs", "rs/"));
        check("rollout status", "", &Question::Kinds);
        check("rollout status deploy", "", &names("deploy", ""));
        check("scale --replicas=3", "x", &Question::Kinds);
    }

    #[test]
    fn flags_of_the_connection_are_kept() {
        let words: Vec<String> = ["get", "--kubeconfig", "k", "-n=x", "-o", "pods"].map(str::to_owned).to_vec();
        let line = Line::read(&words);
        assert_eq!(line.session, ["--kubeconfig", "k", "-n=x"]);
    }
}
