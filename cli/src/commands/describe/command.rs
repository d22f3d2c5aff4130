//! `lw describe`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::ListParams;
use listwatch_proto::resource::{Kind, Object};

use super::super::failure::{Failure, Report};
use super::super::manifest::FileArgs;
use super::super::session::{Session, SessionArgs, Target, parse_targets};
use super::gather::describe;
use super::tabs::align;
use crate::terminal::escaped;

/// Show all there is to know of objects
///
/// Examples: lw describe pod web-0; lw describe node node01; lw describe deploy,rs -l app=web; lw describe -f web.yaml
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// KIND [NAME…], KIND,KIND, all, or KIND/NAME …; a name may be the beginning of one
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// With the Events about each object; without the flag only where there is one object
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    show_events: Option<bool>,
}

/// Objects to describe.
type Found = Vec<(&'static Kind, Object)>;

/// Runs the command.
pub(crate) async fn run(args: &DescribeArgs) -> Result<ExitCode, Failure> {
    if args.words.is_empty() && args.files.is_empty() {
        return Err(Failure::usage(format!(
            "You must specify the type of resource to describe. Use \"{} api-resources\" for a complete list of \
             supported resources.",
            crate::usage::program()
        )));
    }
    // Who has no server yet is told so later; until then only the kinds of the table are known.
    let _ = Session::open(&args.session);
    let targets = parse_targets(&args.words)?;
    if !args.selector.is_empty() && targets.iter().any(|t| !t.names.is_empty()) {
        return Err(Failure::usage("name cannot be provided when a selector is specified"));
    }
    let mut session = Session::open(&args.session)?;
    if args.all_namespaces {
        session.namespace.clear();
    }
    let mut report = Report::default();
    let mut found = Found::new();
    for manifest in args.files.read(&session, "describe") {
        match manifest {
            Err(failure) => report.fail(failure),
            Ok(manifest) => match session.api(manifest.kind).get(&manifest.key()).await {
                Ok(object) => found.push((manifest.kind, object.object)),
                Err(error) => report.fail(error),
            },
        }
    }
    for target in &targets {
        collect(args, &session, target, &mut found, &mut report).await?;
    }
    // As kubectl: neither with several objects nor where only the beginning of a name was given.
    let is_whole = report.exit_code() == ExitCode::SUCCESS;
    let by_beginning = is_by_beginning(&targets, &found);
    let with_events = args.show_events.unwrap_or(found.len() == 1 && is_whole && !by_beginning);
    for (index, (kind, object)) in found.iter().enumerate() {
        let (gap, end) = if by_beginning { ("", "\n") } else { (if index > 0 { "\n\n" } else { "" }, "") };
        let text = align(&escaped(&describe(&session, kind, object, with_events).await?));
        write!(io::stdout().lock(), "{gap}{text}{end}")?;
    }
    if found.is_empty() && report.exit_code() == ExitCode::SUCCESS {
        session.say_nothing_found(targets.iter().all(|target| !target.kind.namespaced));
    }
    Ok(report.exit_code())
}

/// Whether an object was found by the beginning of its name alone.
fn is_by_beginning(targets: &[Target], found: &Found) -> bool {
    let mut names = targets.iter().flat_map(|target| &target.names);
    names.any(|name| found.iter().all(|(_, object)| object.name() != name))
}

async fn collect(
    args: &DescribeArgs,
    session: &Session,
    target: &Target,
    found: &mut Found,
    report: &mut Report,
) -> Result<(), Failure> {
    let (kind, api) = (target.kind, session.api(target.kind));
    let params = ListParams::in_namespace(session.namespace_of(kind)).labels(args.selector.as_str());
    if target.names.is_empty() {
        found.extend(api.list(&params).await?.items.into_iter().map(|object| (kind, object.object)));
    }
    for name in &target.names {
        match api.get(&session.key(kind, name)).await {
            Ok(object) => found.push((kind, object.object)),
            Err(error) if error.is_not_found() && args.words.len() == 2 => {
                // As kubectl: the beginning of a name is enough.
                let list = api.list(&params).await?;
                let before = found.len();
                let begins = list.items.into_iter().filter(|object| object.key.name.starts_with(name));
                found.extend(begins.map(|object| (kind, object.object)));
                if found.len() == before {
                    report.fail(session.explain_missing(kind, error).await);
                }
            }
            Err(error) if error.is_not_found() => report.fail(session.explain_missing(kind, error).await),
            Err(error) => report.fail(error),
        }
    }
    Ok(())
}
