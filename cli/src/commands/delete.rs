//! `lw delete`: deletes objects and waits until they are gone.

use std::cell::Cell;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use listwatch_components::client::{DeleteParams, Error, ListParams, Propagation};
use listwatch_proto::go_quote::quote_in_time;
use listwatch_proto::resource::{Kind, ObjectKey};

use super::choice::ChoiceArgs;
use super::failure::{Failure, Report};
use super::follow::{Follow, Sighting};
use super::manifest::FileArgs;
use super::progress::Waiting;
use super::session::{Session, SessionArgs, full_name, parse_targets};
use super::writing::DryRun;
use crate::programs::DURATION_MAX;
use crate::terminal::tell;

/// Delete objects
///
/// Examples: lw delete pod web-0; lw delete -f web.yaml; lw delete pods -l app=web; lw delete pods --all
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// KIND NAME…, KIND/NAME …, or KIND with -l or --all
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    choice: ChoiceArgs,
    /// Seconds given to end; without it the object's own
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    grace_period: Option<i64>,
    /// One second of grace
    #[arg(long)]
    now: bool,
    /// Do not wait for the node: with --grace-period=0 the object goes at once
    #[arg(long)]
    force: bool,
    /// Wait until the objects are gone
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    wait: bool,
    /// Wait at most so long (5s, 2m); 0: for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    timeout: Duration,
    /// What becomes of the objects that a deleted one owns
    #[arg(long, value_enum, default_value_t = Cascade::Background, num_args = 0..=1, require_equals = true, default_missing_value = "background")]
    cascade: Cascade,
    /// Say nothing of what does not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// Print names alone
    #[arg(short, long, value_parser = ["name"])]
    output: Option<String>,
    /// Only say what would be done: by this program alone (client) or by the server without doing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// What becomes of owned objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cascade {
    /// They go after their owner.
    Background,
    /// They go before their owner.
    Foreground,
    /// They stay.
    Orphan,
}

/// `5s`, `2m`, `1h30m`, `0`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let problem =
        || format!("time: invalid duration {}: give a number and a unit, 30s, 5m or 1h30m", quote_in_time(text));
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut total, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|n| *n > 0).ok_or_else(problem)?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |n| digits + n);
        let number: u64 = rest[..digits].parse().map_err(|_| problem())?;
        let part = match &rest[digits..unit] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.saturating_mul(60)),
            "h" => Duration::from_secs(number.saturating_mul(3600)),
            _ => return Err(problem()),
        };
        (total, rest) = (total.saturating_add(part), &rest[unit..]);
    }
    match text {
        "" => Err(problem()),
        _ if total > DURATION_MAX => {
            Err(format!("time: invalid duration {}: longer than a hundred years", quote_in_time(text)))
        }
        _ => Ok(total),
    }
}

/// An object to delete.
struct Doomed {
    kind: &'static Kind,
    key: ObjectKey,
    /// The file that named it.
    source: Option<String>,
}

/// An object that was deleted, to wait for.
pub(super) struct Leaving {
    pub(super) kind: &'static Kind,
    pub(super) key: ObjectKey,
    /// Empty: whatever has the name.
    pub(super) uid: String,
}

/// `pod "a" deleted from default namespace`.
pub(super) fn said_of_deleted(kind: &Kind, key: &ObjectKey, deed: &str) -> String {
    let full = full_name(kind, &key.name);
    let word = full.split('/').next().unwrap_or_default();
    let place = if key.namespace.is_empty() { String::new() } else { format!(" from {} namespace", key.namespace) };
    format!("{word} \"{}\" {deed}{place}", key.name)
}

/// Runs the command.
pub(crate) async fn run(args: &DeleteArgs) -> Result<ExitCode, Failure> {
    check(args)?;
    let mut session = Session::open(&args.session)?;
    if args.choice.all_namespaces {
        session.namespace.clear();
    }
    let mut report = Report::default();
    let doomed = collect(args, &session, &mut report).await?;
    let mut leaving = Vec::new();
    let params = params(args);
    if args.force && !doomed.is_empty() && args.dry_run == DryRun::None {
        tell!(
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. \
             The resource may continue to run on the cluster indefinitely."
        );
    }
    for object in doomed {
        match delete(args, &session, &object, &params).await {
            Ok(left) => leaving.extend(left),
            Err(Failure::Server { error, .. }) if error.is_not_found() && args.ignore_not_found => {}
            Err(failure) => report.fail(failure),
        }
    }
    if args.wait && !args.force {
        wait_all(args, &session, leaving, &mut report).await;
    }
    Ok(report.exit_code())
}

fn check(args: &DeleteArgs) -> Result<(), Failure> {
    if args.now && args.grace_period.is_some() {
        return Err(Failure::usage("--now and --grace-period cannot be specified together"));
    }
    if args.force && args.grace_period.is_some_and(|g| g > 0) {
        return Err(Failure::usage("--force and --grace-period greater than 0 cannot be specified together"));
    }
    if args.choice.all && args.choice.selects() {
        return Err(Failure::usage("setting 'all' parameter but found a non empty selector."));
    }
    if args.words.is_empty() && args.files.is_empty() {
        return Err(Failure::usage(
            "You must provide one or more resources by argument or filename.\nExample resource specifications \
             include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    if !args.words.is_empty() && !args.files.is_empty() {
        return Err(Failure::usage("when paths are provided as input, you may not specify resource arguments as well"));
    }
    Ok(())
}

fn params(args: &DeleteArgs) -> DeleteParams {
    let grace_period_seconds = match (args.grace_period, args.now, args.force) {
        // As kubectl has it, so that nobody loses data by a short flag: 0 means at once only with --force.
        (Some(0), _, false) => Some(1),
        (Some(seconds), _, _) if seconds >= 0 => Some(seconds),
        (_, true, _) => Some(1),
        (_, _, true) => Some(0),
        _ => None,
    };
    let propagation = match args.cascade {
        Cascade::Background => Propagation::Background,
        Cascade::Foreground => Propagation::Foreground,
        Cascade::Orphan => Propagation::Orphan,
    };
    let dry_run = args.dry_run == DryRun::Server;
    DeleteParams { grace_period_seconds, propagation, dry_run, ..DeleteParams::default() }
}

async fn collect(args: &DeleteArgs, session: &Session, report: &mut Report) -> Result<Vec<Doomed>, Failure> {
    let mut doomed = Vec::new();
    for manifest in args.files.read(session, "delete") {
        match manifest {
            Ok(m) => doomed.push(Doomed { kind: m.kind, key: m.key(), source: Some(m.source) }),
            Err(failure) => report.fail(failure),
        }
    }
    let selects = args.choice.all || args.choice.selects();
    for target in parse_targets(&args.words)? {
        let kind = target.kind;
        match (target.names.is_empty(), selects) {
            (true, false) => {
                return Err(Failure::usage("resource(s) were provided, but no name was specified"));
            }
            (false, true) => return Err(Failure::usage("name cannot be provided when a selector is specified")),
            (false, false) => {
                doomed.extend(target.names.iter().map(|n| Doomed { kind, key: session.key(kind, n), source: None }));
            }
            (true, true) => {
                let params = ListParams::in_namespace(session.namespace_of(kind))
                    .labels(args.choice.selector.as_str())
                    .fields(args.choice.field_selector.as_str());
                let list = session.api(kind).list(&params).await?;
                doomed.extend(list.items.into_iter().map(|o| Doomed { kind, key: o.key, source: None }));
            }
        }
    }
    if selects && doomed.is_empty() && !args.words.is_empty() {
        writeln!(io::stdout().lock(), "No resources found")?;
    }
    Ok(doomed)
}

async fn delete(
    args: &DeleteArgs,
    session: &Session,
    object: &Doomed,
    params: &DeleteParams,
) -> Result<Option<Leaving>, Failure> {
    let Doomed { kind, key, source } = object;
    let api = session.api(kind);
    let context = source.as_ref().map_or_else(String::new, |source| format!("error when deleting \"{source}\""));
    let mut left = None;
    if args.dry_run == DryRun::Client {
        api.get(key).await.map_err(|e| Failure::during(context, e))?;
    } else {
        let deleted = api.delete(key, params).await.map_err(|e| Failure::during(context, e))?;
        let uid = deleted.object.map_or_else(String::new, |o| o.uid);
        if !deleted.removed && args.dry_run == DryRun::None {
            left = Some(Leaving { kind, key: key.clone(), uid });
        }
    }
    let out = &mut io::stdout().lock();
    if args.output.is_some() {
        writeln!(out, "{}", full_name(kind, &key.name))?;
        return Ok(left);
    }
    let deed = if args.force { "force deleted" } else { "deleted" };
    writeln!(out, "{}{}", said_of_deleted(kind, key, deed), args.dry_run.suffix())?;
    Ok(left)
}

async fn wait_all(args: &DeleteArgs, session: &Session, leaving: Vec<Leaving>, report: &mut Report) {
    let _waiting = Waiting::begin(match leaving.as_slice() {
        [] => return,
        [one] => format!("{} to go", full_name(one.kind, &one.key.name)),
        many => format!("{} objects to go", many.len()),
    });
    let at = Cell::new(0);
    let wait = async {
        for (index, object) in leaving.iter().enumerate() {
            at.set(index);
            if let Err(error) = wait_gone(session, object).await {
                return Err(Failure::from(error));
            }
        }
        Ok(())
    };
    let outcome = if args.timeout.is_zero() {
        wait.await
    } else {
        tokio::time::timeout(args.timeout, wait).await.unwrap_or_else(|_| {
            let late = &leaving[at.get()];
            let problem = format!("timed out waiting for the condition on {}/{}", late.kind.plural, late.key.name);
            Err(Failure::plain(problem))
        })
    };
    if let Err(failure) = outcome {
        report.fail(failure);
    }
}

/// Waits until the object is gone: its name free, or taken by another object. Survives the server's restart.
pub(super) async fn wait_gone(session: &Session, object: &Leaving) -> Result<(), Error> {
    let mut follow = Follow::object(session, object.kind, &object.key);
    loop {
        match follow.next().await? {
            Sighting::There(now) if object.uid.is_empty() || now.uid() == object.uid => {}
            Sighting::There(_) | Sighting::Gone => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_kubectl_reads_them() {
        for (text, seconds) in [("0", 0), ("30s", 30), ("5m", 300), ("1h30m", 5400)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "5", "s", "5x", "-1s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["99999999999999999h", "18446744073709551615s", "900000h1ms", "18446744073709551615h1h"] {
            let problem = parse_duration(text).expect_err("refused");
            assert!(problem.ends_with("longer than a hundred years"), "{problem}");
        }
        assert!(std::time::Instant::now().checked_add(DURATION_MAX).is_some());
    }
}
