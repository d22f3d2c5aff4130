//! `lw edit`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{Error, Patch};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Reason as StatusReason, Status};
use serde_json::{Map, Value};

use super::document::{Reason, body, header, without_comments, without_header};
use super::editor::{Editor, remove};
use crate::commands::apply::merge_patch;
use crate::commands::choice::{Selection, SelectionArgs};
use crate::commands::failure::{Failure, Report, with_causes};
use crate::commands::manifest::parse_edited;
use crate::commands::output::PrintArgs;
use crate::commands::session::{Session, full_name};
use crate::commands::writing::{DryRun, Validation, write_params};
use crate::terminal::tell;

/// How often a patch is made anew when the object changed under it.
const TRIES_MAX: u32 = 5;

/// Edit objects in an editor: that of KUBE_EDITOR or EDITOR, else vi
///
/// Examples: lw edit deploy web; EDITOR=nano lw edit node/node01
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// KIND NAME or KIND/NAME
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// What becomes of fields that do not exist
    #[arg(long, value_enum, default_value_t = Validation::Strict)]
    validate: Validation,
}

/// What one round of editing came to.
enum Round {
    Done(ExitCode),
    /// The reasons are shown, and the text is opened again.
    Again(Vec<Reason>),
}

/// Runs the command.
pub(crate) async fn run(args: &EditArgs) -> Result<ExitCode, Failure> {
    if args.words.is_empty() && args.selection.files.is_empty() {
        return Err(Failure::usage(
            "You must provide one or more resources by argument or filename.\nExample resource specifications \
             include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    // A wrong form is told before a person has worked; templates do not fit what was edited (kubectl's rule).
    args.print.printer()?;
    if let Some(form) = args.print.form().filter(|form| !["json", "kyaml", "yaml", "name"].contains(form)) {
        return Err(Failure::usage(format!(
            "unable to match a printer suitable for the output format {}, allowed formats are: json,kyaml,yaml",
            quote(&form)
        )));
    }
    let Selection { session, found, .. } = args.selection.select(&args.words, "edit").await?;
    if let Some(failure) = found.failures.into_iter().next() {
        return Err(failure);
    }
    let mut originals: Vec<Object> = found.chosen.into_iter().map(|chosen| chosen.object).collect();
    for object in &mut originals {
        // Nobody edits the book-keeping of field managers.
        object.remove(&["metadata", "managedFields"]);
    }
    if originals.is_empty() {
        return Err(Failure::plain("edit cancelled, no objects found"));
    }
    Edit { args, session, originals }.rounds().await
}

struct Edit<'a> {
    args: &'a EditArgs,
    session: Session,
    originals: Vec<Object>,
}

impl Edit<'_> {
    /// Opens the editor until the server has taken the text or the person gives up.
    async fn rounds(&self) -> Result<ExitCode, Failure> {
        let editor = Editor::of_environment();
        let original = body(&self.originals);
        let (mut text, mut reasons) = (original.clone(), Vec::new());
        let mut last: Option<PathBuf> = None;
        loop {
            let opened = header(&reasons) + &text;
            let (path, edited) = editor.edit(&opened).inspect_err(|_| {
                last.as_deref().into_iter().for_each(keep);
            })?;
            let is_retry = last.is_some();
            if is_retry && without_comments(&edited) == without_comments(&text) {
                last.as_deref().into_iter().for_each(remove);
                keep(&path);
                return Err(Failure::plain("Edit cancelled, no valid changes were saved."));
            }
            last.as_deref().into_iter().for_each(remove);
            last = Some(path.clone());
            if without_comments(&edited) == without_comments(&original) {
                remove(&path);
                tell!("Edit cancelled, no changes made.");
                return Ok(ExitCode::SUCCESS);
            }
            if without_comments(&edited).trim().is_empty() {
                remove(&path);
                tell!("Edit cancelled, saved file was empty.");
                return Ok(ExitCode::SUCCESS);
            }
            match self.save(&edited, &path).await.inspect_err(|_| keep(&path))? {
                Round::Done(code) => return Ok(code),
                Round::Again(why) => reasons = why,
            }
            text = without_header(&edited).to_owned();
        }
    }

    /// Sends what was edited.
    async fn save(&self, edited: &str, path: &Path) -> Result<Round, Failure> {
        let objects = match parse_edited(edited) {
            Ok(objects) => objects,
            Err(failure) => {
                let text = failure.text();
                let why = text.strip_prefix("error: ").unwrap_or(&text);
                let head = format!("The edited file had a syntax error: {why}");
                tell!("error: {head}");
                return Ok(Round::Again(vec![Reason { head, faults: Vec::new() }]));
            }
        };
        let mut printer = self.args.print.printer()?;
        let (mut reasons, mut report) = (Vec::new(), Report::default());
        for object in &objects {
            let (kind, original) = self.original_of(object)?;
            let out = &mut io::stdout();
            if *original == *object {
                writeln!(out, "{} skipped", full_name(kind, object.name()))?;
                continue;
            }
            match self.patch(kind, original, object).await {
                Ok(patched) => match &mut printer {
                    Some(printer) => printer.print(out, kind, &patched)?,
                    None => writeln!(out, "{} edited", full_name(kind, patched.name()))?,
                },
                Err(Error::Status(status))
                    if matches!(status.reason, StatusReason::Invalid | StatusReason::BadRequest) =>
                {
                    let faults: Vec<_> =
                        status.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
                    let faults = if faults.is_empty() { vec![status.message.clone()] } else { faults };
                    // Whoever edits by a script never sees the header.
                    tell!("error: {} {} is invalid{}", resource_of(object), quote(&object.name()), listed(&faults));
                    let head = format!("{} {} was not valid", resource_of(object), quote(&object.name()));
                    reasons.push(Reason { head, faults });
                }
                Err(error) => report.fail(refusal(object, &error, path)),
            }
        }
        if report.exit_code() != ExitCode::SUCCESS {
            return Ok(Round::Done(report.exit_code()));
        }
        if reasons.is_empty() {
            remove(path);
            return Ok(Round::Done(ExitCode::SUCCESS));
        }
        Ok(Round::Again(reasons))
    }

    /// The object that this one was before.
    fn original_of(&self, edited: &Object) -> Result<(&'static Kind, &Object), Failure> {
        let original = self.originals.iter().find(|original| {
            (original.api_version(), original.kind_name(), original.key())
                == (edited.api_version(), edited.kind_name(), edited.key())
        });
        let pair = original.and_then(|original| Some((original.kind()?, original)));
        pair.ok_or_else(|| Failure::plain("At least one of apiVersion, kind and name was changed"))
    }

    /// Only what the person changed is changed, also if others changed the object meanwhile.
    async fn patch(&self, kind: &'static Kind, original: &Object, edited: &Object) -> Result<Object, Error> {
        let api = self.session.api(kind);
        let params = write_params("kubectl-edit", DryRun::None, self.args.validate);
        let patch = merge_patch(&original.0, &edited.0);
        let mut tries = 0;
        loop {
            let mut patch = patch.clone();
            if has_lists(&patch) {
                // A list is sent whole: only over the one that the person saw.
                let live = api.get(&original.key()).await?;
                let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
                if metadata["resourceVersion"].is_null() {
                    metadata["resourceVersion"] = live.revision.to_string().into();
                }
                if !are_lists_equal(&patch, &original.0, &live.object.0) {
                    let why = "a list that was edited has been modified by somebody else";
                    return Err(Error::Status(Box::new(Status::conflict(kind, original.name(), why))));
                }
            }
            match api.patch_with(&original.key(), "", &Patch::Merge(Value::Object(patch)), &params).await {
                Ok(patched) => return Ok(patched.object),
                Err(error) if error.is_conflict() && tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

fn has_lists(patch: &Map<String, Value>) -> bool {
    patch.values().any(|value| match value {
        Value::Array(_) => true,
        Value::Object(map) => has_lists(map),
        _ => false,
    })
}

/// Whether the lists that the patch replaces are the same in both objects.
fn are_lists_equal(patch: &Map<String, Value>, a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let empty = Map::new();
    let map = |object: &Map<String, Value>, field: &str| {
        object.get(field).and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    patch.iter().all(|(field, value)| match value {
        Value::Array(_) => a.get(field) == b.get(field),
        Value::Object(inner) => are_lists_equal(inner, &map(a, field), &map(b, field)),
        _ => true,
    })
}

/// `: the fault`, or several as a list.
fn listed(faults: &[String]) -> String {
    match faults {
        [one] => format!(": {one}"),
        many => many.iter().fold(":".to_owned(), |text, fault| text + "\n* " + fault),
    }
}

/// `deployments.apps`.
fn resource_of(object: &Object) -> String {
    object.kind().map_or_else(|| object.kind_name().to_owned(), |kind| kind.name().to_string())
}

/// What a person can do with an edit that the server refused for good.
fn refusal(object: &Object, error: &Error, path: &Path) -> Failure {
    let (resource, name, path) = (resource_of(object), object.name(), path.display());
    if error.is_not_found() {
        return Failure::Bare(format!(
            "error: {resource} {name} could not be found on the server\nThe edits you made on deleted resources have \
             been saved to \"{path}\"",
            name = quote(&name)
        ));
    }
    Failure::Bare(format!(
        "error: {resource} {name} could not be patched: {}\nYou can run `lw apply -f {path}` to try this update again.",
        with_causes(error),
        name = quote(&name)
    ))
}

fn keep(path: &Path) {
    tell!("A copy of your changes has been stored to {}", quote(&path.display().to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_fault_is_told() {
        assert_eq!(listed(&["a: no".to_owned()]), ": a: no");
        assert_eq!(listed(&["a: no".to_owned(), "b: no".to_owned()]), ":\n* a: no\n* b: no");
    }

    #[test]
    fn a_list_is_only_sent_over_the_one_that_was_seen() {
        let map = |value: Value| value.as_object().cloned().expect("a map");
        let (seen, edited) = (map(json!({"s": {"l": [1], "n": 1}})), map(json!({"s": {"l": [1, 2], "n": 1}})));
        let patch = merge_patch(&seen, &edited);
        assert!(has_lists(&patch));
        assert!(are_lists_equal(&patch, &seen, &map(json!({"s": {"l": [1], "n": 7}}))));
        assert!(!are_lists_equal(&patch, &seen, &map(json!({"s": {"l": [3], "n": 1}}))));
        assert!(!has_lists(&merge_patch(&seen, &map(json!({"s": {"l": [1], "n": 2}})))));
    }
}
