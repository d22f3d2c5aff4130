//! `lw cordon` and `lw uncordon`: whether a node takes new pods.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{Cached, ListParams, Patch};
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::failure::{Failure, Report};
use super::session::{Session, SessionArgs, full_name, kind_named};
use super::writing::{DryRun, Validation, write_params};
use crate::usage::program;

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
    let session = Session::open(&args.session)?;
    let mut report = Report::default();
    let naming = NodeNaming { nodes: &args.nodes, selector: &args.selector, word };
    let Some(nodes) = naming.find(&session, &mut report).await? else { return Ok(report.exit_code()) };
    for node in nodes {
        mark(&session, &node, closed, args.dry_run, &mut report).await?;
    }
    Ok(report.exit_code())
}

/// How nodes are named.
pub(super) struct NodeNaming<'a> {
    pub(super) nodes: &'a [String],
    pub(super) selector: &'a str,
    /// The command that a person typed.
    pub(super) word: &'a str,
}

impl NodeNaming<'_> {
    /// Finds all of them; `None`: one is missing, as the report says, and nothing must be done to the others.
    ///
    /// # Errors
    /// If the words make no sense, or the server cannot be asked.
    pub(super) async fn find(
        &self,
        session: &Session,
        report: &mut Report,
    ) -> Result<Option<Vec<Cached<Object>>>, Failure> {
        let usage = |problem: &str| {
            let text = format!("{problem}\nSee '{} {} -h' for help and examples", program(), self.word);
            Failure::usage(text)
        };
        if self.nodes.is_empty() && self.selector.is_empty() {
            return Err(usage(&format!("USAGE: {} NODE [flags]", self.word)));
        }
        if !self.nodes.is_empty() && !self.selector.is_empty() {
            return Err(usage("cannot specify both a node name and a --selector option"));
        }
        let api = session.api(kind_named("node")?);
        if !self.selector.is_empty() {
            return Ok(Some(api.list(&ListParams::all().labels(self.selector)).await?.items));
        }
        let mut nodes = Vec::new();
        let mut is_complete = true;
        for name in self.nodes {
            let name = name.strip_prefix("node/").or_else(|| name.strip_prefix("nodes/")).unwrap_or(name);
            match api.get(&session.key(api.kind(), name)).await {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    report.fail(error);
                    is_complete = false;
                }
            }
        }
        Ok(is_complete.then_some(nodes))
    }
}

/// Closes or opens one node to new pods, and says so.
pub(super) async fn mark(
    session: &Session,
    node: &Cached<Object>,
    closed: bool,
    dry_run: DryRun,
    report: &mut Report,
) -> Result<(), Failure> {
    let api = session.api(kind_named("node")?);
    let already = if node.flag(&["spec", "unschedulable"]) == closed { "already " } else { "" };
    if already.is_empty() && dry_run != DryRun::Client {
        let patch = json!({"spec": {"unschedulable": if closed { Value::Bool(true) } else { Value::Null }}});
        let params = write_params("kubectl-cordon", dry_run, Validation::Strict);
        if let Err(error) = api.patch_with(&node.key, "", &Patch::Merge(patch), &params).await {
            report.fail(error);
            return Ok(());
        }
    }
    let full = full_name(api.kind(), &node.key.name);
    let suffix = if already.is_empty() { dry_run.suffix() } else { "" };
    let word = if closed { "cordoned" } else { "uncordoned" };
    Ok(writeln!(io::stdout().lock(), "{full} {already}{word}{suffix}")?)
}
