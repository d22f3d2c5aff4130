//! What was applied last, as an annotation of the object keeps it: shown and set by hand.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use listwatch_components::client::Patch;
use serde::Serialize;
use serde_json::{Value, json};

use super::command::{LAST_APPLIED, with_last_applied};
use crate::commands::choice::{Selection, SelectionArgs};
use crate::commands::failure::{Failure, Report};
use crate::commands::manifest::FileArgs;
use crate::commands::output::PrintArgs;
use crate::commands::refused::{Instead, RefusedArgs};
use crate::commands::session::{Session, SessionArgs, full_name};
use crate::commands::writing::{DryRun, Validation, write_params};
use crate::commands::yaml::to_yaml;
use crate::usage::program;

const EDIT_INSTEAD: Instead = Instead::Do("edit the file and give it to lw apply set-last-applied");

/// What to do with the memory of what was applied.
#[derive(Debug, Subcommand)]
pub(super) enum LastApplied {
    #[command(name = "view-last-applied")]
    View(ViewArgs),
    #[command(name = "set-last-applied")]
    Set(SetArgs),
    #[command(name = "edit-last-applied", hide = true)]
    Edit(RefusedArgs),
}

/// Show what was applied last
///
/// Examples: lw apply view-last-applied deploy web; lw apply view-last-applied -f web.yaml -o json
#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    /// KIND NAME… or KIND/NAME …
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Form of the output: yaml or json
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    output: String,
}

/// Have an object remember a file as what was applied last, without changing anything else
///
/// Examples: lw apply set-last-applied -f web.yaml; lw apply set-last-applied -f web.yaml --create-annotation
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// Also where nothing is remembered yet
    #[arg(long)]
    create_annotation: bool,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs the command.
pub(super) async fn run(what: &LastApplied) -> Result<ExitCode, Failure> {
    match what {
        LastApplied::View(args) => view(args).await,
        LastApplied::Set(args) => set(args).await,
        LastApplied::Edit(args) => args.refuse("apply edit-last-applied", EDIT_INSTEAD),
    }
}

async fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    if !["yaml", "json"].contains(&args.output.as_str()) {
        return Err(Failure::usage(format!(
            "Unexpected -o output mode: {}, the flag 'output' must be one of yaml|json\nSee '{} apply \
             view-last-applied -h' for help and examples",
            args.output,
            program()
        )));
    }
    let Selection { found, .. } = args.selection.select(&args.words, "view-last-applied").await?;
    let mut report = Report::default();
    let out = &mut io::stdout().lock();
    for chosen in &found.chosen {
        // One that remembers nothing shows nothing, as with kubectl.
        let Some(text) = chosen.object.annotation(LAST_APPLIED) else { continue };
        let memory: Value = serde_json::from_str(text)
            .map_err(|error| Failure::plain(format!("{}: {error}", full_name(chosen.kind, chosen.object.name()))))?;
        if args.output == "json" {
            let formatter = serde_json::ser::PrettyFormatter::with_indent(b"  ");
            let mut serializer = serde_json::Serializer::with_formatter(&mut *out, formatter);
            memory.serialize(&mut serializer).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            out.write_all(to_yaml(&memory).as_bytes())?;
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

async fn set(args: &SetArgs) -> Result<ExitCode, Failure> {
    args.files.require()?;
    let mut printer = args.print.printer()?;
    let session = Session::open(&args.session)?;
    let mut changes = Vec::new();
    // All are looked at before one is changed.
    for manifest in args.files.read(&session, "set-last-applied") {
        let manifest = manifest?;
        let live = session.api(manifest.kind).get(&manifest.key()).await?.object;
        let wanted = with_last_applied(&manifest.object);
        let memory = wanted.annotation(LAST_APPLIED).unwrap_or_default().to_owned();
        match live.annotation(LAST_APPLIED) {
            None if !args.create_annotation => {
                return Err(Failure::plain(format!(
                    "no last-applied-configuration annotation found on resource: {}, to create the annotation, run the \
                     command with --create-annotation",
                    live.name()
                )));
            }
            Some(before) if before.trim_end() == memory.trim_end() => {
                writeln!(io::stdout(), "set-last-applied {}: no changes required.", live.name())?;
            }
            _ => changes.push((manifest, live, memory)),
        }
    }
    let mut report = Report::default();
    for (manifest, live, memory) in changes {
        let mut object = live;
        if args.dry_run != DryRun::Client {
            let params = write_params("kubectl-set-last-applied", args.dry_run, Validation::Strict);
            let patch = Patch::Merge(json!({"metadata": {"annotations": {LAST_APPLIED: memory}}}));
            match session.api(manifest.kind).patch_with(&manifest.key(), "", &patch, &params).await {
                Ok(patched) => object = patched.object,
                Err(error) => {
                    report.fail(error);
                    continue;
                }
            }
        }
        let out = &mut io::stdout();
        match &mut printer {
            Some(printer) => printer.print(out, manifest.kind, &object)?,
            None => {
                let suffix = args.dry_run.suffix();
                writeln!(out, "{} configured{suffix}", full_name(manifest.kind, object.name()))?;
            }
        }
    }
    Ok(report.exit_code())
}
