//! `lw drain`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use listwatch_components::client::ListParams;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, LabelSelector, Object, ObjectKey};

use super::choose::{Allowed, Choice, choose, daemon_of};
use super::evict::Eviction;
use crate::commands::cordon::{NodeNaming, mark};
use crate::commands::delete::parse_duration;
use crate::commands::failure::{Failure, Report};
use crate::commands::progress::Waiting;
use crate::commands::session::{Session, SessionArgs, kind_named};
use crate::commands::writing::DryRun;
use crate::terminal::tell;

/// Close a node to new pods and move those that it has elsewhere
///
/// Examples: lw drain node01 --ignore-daemonsets; lw drain -l disk=slow --timeout=60s; lw drain node01 --force
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Names of nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Only pods with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pod_selector: String,
    /// Also pods that nobody makes anew
    #[arg(long)]
    force: bool,
    /// Let pods of daemon sets stay
    #[arg(long)]
    ignore_daemonsets: bool,
    /// Also pods whose local data is lost with them
    #[arg(long)]
    delete_emptydir_data: bool,
    /// Delete the pods, whatever disruption budgets say
    #[arg(long)]
    disable_eviction: bool,
    /// Seconds given to end; negative: the pod's own
    #[arg(long, value_name = "SECONDS", default_value_t = -1, hide_default_value = true, allow_negative_numbers = true)]
    grace_period: i64,
    /// Leave pods alone that have been going for more than so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    skip_wait_for_delete_timeout: i64,
    /// Give up after so long (30s, 5m); 0: never
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    timeout: Duration,
    /// How many pods are asked for at a time: all that there are, page by page
    #[arg(long, value_name = "COUNT", hide = true)]
    chunk_size: Option<i64>,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs the command.
pub(crate) async fn run(args: &DrainArgs) -> Result<ExitCode, Failure> {
    if LabelSelector::parse(&args.pod_selector).is_err() {
        return Err(Failure::usage("--pod-selector=<pod_selector> must be a valid label selector"));
    }
    let session = Session::open(&args.session)?;
    let mut report = Report::default();
    let naming = NodeNaming { nodes: &args.nodes, selector: &args.selector, word: "drain" };
    let Some(nodes) = naming.find(&session, &mut report).await? else { return Ok(report.exit_code()) };
    for node in &nodes {
        mark(&session, node, true, args.dry_run, &mut report).await?;
    }
    let drain = Drain { args, session, pods: kind_named("pod")?, daemons: kind_named("daemonset")? };
    let mut problems = Vec::new();
    let mut pending = Vec::new();
    for node in &nodes {
        let name = node.key.name.as_str();
        let faults = drain.node(name).await?;
        if faults.is_empty() {
            writeln!(io::stdout(), "node/{name} drained{}", args.dry_run.suffix())?;
            continue;
        }
        let fault = together(&faults);
        tell!("error: unable to drain node {name} due to error: {fault}, continuing command...", name = quote(&name));
        problems.extend(faults);
        pending.push(name);
    }
    if !pending.is_empty() {
        tell!("There are pending nodes to be drained:");
        pending.iter().for_each(|name| tell!(" {name}"));
    }
    report.fail_all(problems.into_iter().map(Failure::plain).collect());
    Ok(report.exit_code())
}

/// `a`, or `[a, b]`.
fn together(faults: &[String]) -> String {
    match faults {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

struct Drain<'a> {
    args: &'a DrainArgs,
    session: Session,
    pods: &'static Kind,
    daemons: &'static Kind,
}

impl Drain<'_> {
    /// Moves the pods of one node; gives what went wrong.
    async fn node(&self, node: &str) -> Result<Vec<String>, Failure> {
        let choice = self.choose(node).await?;
        if !choice.obstacles.is_empty() {
            return Ok(choice.obstacles);
        }
        if !choice.warnings.is_empty() {
            tell!("Warning: {}", choice.warnings);
        }
        if self.args.dry_run == DryRun::Client {
            for pod in &choice.go {
                writeln!(io::stdout(), "evicting pod {}/{} (dry run)", pod.namespace(), pod.name())?;
            }
            return Ok(Vec::new());
        }
        let eviction = Eviction {
            session: &self.session,
            pods: self.pods,
            grace: Some(self.args.grace_period).filter(|seconds| *seconds >= 0),
            limit: self.args.timeout,
            dry_run: self.args.dry_run,
            by_delete: self.args.disable_eviction,
        };
        let _waiting = Waiting::begin(format!("{} pods to go from {node}", choice.go.len()));
        let faults = eviction.all(&choice.go).await;
        if !faults.is_empty() {
            let left = self.choose(node).await?.go;
            if !left.is_empty() {
                tell!(
                    "There are pending pods in node {node} when an error occurred: {}",
                    together(&faults),
                    node = quote(&node)
                );
                left.iter().for_each(|pod| tell!("pod/{}", pod.name()));
            }
        }
        Ok(faults)
    }

    async fn choose(&self, node: &str) -> Result<Choice, Failure> {
        let params = ListParams::all().labels(self.args.pod_selector.as_str()).fields(format!("spec.nodeName={node}"));
        let list = self.session.api(self.pods).list(&params).await?;
        let pods: Vec<Object> = list.items.into_iter().map(|cached| cached.object).collect();
        let wanted: BTreeSet<(String, String)> =
            pods.iter().filter_map(|pod| Some((pod.namespace().to_owned(), daemon_of(pod)?.to_owned()))).collect();
        let mut there = BTreeSet::new();
        for (namespace, name) in wanted {
            let key = ObjectKey::new(namespace.as_str(), name.as_str());
            if self.session.api(self.daemons).get_opt(&key).await?.is_some() {
                there.insert((namespace, name));
            }
        }
        let allowed = Allowed {
            unmanaged: self.args.force,
            local_data: self.args.delete_emptydir_data,
            daemons_stay: self.args.ignore_daemonsets,
            leave_going: self.args.skip_wait_for_delete_timeout,
        };
        let has_daemon = |pod: &Object| {
            daemon_of(pod).is_some_and(|name| there.contains(&(pod.namespace().to_owned(), name.to_owned())))
        };
        Ok(choose(pods, allowed, Timestamp::now(), has_daemon))
    }
}
