//! `lw scale`: sets the number of replicas.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{ListParams, Patch, WriteParams};
use listwatch_proto::resource::{Kind, ObjectKey, Reason, Status};
use serde_json::json;

use super::apply::DryRun;
use super::failure::{Failure, Report};
use super::manifest::FileArgs;
use super::session::{Session, SessionArgs, full_name, parse_targets};

/// Set the number of replicas
///
/// Examples: lw scale deploy web --replicas=5; lw scale deploy/web rs/old --replicas=0
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// KIND NAME…, KIND/NAME …, or KIND with -l or --all
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// How many there shall be
    #[arg(long, value_name = "COUNT", required = true, allow_negative_numbers = true)]
    replicas: i32,
    /// Only if there are so many now
    #[arg(long, value_name = "COUNT")]
    current_replicas: Option<i64>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Every object of the kind in the namespace
    #[arg(long)]
    all: bool,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs the command.
pub(crate) async fn run(args: &ScaleArgs) -> Result<ExitCode, Failure> {
    if args.replicas < 0 {
        let text = "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0";
        return Err(Failure::usage(text));
    }
    if args.words.is_empty() && args.files.filenames.is_empty() {
        return Err(Failure::usage(
            "You must provide one or more resources by argument or filename.\nExample resource specifications \
             include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    let session = Session::open(&args.session)?;
    let mut report = Report::default();
    for (kind, key) in collect(args, &session, &mut report).await? {
        match scale(args, &session, kind, &key).await {
            Ok(()) => {
                let mut out = io::stdout().lock();
                writeln!(out, "{} scaled{}", full_name(kind, &key.name), args.dry_run.suffix())?;
            }
            Err(failure) => report.fail(failure),
        }
    }
    Ok(report.exit_code())
}

async fn collect(
    args: &ScaleArgs,
    session: &Session,
    report: &mut Report,
) -> Result<Vec<(&'static Kind, ObjectKey)>, Failure> {
    let mut found = Vec::new();
    for manifest in args.files.read(session, "scale") {
        match manifest {
            Ok(manifest) => found.push((manifest.kind, manifest.key())),
            Err(failure) => report.fail(failure),
        }
    }
    for target in parse_targets(&args.words)? {
        let kind = target.kind;
        if !target.names.is_empty() {
            found.extend(target.names.iter().map(|name| (kind, session.key(kind, name))));
            continue;
        }
        if !args.all && args.selector.is_empty() {
            return Err(Failure::usage("resource(s) were provided, but no name was specified"));
        }
        let params = ListParams::in_namespace(session.namespace_of(kind)).labels(args.selector.as_str());
        let list = session.api(kind).list(&params).await?;
        found.extend(list.items.into_iter().map(|object| (kind, object.key)));
    }
    if found.is_empty() {
        return Err(Failure::plain("no objects passed to scale"));
    }
    Ok(found)
}

async fn scale(args: &ScaleArgs, session: &Session, kind: &'static Kind, key: &ObjectKey) -> Result<(), Failure> {
    let api = session.api(kind);
    let live = match api.get(key).await {
        Ok(live) => live,
        Err(error) => return Err(session.explain_missing(kind, error).await.into()),
    };
    if !kind.has_subresource("scale") {
        let status = Status::new(Reason::NotFound, "the server could not find the requested resource");
        return Err(listwatch_components::client::Error::Status(Box::new(status)).into());
    }
    let now = live.int(&["spec", "replicas"]).unwrap_or(0);
    if let Some(expected) = args.current_replicas
        && expected >= 0
        && expected != now
    {
        return Err(Failure::plain(format!("Expected replicas to be {expected}, was {now}")));
    }
    if args.dry_run == DryRun::Client {
        return Ok(());
    }
    let mut patch = json!({"spec": {"replicas": args.replicas}});
    if args.current_replicas.is_some() {
        // The condition was judged on this version.
        patch["metadata"] = json!({"resourceVersion": live.revision.to_string()});
    }
    let params = WriteParams { dry_run: args.dry_run == DryRun::Server, ..WriteParams::default() };
    api.patch_with(key, "scale", &Patch::Merge(patch), &params).await?;
    Ok(())
}
