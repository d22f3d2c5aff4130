//! `lw describe`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::ListParams;
use listwatch_proto::resource::{Kind, Object};

use super::super::failure::{Failure, Report};
use super::super::session::{Session, SessionArgs, Target, kind_named, parse_targets};
use super::tabs::align;
use super::{pod, text};

/// Show all there is to know of pods
///
/// Examples: lw describe pod web-0; lw describe pods -l app=web
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// pod NAME…, pod/NAME …, or pods with -l; a name may be the beginning of one
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// With the Events about each object
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    show_events: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &DescribeArgs) -> Result<ExitCode, Failure> {
    if args.words.is_empty() {
        return Err(Failure::usage(
            "You must specify the type of resource to describe. Use \"lw describe --help\" for examples.",
        ));
    }
    let targets = parse_targets(&args.words)?;
    if !args.selector.is_empty() && targets.iter().any(|t| !t.names.is_empty()) {
        return Err(Failure::usage("name cannot be provided when a selector is specified"));
    }
    if let Some(other) = targets.iter().find(|t| t.kind.kind != "Pod") {
        let singular = other.kind.singular;
        return Err(Failure::plain(format!(
            "describe knows pods only, not a {singular}: use lw get {singular} -o yaml"
        )));
    }
    let mut session = Session::open(&args.session)?;
    if args.all_namespaces {
        session.namespace.clear();
    }
    let mut report = Report::default();
    let mut pods = Vec::new();
    for target in &targets {
        collect(args, &session, target, &mut pods, &mut report).await?;
    }
    for (index, pod) in pods.iter().enumerate() {
        let gap = if index > 0 { "\n\n" } else { "" };
        let text = describe(args, &session, pod).await?;
        write!(io::stdout().lock(), "{gap}{text}")?;
    }
    if pods.is_empty() && report.exit_code() == ExitCode::SUCCESS {
        if args.all_namespaces {
            eprintln!("No resources found");
        } else {
            eprintln!("No resources found in {} namespace.", session.namespace);
        }
    }
    Ok(report.exit_code())
}

async fn collect(
    args: &DescribeArgs,
    session: &Session,
    target: &Target,
    found: &mut Vec<Object>,
    report: &mut Report,
) -> Result<(), Failure> {
    let api = session.api(target.kind);
    let params = ListParams::in_namespace(session.namespace_of(target.kind)).labels(args.selector.as_str());
    if target.names.is_empty() {
        found.extend(api.list(&params).await?.items.into_iter().map(|pod| pod.object));
    }
    for name in &target.names {
        match api.get(&session.key(target.kind, name)).await {
            Ok(pod) => found.push(pod.object),
            Err(error) if error.is_not_found() => {
                // As kubectl: the beginning of a name is enough.
                let list = api.list(&params).await?;
                let before = found.len();
                found.extend(list.items.into_iter().filter(|p| p.key.name.starts_with(name)).map(|p| p.object));
                if found.len() == before {
                    report.fail(session.explain_missing(target.kind, error).await);
                }
            }
            Err(error) => report.fail(error),
        }
    }
    Ok(())
}

async fn describe(args: &DescribeArgs, session: &Session, pod: &Object) -> Result<String, Failure> {
    let mut out = String::new();
    pod::describe(&mut out, pod);
    if args.show_events {
        let kind: &'static Kind = kind_named("events")?;
        let selector = format!(
            "involvedObject.name={},involvedObject.namespace={},involvedObject.uid={}",
            pod.name(),
            pod.namespace(),
            pod.uid()
        );
        let params = ListParams::in_namespace(pod.namespace()).fields(selector);
        let list = session.api(kind).list(&params).await?;
        text::events(&mut out, list.items.into_iter().map(|event| event.object).collect());
    }
    Ok(align(&out))
}
