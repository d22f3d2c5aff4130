//! `lw label` and `lw annotate`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::Patch;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::changes::{Changes, Words};
use crate::commands::choice::{Selection, SelectionArgs, split_changes};
use crate::commands::failure::{Failure, Report};
use crate::commands::output::{PrintArgs, Printer};
use crate::commands::selection::Chosen;
use crate::commands::session::{Session, full_name};
use crate::commands::writing::{DryRun, Validation, write_params};
use crate::terminal::escaped;

/// Set or remove labels
///
/// Examples: lw label nodes node01 disk=ssd; lw label pods -l app=web tier=front --overwrite; lw label pod web-0 tier-
#[derive(Debug, Args)]
pub(crate) struct LabelArgs {
    #[command(flatten)]
    inner: ChangeArgs,
}

/// Set or remove annotations
///
/// Examples: lw annotate deploy web note='two words'; lw annotate deploy web note-; lw annotate deploy web --list
#[derive(Debug, Args)]
pub(crate) struct AnnotateArgs {
    #[command(flatten)]
    inner: ChangeArgs,
}

#[derive(Debug, Args)]
struct ChangeArgs {
    /// KIND NAME… or KIND/NAME …, then KEY=VALUE to set and KEY- to remove
    #[arg(value_name = "KIND|KIND/NAME|KEY=VALUE|KEY-")]
    words: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// Replace values that are there
    #[arg(long)]
    overwrite: bool,
    /// Only show what is there
    #[arg(long)]
    list: bool,
    /// Only change the objects of files, without asking the server, and show them
    #[arg(long)]
    local: bool,
    /// Only if the object, a single one, is still of this version
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    resource_version: String,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs `lw label`.
pub(crate) async fn label(args: &LabelArgs) -> Result<ExitCode, Failure> {
    run(&args.inner, Words::Labels).await
}

/// Runs `lw annotate`.
pub(crate) async fn annotate(args: &AnnotateArgs) -> Result<ExitCode, Failure> {
    run(&args.inner, Words::Annotations).await
}

async fn run(args: &ChangeArgs, what: Words) -> Result<ExitCode, Failure> {
    let (objects, changes) = split_changes(&args.words, what.singular(), Changes::is_change)?;
    let changes = Changes::parse(what, &changes)?;
    if args.list && args.print.is_given() {
        return Err(Failure::usage("--list and --output may not be specified together"));
    }
    if objects.is_empty() && args.selection.files.is_empty() {
        let problem = "one or more resources must be specified as <resource> <name> or <resource>/<name>";
        return Err(Failure::usage(problem));
    }
    if changes.is_empty() && !args.list {
        return Err(Failure::usage(format!("at least one {} update is required", what.singular())));
    }
    let printer = args.print.printer()?;
    let selection = if args.local {
        if !objects.is_empty() {
            let problem = "can only use local files by -f pod.yaml or --filename=pod.json when --local=true is set";
            return Err(Failure::usage(problem));
        }
        args.selection.local(what.singular())?
    } else {
        args.selection.select(&objects, what.singular()).await?
    };
    let Selection { session, found, is_one } = selection;
    if !is_one && !args.resource_version.is_empty() {
        return Err(Failure::usage("--resource-version may only be used with a single resource"));
    }
    let mut report = Report::default();
    let mut run = Run { args, what, changes, session, is_one, printer };
    for Chosen { kind, object } in &found.chosen {
        if let Err(failure) = run.change(kind, object).await {
            report.fail(failure);
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

struct Run<'a> {
    args: &'a ChangeArgs,
    what: Words,
    changes: Changes,
    session: Session,
    is_one: bool,
    printer: Option<Printer>,
}

impl Run<'_> {
    async fn change(&mut self, kind: &'static Kind, live: &Object) -> Result<(), Failure> {
        let outcome = self.changes.on(self.what, live, self.args.overwrite)?;
        if self.args.list {
            return self.list(kind, live);
        }
        if self.what == Words::Labels && self.args.dry_run != DryRun::Client {
            for key in &outcome.missing {
                writeln!(io::stdout().lock(), "label {} not found.", quote(&key))?;
            }
        }
        let mut object = live.clone();
        if !outcome.patch.is_empty() {
            if self.args.local || self.args.dry_run == DryRun::Client {
                let words = object.at_mut(&["metadata", self.what.field()]);
                for (key, value) in &outcome.patch {
                    words[key] = value.clone();
                }
                if let Some(map) = words.as_object_mut() {
                    map.retain(|_, value| !value.is_null());
                }
            } else {
                object = self.patch(kind, live, Value::Object(outcome.patch)).await?;
            }
        }
        let out = &mut io::stdout().lock();
        match &mut self.printer {
            Some(printer) => printer.print(out, kind, &object),
            None => {
                let suffix = self.args.dry_run.suffix();
                Ok(writeln!(out, "{} {}{suffix}", full_name(kind, object.name()), outcome.deed)?)
            }
        }
    }

    async fn patch(&self, kind: &'static Kind, live: &Object, words: Value) -> Result<Object, Failure> {
        let mut patch = json!({"metadata": {self.what.field(): words}});
        if !self.args.resource_version.is_empty() {
            patch["metadata"]["resourceVersion"] = self.args.resource_version.as_str().into();
        }
        let manager = format!("kubectl-{}", if self.what == Words::Labels { "label" } else { "annotate" });
        let params = write_params(&manager, self.args.dry_run, Validation::Strict);
        let patched = self.session.api(kind).patch_with(&live.key(), "", &Patch::Merge(patch), &params).await?;
        Ok(patched.object)
    }

    fn list(&self, kind: &Kind, live: &Object) -> Result<(), Failure> {
        let out = &mut io::stdout().lock();
        let indent = if self.is_one { "" } else { " " };
        if !self.is_one {
            writeln!(out, "Listing {} for {}.{}/{}:", self.what.field(), kind.kind, kind.group, live.name())?;
        }
        let words = live.at(&["metadata", self.what.field()]).and_then(Value::as_object);
        for (key, value) in words.into_iter().flatten() {
            writeln!(out, "{indent}{key}={}", escaped(value.as_str().unwrap_or_default()))?;
        }
        Ok(())
    }
}
