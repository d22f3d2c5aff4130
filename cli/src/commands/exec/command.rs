//! `lw exec`: a command in a container.

use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::query;

use super::session::Streams;
use super::target::{path, pod_of, running_container};
use crate::commands::failure::Failure;
use crate::commands::session::{Session, SessionArgs};
use crate::usage::see;

/// Run a command in a container
///
/// Examples: lw exec web-0 -- ls; lw exec -it deploy/web -- sh; echo text | lw exec -i web-0 -- cat
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// POD or KIND/NAME
    #[arg(value_name = "POD|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Which container; without it the pod's first, or the one that the pod names
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Hand standard input on
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the command a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Say nothing but what the command says
    #[arg(short, long)]
    quiet: bool,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    if args.words.len() > 1 {
        return Err(Failure::usage(format!(
            "exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead\n{}",
            see("exec")
        )));
    }
    let Some(word) = args.words.first() else {
        return Err(Failure::usage("pod, type/name or --filename must be specified"));
    };
    if args.command.is_empty() {
        return Err(Failure::usage("you must specify at least one command for the container"));
    }
    let session = Session::open(&args.session)?;
    let pod = pod_of(&session, word).await?;
    let container = running_container(&pod, args.container.as_deref())?;
    let streams = Streams { stdin: args.stdin, tty: args.tty }.settled(args.quiet);
    let mut pairs = vec![("container", container.as_str())];
    pairs.extend(streams.query());
    pairs.extend(args.command.iter().map(|word| ("command", word.as_str())));
    streams.join(&session.client, &path(&pod, "exec", &query(pairs))).await
}
