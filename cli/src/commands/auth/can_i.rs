//! `lw auth can-i`: whether something is allowed, and all that is.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_proto::resource::Kind;
use serde_json::{Value, json};

use super::command::review;
use crate::commands::failure::Failure;
use crate::commands::rules;
use crate::commands::session::{Session, SessionArgs, kind_named};
use crate::commands::table::Table;
use crate::terminal::tell;
use crate::usage::program;

/// The verbs that are asked for with objects, and with paths (kubectl 1.36); others are warned of.
const VERBS: &[&str] = &[
    "*",
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "bind",
    "impersonate",
    "approve",
    "sign",
    "escalate",
    "attest",
];
const PATH_VERBS: &[&str] = &["get", "put", "post", "head", "options", "delete", "patch", "*"];
/// Kinds of rules that no server serves (kubectl 1.36): nothing to warn of.
const RULES_ONLY: &[&str] = &["users", "groups"];

/// Ask whether you may do something
///
/// Examples: lw auth can-i create pods; lw auth can-i get nodes --as=ann; lw auth can-i get /healthz; lw auth can-i --list
#[derive(Debug, Args)]
pub(super) struct CanIArgs {
    /// VERB KIND, VERB KIND/NAME or VERB PATH
    #[arg(value_name = "VERB|KIND|PATH")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// In every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// With a part of the object: log, scale
    #[arg(long, value_name = "PART", default_value = "", hide_default_value = true)]
    subresource: String,
    /// Say nothing; the exit code tells
    #[arg(short, long)]
    quiet: bool,
    /// Show all that you may do in the namespace
    #[arg(long)]
    list: bool,
    /// With --list, no line with the columns' names
    #[arg(long)]
    no_headers: bool,
}

/// Runs the command.
pub(super) async fn run(args: &CanIArgs) -> Result<ExitCode, Failure> {
    if args.list {
        if args.quiet || args.all_namespaces || !args.subresource.is_empty() {
            return Err(Failure::usage(
                "list option can't be specified with neither quiet, all-namespaces nor subresource options",
            ));
        }
        return list(args).await;
    }
    let [verb, what] = args.words.as_slice() else {
        return Err(Failure::usage(format!(
            "you must specify two arguments: verb resource or verb resource/resourceName.\nSee '{} auth can-i -h' for \
             help and examples.",
            program()
        )));
    };
    let session = Session::open(&args.session)?;
    let spec = if what.starts_with('/') { args.path(verb, what)? } else { args.objects(&session, verb, what) };
    if args.no_headers {
        return Err(Failure::usage("--no-headers cannot be set without --list specified"));
    }
    let version = "authorization.k8s.io/v1";
    let question = json!({"apiVersion": version, "kind": "SelfSubjectAccessReview", "spec": spec});
    let answer = review(&session, question).await?;
    let is_allowed = answer.flag(&["status", "allowed"]);
    if !args.quiet {
        let mut text = if is_allowed { "yes" } else { "no" }.to_owned();
        for field in ["reason", "evaluationError"] {
            let why = answer.text(&["status", field]);
            if !is_allowed && !why.is_empty() {
                text += &format!(" - {why}");
            }
        }
        writeln!(io::stdout(), "{text}")?;
    }
    Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line of warning, and an empty one behind it, as kubectl has them.
fn warn(args: &CanIArgs, text: &str) {
    if !args.quiet {
        tell!("Warning: {text}\n");
    }
}

impl CanIArgs {
    fn path(&self, verb: &str, path: &str) -> Result<Value, Failure> {
        if !self.subresource.is_empty() {
            return Err(Failure::usage("--subresource can not be used with NonResourceURL"));
        }
        if !PATH_VERBS.contains(&verb) {
            warn(self, &format!("verb '{verb}' is not a known verb"));
        }
        Ok(json!({"nonResourceAttributes": {"verb": verb, "path": path}}))
    }

    fn objects(&self, session: &Session, verb: &str, what: &str) -> Value {
        let (word, name) = what.split_once('/').unwrap_or((what, ""));
        let (group, resource) = match self.kind(word) {
            Some(kind) => {
                if !kind.namespaced && !self.all_namespaces {
                    let group =
                        if kind.group.is_empty() { String::new() } else { format!(" in group '{}'", kind.group) };
                    warn(self, &format!("resource '{}' is not namespace scoped{group}", kind.plural));
                }
                (kind.group, kind.plural)
            }
            None => ("", word),
        };
        if !VERBS.contains(&verb) {
            warn(self, &format!("verb '{verb}' is not a known verb"));
        }
        let namespace = if self.all_namespaces { "" } else { session.namespace.as_str() };
        json!({"resourceAttributes": {
            "namespace": namespace, "verb": verb, "group": group, "resource": resource, "name": name,
            "subresource": self.subresource,
        }})
    }

    /// The kind that is meant; what the server does not have may still be allowed.
    fn kind(&self, word: &str) -> Option<&'static Kind> {
        if word == "*" {
            return None;
        }
        let found = kind_named(word).ok();
        if found.is_none() && !RULES_ONLY.contains(&word) {
            let lower = word.to_lowercase();
            let text = match lower.split_once('.') {
                Some((name, group)) => format!("the server doesn't have a resource type '{name}' in group '{group}'"),
                None => format!("the server doesn't have a resource type '{lower}'"),
            };
            warn(self, &text);
        }
        found
    }
}

async fn list(args: &CanIArgs) -> Result<ExitCode, Failure> {
    let session = Session::open(&args.session)?;
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": session.namespace},
    });
    let answer = review(&session, question).await?;
    if answer.flag(&["status", "incomplete"]) {
        let why = answer.text(&["status", "evaluationError"]);
        tell!("Warning: the list may be incomplete: {why}");
    }
    let mut lines = Vec::new();
    if !args.no_headers {
        lines.push(["Resources", "Non-Resource URLs", "Resource Names", "Verbs"].map(str::to_owned).to_vec());
    }
    let list = |field: &str| answer.at(&["status", field]).and_then(Value::as_array).into_iter().flatten();
    let rules = rules::lines(list("resourceRules").chain(list("nonResourceRules")));
    lines.extend(rules.into_iter().map(|line| line.to_vec()));
    Table::default().print(&mut io::stdout().lock(), &lines)?;
    Ok(ExitCode::SUCCESS)
}
