//! `lw logs`: what a container has written.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_components::client::{ListParams, LogParams};
use listwatch_proto::resource::{Kind, LabelSelector, Object};
use serde_json::Value;

use super::failure::Failure;
use super::session::{Session, SessionArgs, kind_named};

/// The annotation that names the container meant when none is named (kubectl's own).
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Show what a container has written
///
/// Examples: lw logs web-0 -f; lw logs deploy/web --tail=20; lw logs web-0 -c side --previous
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// POD or KIND/NAME (a Deployment or ReplicaSet: one of its pods)
    #[arg(value_name = "POD|KIND/NAME", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Which container
    #[arg(short, long, value_name = "NAME", default_value = "", hide_default_value = true)]
    container: String,
    /// Go on as it grows
    #[arg(short, long)]
    follow: bool,
    /// Of the run before this one
    #[arg(short, long)]
    previous: bool,
    /// Only so many lines from the end; -1: all
    #[arg(long, value_name = "LINES", default_value_t = -1, allow_negative_numbers = true)]
    tail: i64,
    /// Only what was written so long ago at most (5s, 2m)
    #[arg(long, value_name = "DURATION", value_parser = super::delete::parse_duration)]
    since: Option<Duration>,
    /// Each line with its time in front
    #[arg(long)]
    timestamps: bool,
    /// At most so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    limit_bytes: i64,
}

/// Runs the command.
pub(crate) async fn run(args: &LogsArgs) -> Result<ExitCode, Failure> {
    let word = match args.words.as_slice() {
        [word] => word,
        [word, container] if args.container.is_empty() => {
            return Err(Failure::usage(format!("name the container with -c: lw logs {word} -c {container}")));
        }
        _ => {
            return Err(Failure::usage(
                "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'.\nPOD or TYPE/NAME is a required argument \
                 for the logs command\nSee 'lw logs -h' for help and examples",
            ));
        }
    };
    let session = Session::open(&args.session)?;
    let pod = find_pod(&session, word).await?;
    let params = LogParams {
        container: choose_container(args, &pod),
        follow: args.follow,
        previous: args.previous,
        tail_lines: Some(args.tail).filter(|lines| *lines >= 0),
        since_seconds: args.since.map(|d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX).max(1)),
        timestamps: args.timestamps,
        limit_bytes: args.limit_bytes,
    };
    let pods = session.api(kind_named("pods")?);
    let mut stream = pods.log(&pod.key(), &params).await?;
    let mut out = io::stdout().lock();
    while let Some(data) = stream.next().await? {
        out.write_all(&data)?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pod of the name, or the first of the pods that an object selects.
async fn find_pod(session: &Session, word: &str) -> Result<Object, Failure> {
    let pods = kind_named("pods")?;
    let (kind, name) = match word.split_once('/') {
        None => (pods, word),
        Some((kind, name)) => (kind_named(kind)?, name),
    };
    let object = match session.api(kind).get(&session.key(kind, name)).await {
        Ok(object) => object.object,
        Err(error) if error.is_not_found() => {
            let text = format!("error from server (NotFound): {error} in namespace \"{}\"", session.namespace);
            return Err(Failure::plain(text));
        }
        Err(error) => return Err(error.into()),
    };
    if kind == pods {
        return Ok(object);
    }
    pod_of(session, pods, kind, &object).await
}

async fn pod_of(
    session: &Session,
    pods: &'static Kind,
    kind: &'static Kind,
    object: &Object,
) -> Result<Object, Failure> {
    let selector = object.at(&["spec", "selector"]).filter(|s| s.is_object());
    let Some(selector) = selector else {
        return Err(Failure::plain(format!("cannot get the logs from {}: it selects no pods", kind.kind)));
    };
    let selector = LabelSelector::from_json(selector).map_err(|e| Failure::plain(e.to_string()))?;
    let list = session.api(pods).list(&ListParams::in_namespace(session.namespace.as_str())).await?;
    let mut found: Vec<Object> =
        list.items.into_iter().map(|p| p.object).filter(|p| selector.matches_object(p)).collect();
    // Running pods first, then the oldest, as the one that has most to tell.
    found.sort_by_key(|p| (p.text(&["status", "phase"]) != "Running", p.creation_timestamp().to_owned()));
    let count = found.len();
    let Some(pod) = found.into_iter().next() else {
        return Err(Failure::plain(format!("no pods found for {} {}", kind.singular, object.name())));
    };
    if count > 1 {
        eprintln!("Found {count} pods, using pod/{}", pod.name());
    }
    Ok(pod)
}

/// The named container, else the annotated one, else the first; says which, if there was a choice.
fn choose_container(args: &LogsArgs, pod: &Object) -> String {
    if !args.container.is_empty() {
        return args.container.clone();
    }
    let names = |field: &str| -> Vec<String> {
        let list = pod.at(&["spec", field]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
    };
    let containers = names("containers");
    if let Some(name) = pod.annotation(DEFAULT_CONTAINER).filter(|n| containers.iter().any(|c| c == n)) {
        return name.to_owned();
    }
    let Some(first) = containers.first().cloned() else { return String::new() };
    let init = names("initContainers");
    if containers.len() + init.len() > 1 {
        let all: Vec<_> = containers.into_iter().chain(init.into_iter().map(|n| n + " (init)")).collect();
        eprintln!("Defaulted container \"{first}\" out of: {}", all.join(", "));
    }
    first
}
