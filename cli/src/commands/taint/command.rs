//! `lw taint`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{Cached, ListParams, Patch};
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::plan::plan;
use super::spec::Spec;
use crate::commands::choice::split_changes;
use crate::commands::failure::{Failure, Report};
use crate::commands::output::PrintArgs;
use crate::commands::session::{Session, SessionArgs, full_name, kind_named};
use crate::commands::writing::{DryRun, Validation, write_params};

/// How often a patch is made anew when the node changed under it.
const TRIES_MAX: u32 = 5;

/// Set or remove taints of nodes
///
/// Examples: lw taint node node01 disk=slow:NoSchedule; lw taint node node01 disk:NoSchedule-; lw taint node --all a-
#[derive(Debug, Args)]
pub(crate) struct TaintArgs {
    /// node NAME…, then KEY=VALUE:EFFECT or KEY:EFFECT to set, KEY:EFFECT- or KEY- to remove
    #[arg(value_name = "node NAME|TAINT")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Every node
    #[arg(long)]
    all: bool,
    /// Replace taints of the same key and effect
    #[arg(long)]
    overwrite: bool,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs the command.
pub(crate) async fn run(args: &TaintArgs) -> Result<ExitCode, Failure> {
    let (objects, taints) = split_changes(&args.words, "taint", Spec::is_change)?;
    let Some((kind_word, names)) = objects.split_first() else {
        return Err(Failure::usage("one or more resources must be specified as <resource> <name>"));
    };
    let spec = Spec::parse(&taints)?;
    if spec.is_empty() {
        return Err(Failure::usage("at least one taint update is required"));
    }
    let kind = kind_named(kind_word)?;
    if kind.kind != "Node" {
        let problem = format!("invalid resource type {kind_word}, only node types are supported");
        return Err(Failure::usage(problem));
    }
    if args.all && !args.selector.is_empty() {
        return Err(Failure::usage("setting 'all' parameter with a non empty selector is prohibited"));
    }
    let selects = args.all || !args.selector.is_empty();
    if !selects && names.is_empty() {
        let problem = "at least one resource name must be specified since 'all' parameter is not set";
        return Err(Failure::usage(problem));
    }
    let mut printer = args.print.printer()?;
    let session = Session::open(&args.session)?;
    let names = if selects {
        let list = session.api(kind).list(&ListParams::all().labels(args.selector.as_str())).await?;
        list.items.into_iter().map(|node| node.key.name).collect()
    } else {
        names.to_vec()
    };
    let mut report = Report::default();
    for name in &names {
        match taint(args, &session, kind, name, &spec).await {
            Err(failure) => report.fail(failure),
            Ok((node, deed)) => {
                let out = &mut io::stdout().lock();
                match &mut printer {
                    Some(printer) => printer.print(out, kind, &node)?,
                    // kubectl says nothing of a dry run here.
                    None => writeln!(out, "{} {deed}", full_name(kind, name))?,
                }
            }
        }
    }
    Ok(report.exit_code())
}

async fn taint(
    args: &TaintArgs,
    session: &Session,
    kind: &'static Kind,
    name: &str,
    spec: &Spec,
) -> Result<(Object, &'static str), Failure> {
    let api = session.api(kind);
    let key = session.key(kind, name);
    let mut tries = 0;
    loop {
        let live: Cached<Object> = api.get(&key).await?;
        let old = live.at(&["spec", "taints"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let (next, deed) = plan(name, old, spec, args.overwrite)?;
        if args.dry_run == DryRun::Client {
            let mut node = live.object.clone();
            node.set(&["spec", "taints"], next);
            return Ok((node, deed));
        }
        let taints = if next.is_empty() { Value::Null } else { Value::Array(next) };
        // The list is sent whole: not over what a controller has changed since.
        let patch = json!({"metadata": {"resourceVersion": live.revision.to_string()}, "spec": {"taints": taints}});
        let params = write_params("kubectl-taint", args.dry_run, Validation::Strict);
        match api.patch_with(&key, "", &Patch::Merge(patch), &params).await {
            Ok(patched) => return Ok((patched.object, deed)),
            Err(error) if error.is_conflict() && tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
