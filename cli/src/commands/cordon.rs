//! `lw cordon` and `lw uncordon`: whether a node takes new pods.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{Cached, ListParams, Patch};
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::apply::{DryRun, Validation, write_params};
use super::failure::{Failure, Report};
use super::session::{Session, SessionArgs, full_name, kind_named};

/// Let a node take no new pods; those that it has stay
///
/// Examples: lw cordon node01; lw cordon -l disk=slow
#[derive(Debug, Args)]
pub(crate) struct CordonArgs {
    #[command(flatten)]
    inner: NodesArgs,
}

/// Let a node take pods again
///
/// Examples: lw uncordon node01; lw uncordon -l disk=slow
#[derive(Debug, Args)]
pub(crate) struct UncordonArgs {
    #[command(flatten)]
    inner: NodesArgs,
}

#[derive(Debug, Args)]
struct NodesArgs {
    /// Names of nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs `lw cordon`.
pub(crate) async fn cordon(args: &CordonArgs) -> Result<ExitCode, Failure> {
    run(&args.inner, "cordon", true).await
}

/// Runs `lw uncordon`.
pub(crate) async fn uncordon(args: &UncordonArgs) -> Result<ExitCode, Failure> {
    run(&args.inner, "uncordon", false).await
}

async fn run(args: &NodesArgs, word: &str, closed: bool) -> Result<ExitCode, Failure> {
    let usage = |problem: &str| Failure::usage(format!("{problem}\nSee 'lw {word} -h' for help and examples"));
    if args.nodes.is_empty() && args.selector.is_empty() {
        return Err(usage(&format!("USAGE: {word} NODE [flags]")));
    }
    if !args.nodes.is_empty() && !args.selector.is_empty() {
        return Err(usage("cannot specify both a node name and a --selector option"));
    }
    let session = Session::open(&args.session)?;
    let api = session.api(kind_named("node")?);
    // All are found before one is changed.
    let mut nodes: Vec<Cached<Object>> = Vec::new();
    let mut report = Report::default();
    for name in &args.nodes {
        let name = name.strip_prefix("node/").or_else(|| name.strip_prefix("nodes/")).unwrap_or(name);
        match api.get(&session.key(api.kind(), name)).await {
            Ok(node) => nodes.push(node),
            Err(error) => report.fail(error),
        }
    }
    if report.exit_code() != ExitCode::SUCCESS {
        return Ok(report.exit_code());
    }
    if !args.selector.is_empty() {
        nodes = api.list(&ListParams::all().labels(args.selector.as_str())).await?.items;
    }
    for node in nodes {
        let already = if node.flag(&["spec", "unschedulable"]) == closed { "already " } else { "" };
        if already.is_empty() && args.dry_run != DryRun::Client {
            let patch = json!({"spec": {"unschedulable": if closed { Value::Bool(true) } else { Value::Null }}});
            let params = write_params("kubectl-cordon", args.dry_run, Validation::Strict);
            if let Err(error) = api.patch_with(&node.key, "", &Patch::Merge(patch), &params).await {
                report.fail(error);
                continue;
            }
        }
        let full = full_name(api.kind(), &node.key.name);
        let suffix = if already.is_empty() { args.dry_run.suffix() } else { "" };
        writeln!(io::stdout().lock(), "{full} {already}{word}ed{suffix}")?;
    }
    Ok(report.exit_code())
}
