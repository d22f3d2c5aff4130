//! `lw events`: what components have told, oldest first.

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use listwatch_components::client::{Backoff, BackoffPolicy, Error, List, ListParams, WatchEvent, WatchParams};
use listwatch_proto::resource::{Kind, Object};

use super::age::since;
use super::failure::Failure;
use super::output::{self, Form};
use super::session::{Session, SessionArgs, kind_named};
use super::table::Table;
use crate::terminal::{on_one_line, tell};

/// Pauses while a watch waits for the server to come back.
const REWATCH: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };
/// Silence that makes a watch look whether the server is still there.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Show what components have told
///
/// Examples: lw events; lw events --for pod/web-0 -w; lw events --types=Warning -A
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Only what concerns this object
    #[arg(long = "for", value_name = "KIND/NAME")]
    about: Option<String>,
    /// Only of these types: Normal, Warning
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Go on with what is told from now
    #[arg(short, long)]
    watch: bool,
    /// No line with the columns' names
    #[arg(long)]
    no_headers: bool,
    /// Form of the output; without it a table
    #[arg(short, long, value_enum)]
    output: Option<Form>,
}

/// Runs the command.
pub(crate) async fn run(args: &EventsArgs) -> Result<ExitCode, Failure> {
    for kind in &args.types {
        if !["Normal", "Warning"].iter().any(|known| known.eq_ignore_ascii_case(kind)) {
            return Err(Failure::usage("valid --types are Normal or Warning"));
        }
    }
    let mut session = Session::open(&args.session)?;
    if args.all_namespaces {
        session.namespace.clear();
    }
    let kind = kind_named("events")?;
    let selector = field_selector(args)?;
    let params = ListParams::in_namespace(session.namespace.as_str()).fields(selector.as_str());
    let List { revision, incarnation, items } = session.api(kind).list(&params).await?;
    let mut events: Vec<Object> = items.into_iter().map(|e| e.object).filter(|e| is_wanted(args, e)).collect();
    sort(&mut events);
    let mut shown = Shown { args, kind, table: Table::default(), is_header_due: !args.no_headers };
    if events.is_empty() && !args.watch {
        if args.all_namespaces {
            tell!("No events found.");
        } else {
            tell!("No events found in {} namespace.", session.namespace);
        }
        return Ok(ExitCode::SUCCESS);
    }
    match args.output {
        Some(form) if !args.watch => {
            let objects: Vec<_> = events.iter().map(|event| (kind, output::without_managers(event))).collect();
            output::print_list(&mut io::stdout().lock(), form, &objects)?;
        }
        _ => shown.show(&events)?,
    }
    if args.watch {
        follow(&session, &mut shown, &selector, (revision, incarnation)).await?;
    }
    Ok(ExitCode::SUCCESS)
}

fn field_selector(args: &EventsArgs) -> Result<String, Failure> {
    let mut terms = Vec::new();
    if let Some(about) = &args.about {
        let Some((kind, name)) = about.split_once('/').filter(|(k, n)| !k.is_empty() && !n.is_empty()) else {
            return Err(Failure::usage("--for must be in resource/name form"));
        };
        let kind = kind_named(kind)?;
        terms.push(format!("involvedObject.kind={}", kind.kind));
        terms.push(format!("involvedObject.apiVersion={}", kind.api_version()));
        terms.push(format!("involvedObject.name={name}"));
    }
    Ok(terms.join(","))
}

fn is_wanted(args: &EventsArgs, event: &Object) -> bool {
    args.types.is_empty() || args.types.iter().any(|t| t.eq_ignore_ascii_case(event.text(&["type"])))
}

/// When an Event was last seen; its own time fields in kubectl's order.
pub(super) fn last_seen(event: &Object) -> &str {
    let candidates =
        [event.text(&["series", "lastObservedTime"]), event.text(&["lastTimestamp"]), event.text(&["eventTime"])];
    candidates.into_iter().find(|time| !time.is_empty()).unwrap_or_default()
}

/// Oldest first; of the same second in the order they were made.
pub(super) fn sort(events: &mut [Object]) {
    events.sort_by(|a, b| (last_seen(a), a.revision()).cmp(&(last_seen(b), b.revision())));
}

/// `3s`, or `3s (x5 over 2m)` for one that was counted.
pub(super) fn interval(event: &Object, now: Timestamp) -> String {
    let first = [event.text(&["firstTimestamp"]), event.text(&["eventTime"])];
    let first = first.into_iter().find(|time| !time.is_empty()).unwrap_or_default();
    let series = event.int(&["series", "count"]);
    match series.or_else(|| event.int(&["count"])).unwrap_or(1) {
        ..=1 => since(if event.text(&["lastTimestamp"]).is_empty() { first } else { last_seen(event) }, now),
        count => format!("{} (x{count} over {})", since(last_seen(event), now), since(first, now)),
    }
}

struct Shown<'a> {
    args: &'a EventsArgs,
    kind: &'static Kind,
    table: Table,
    is_header_due: bool,
}

impl Shown<'_> {
    fn show(&mut self, events: &[Object]) -> io::Result<()> {
        let out = &mut io::stdout().lock();
        if let Some(form) = self.args.output {
            for event in events {
                output::print(out, form, self.kind, &output::without_managers(event))?;
            }
            return out.flush();
        }
        let now = Timestamp::now();
        let mut lines = Vec::new();
        if std::mem::take(&mut self.is_header_due) {
            let mut header = vec!["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
            if self.args.all_namespaces {
                header.insert(0, "NAMESPACE");
            }
            lines.push(header.into_iter().map(str::to_owned).collect());
        }
        for event in events {
            let object =
                format!("{}/{}", event.text(&["involvedObject", "kind"]), event.text(&["involvedObject", "name"]));
            let mut line = vec![
                interval(event, now),
                on_one_line(event.text(&["type"])).into_owned(),
                on_one_line(event.text(&["reason"])).into_owned(),
                on_one_line(&object).into_owned(),
                on_one_line(event.text(&["message"]).trim()).into_owned(),
            ];
            if self.args.all_namespaces {
                line.insert(0, event.namespace().to_owned());
            }
            lines.push(line);
        }
        self.table.print(out, &lines)?;
        out.flush()
    }
}

/// Goes on until interrupted; survives the server's restart.
async fn follow(
    session: &Session,
    shown: &mut Shown<'_>,
    selector: &str,
    mut from: (i64, String),
) -> Result<(), Failure> {
    let mut backoff = Backoff::new(REWATCH);
    // An Event that is counted comes again: it is shown again only if its count has risen.
    let mut counts: HashMap<String, i64> = HashMap::new();
    loop {
        match stream(session, shown, selector, &mut from, &mut counts).await {
            Ok(()) => backoff.reset(),
            Err(Failure::Server { error, .. }) if error.is_transient() => {
                tokio::time::sleep(backoff.next_delay()).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

async fn stream(
    session: &Session,
    shown: &mut Shown<'_>,
    selector: &str,
    from: &mut (i64, String),
    counts: &mut HashMap<String, i64>,
) -> Result<(), Failure> {
    let params = WatchParams {
        namespace: session.namespace.clone(),
        field_selector: selector.to_owned(),
        start_revision: from.0,
        incarnation: from.1.clone(),
        progress_interval: PROGRESS_INTERVAL,
        ..WatchParams::default()
    };
    let mut watch = session.api(shown.kind).watch(&params).await?;
    loop {
        let batch = match tokio::time::timeout(PROGRESS_INTERVAL * 2, watch.next()).await {
            Err(_) | Ok(Ok(None)) => return Ok(()),
            Ok(Ok(Some(batch))) => batch,
            Ok(Err(error)) => return Err(Error::into(error)),
        };
        let mut events = Vec::new();
        for event in batch.events {
            match event {
                WatchEvent::Added(event) | WatchEvent::Modified(event) if event.revision > from.0 => {
                    let count = event.int(&["count"]).unwrap_or(1);
                    let is_news = counts.insert(event.uid.clone(), count).is_none_or(|before| count > before);
                    if is_news && is_wanted(shown.args, &event.object) {
                        events.push(event.object);
                    }
                }
                WatchEvent::Deleted(event) => drop(counts.remove(&event.uid)),
                _ => {}
            }
        }
        shown.show(&events)?;
        *from = (from.0.max(batch.revision), batch.incarnation);
    }
}
