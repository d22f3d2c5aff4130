//! `lw attach`: the streams of what runs in a container.

use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::query;
use serde_json::Value;

use super::session::Streams;
use super::target::{path, pod_of, running_container};
use crate::commands::failure::Failure;
use crate::commands::session::{Session, SessionArgs};
use crate::terminal::tell;
use crate::usage::see;

/// Join what runs in a container
///
/// Examples: lw attach web-0; lw attach web-0 -c side -it
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
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
    /// Standard input is the container's terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Say nothing but what the container says
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let [word] = args.words.as_slice() else {
        let problem = if args.words.is_empty() {
            "at least 1 argument is required for attach".to_owned()
        } else {
            format!("expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw {}", args.words.len())
        };
        return Err(Failure::usage(format!("{problem}\n{}", see("attach"))));
    };
    let session = Session::open(&args.session)?;
    let pod = pod_of(&session, word).await?;
    let container = running_container(&pod, args.container.as_deref())?;
    let mut streams = Streams { stdin: args.stdin, tty: args.tty };
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_array);
    let has_tty = containers.into_iter().flatten().any(|c| c["name"] == container.as_str() && c["tty"] == true);
    if streams.tty && !has_tty {
        streams.tty = false;
        if !args.quiet {
            tell!("error: Unable to use a TTY - container {container} did not allocate one");
        }
    }
    let streams = streams.settled(args.quiet);
    if streams.tty && !args.quiet {
        tell!("If you don't see a command prompt, try pressing enter.");
    }
    let mut pairs = vec![("container", container.as_str())];
    pairs.extend(streams.query());
    streams.join(&session.client, &path(&pod, "attach", &query(pairs))).await
}
