//! The command `lw logs`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use listwatch_components::client::LogParams;

use super::sources::{Choice, Source, of_object, of_selector};
use super::stream::{Streams, show};
use crate::commands::delete::parse_duration;
use crate::commands::failure::Failure;
use crate::commands::session::{Session, SessionArgs};
use crate::usage::see;

/// Lines from the end when a selector is given and nothing is said (kubectl's number).
const SELECTOR_TAIL: i64 = 10;

/// Show what containers have written
///
/// Examples: lw logs web-0 -f; lw logs deploy/web --tail=20; lw logs web-0 -c side --previous;
/// lw logs -l app=web --all-containers --prefix; lw logs web-0 --since=5m --timestamps
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// POD or KIND/NAME (a Deployment or ReplicaSet: one of its pods), then maybe a container
    #[arg(value_name = "POD|KIND/NAME", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Which container
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Every container of the pods
    #[arg(long)]
    all_containers: bool,
    /// Every pod of the object, with prefixes
    #[arg(long)]
    all_pods: bool,
    /// Only pods with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Go on as it grows
    #[arg(short, long)]
    follow: bool,
    /// Of the run before this one
    #[arg(short, long)]
    previous: bool,
    /// Only so many lines from the end of each; -1: all; without it all, or 10 with a selector
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// Only what was written so long ago at most (5s, 2m)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Only what was written at this time or after (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since_time: Option<Timestamp>,
    /// Each line with its time in front
    #[arg(long)]
    timestamps: bool,
    /// Each line with its pod and container in front
    #[arg(long)]
    prefix: bool,
    /// At most so many bytes of each
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true, allow_negative_numbers = true)]
    limit_bytes: i64,
    /// Follow at most so many at once
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    max_log_requests: usize,
    /// Go on when one of several cannot be read
    #[arg(long)]
    ignore_errors: bool,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error| format!("{error}: give a time as 2026-01-31T12:00:00Z"))
}

/// Runs the command.
pub(crate) async fn run(args: &LogsArgs) -> Result<ExitCode, Failure> {
    check(args)?;
    let session = Session::open(&args.session)?;
    let inline = args.words.get(1).map(String::as_str);
    let choice = Choice {
        container: args.container.as_deref().or(inline),
        all_containers: args.all_containers,
        all_pods: args.all_pods,
    };
    let sources = match args.words.first() {
        Some(word) => of_object(&session, word, &choice).await?,
        None => of_selector(&session, &args.selector, &choice).await?,
    };
    let limit = args.max_log_requests;
    if args.follow && sources.len() > 1 && sources.len() > limit {
        return Err(Failure::plain(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {limit}, use \
             --max-log-requests to increase the limit",
            sources.len()
        )));
    }
    show(&session, &streams(args, sources)).await
}

fn check(args: &LogsArgs) -> Result<(), Failure> {
    let usage = |text: &str| Err(Failure::usage(text));
    match (args.words.is_empty(), args.selector.is_empty()) {
        (true, true) => {
            return Err(Failure::usage(format!(
                "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument \
                 for the logs command\n{}",
                see("logs")
            )));
        }
        (false, false) => return usage("only a selector (-l) or a POD name is allowed"),
        _ => {}
    }
    if args.container.is_some() && args.words.len() == 2 {
        return usage("only one of -c or an inline [CONTAINER] arg is allowed");
    }
    let named = args.container.as_deref().or(args.words.get(1).map(String::as_str));
    if let Some(name) = named.filter(|_| args.all_containers) {
        return usage(&format!("--all-containers=true should not be specified with container name {name}"));
    }
    if args.limit_bytes < 0 {
        return usage("--limit-bytes must be greater than 0");
    }
    if args.tail.is_some_and(|lines| lines < -1) {
        return usage("--tail must be greater than or equal to -1");
    }
    Ok(())
}

fn streams(args: &LogsArgs, sources: Vec<Source>) -> Streams {
    let tail = args.tail.or_else(|| (!args.selector.is_empty()).then_some(SELECTOR_TAIL)).filter(|lines| *lines >= 0);
    // Rounded up: what is older than the time asked for is left out here.
    let ago = args.since_time.map(|time| (Timestamp::now().as_second() - time.as_second() + 1).max(1));
    let params = LogParams {
        container: String::new(),
        follow: args.follow,
        previous: args.previous,
        tail_lines: tail,
        since_seconds: args.since.map(|d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX).max(1)).or(ago),
        timestamps: args.timestamps || args.since_time.is_some(),
        limit_bytes: if args.since_time.is_some() { 0 } else { args.limit_bytes },
    };
    Streams {
        sources,
        params,
        prefix: args.prefix || args.all_pods,
        since: args.since_time,
        timestamps: args.timestamps,
        limit_bytes: args.limit_bytes,
        ignore_errors: args.ignore_errors,
    }
}
