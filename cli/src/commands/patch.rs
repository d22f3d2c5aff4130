//! `lw patch`: changes parts of objects.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use listwatch_components::client::Patch;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use listwatch_proto::yaml::too_deep;
use serde_json::{Map, Value};

use super::apply::three_way;
use super::choice::{Selection, SelectionArgs};
use super::failure::{Failure, Report};
use super::output::{PrintArgs, Printer};
use super::selection::Chosen;
use super::session::{Session, full_name};
use super::strict_value::StrictValue;
use super::writing::{DryRun, Validation, write_params};

/// Change parts of objects
///
/// Examples: lw patch deploy web --type=merge -p '{"spec":{"replicas":2}}'; lw patch node node01 --type=json -p
/// '[{"op":"remove","path":"/metadata/labels/a"}]'
#[derive(Debug, Args)]
pub(crate) struct PatchArgs {
    /// KIND NAME or KIND/NAME
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// The patch, as JSON or YAML
    #[arg(short, long, value_name = "PATCH")]
    patch: Option<String>,
    /// A file that holds the patch
    #[arg(long, value_name = "FILE")]
    patch_file: Option<String>,
    /// strategic (the default: lists are merged by the names of their items), merge (RFC 7386) or json (RFC 6902)
    #[arg(long = "type", value_name = "TYPE")]
    patch_type: Option<String>,
    /// The part of the object that is patched
    #[arg(long, value_enum)]
    subresource: Option<Part>,
    /// Only patch the object of a file, without asking the server
    #[arg(long)]
    local: bool,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Status,
    Scale,
}

/// Runs the command.
pub(crate) async fn run(args: &PatchArgs) -> Result<ExitCode, Failure> {
    let text = match (&args.patch, &args.patch_file) {
        (Some(_), Some(_)) => return Err(Failure::usage("cannot specify --patch and --patch-file together")),
        (Some(text), None) => text.clone(),
        (None, Some(path)) => std::fs::read_to_string(path)
            .map_err(|error| Failure::plain(format!("unable to read patch file: {path}: {error}")))?,
        (None, None) => {
            return Err(Failure::usage("must specify --patch or --patch-file containing the contents of the patch"));
        }
    };
    let patch = read(args.patch_type.as_deref(), &text)?;
    if args.local && !args.words.is_empty() {
        return Err(Failure::usage("cannot specify --local and server resources"));
    }
    if args.words.is_empty() && args.selection.files.is_empty() {
        return Err(Failure::usage(
            "one or more resources must be specified as <resource> <name> or <resource>/<name>",
        ));
    }
    let printer = args.print.printer()?;
    let selection =
        if args.local { args.selection.local("patch")? } else { args.selection.select(&args.words, "patch").await? };
    let Selection { session, found, .. } = selection;
    if found.chosen.is_empty() && found.failures.is_empty() {
        return Err(Failure::plain("no objects passed to patch"));
    }
    let mut report = Report::default();
    let mut run = Run { args, session, patch, printer };
    for Chosen { kind, object } in &found.chosen {
        if let Err(failure) = run.patch(kind, object).await {
            report.fail(failure);
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

struct Run<'a> {
    args: &'a PatchArgs,
    session: Session,
    patch: Patch,
    printer: Option<Printer>,
}

impl Run<'_> {
    async fn patch(&mut self, kind: &'static Kind, live: &Object) -> Result<(), Failure> {
        // kubectl's patch lets unknown fields be dropped, with a warning each.
        let params = write_params("kubectl-patch", self.args.dry_run, Validation::Warn);
        let part = match self.args.subresource {
            None => "",
            Some(Part::Status) => "status",
            Some(Part::Scale) => "scale",
        };
        if !part.is_empty() && !kind.has_subresource(part) {
            return Err(Failure::plain(format!("{} have no subresource {part}", kind.plural, part = quote(&part))));
        }
        let patched = if self.args.local || self.args.dry_run == DryRun::Client {
            here(live, &self.patch)?
        } else {
            self.session.api(kind).patch_with(&live.key(), part, &self.patch, &params).await?.object
        };
        let out = &mut io::stdout().lock();
        if let Some(printer) = &mut self.printer {
            return printer.print(out, kind, &patched);
        }
        let is_same = part.is_empty() && patched == *live;
        let name =
            if part == "scale" { format!("scale.autoscaling/{}", live.name()) } else { full_name(kind, live.name()) };
        // kubectl does not say here that it was only tried.
        Ok(writeln!(out, "{name} patched{}", if is_same { " (no change)" } else { "" })?)
    }
}

/// The object as the patch makes it, as far as this program can tell.
fn here(object: &Object, patch: &Patch) -> Result<Object, Failure> {
    let mut value = object.clone().into_value();
    match patch {
        Patch::Json(patch) => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| Failure::plain(format!("error decoding patch: {error}")))?;
            json_patch::patch(&mut value, &patch).map_err(|error| Failure::plain(error.to_string()))?;
        }
        Patch::Strategic(Value::Object(patch)) => value = Value::Object(three_way(&Map::new(), patch, &object.0)),
        Patch::Merge(patch) | Patch::Strategic(patch) => json_patch::merge(&mut value, patch),
        Patch::Apply { .. } => return Err(Failure::plain("an apply is no patch that can be tried here")),
    }
    Object::from_value(value).map_err(|_| Failure::plain("the patch leaves no object"))
}

fn read(kind: Option<&str>, text: &str) -> Result<Patch, Failure> {
    let kind = kind.map(str::to_ascii_lowercase);
    if let Some(word) = kind.as_deref().filter(|word| !["json", "merge", "strategic"].contains(word)) {
        return Err(Failure::usage(format!("--type must be one of [json merge strategic], not {}", quote(&word))));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some((_, most)) = too_deep(text) {
        return Err(Failure::plain(format!("the patch is nested too deep: more than {most} brackets are open")));
    }
    let StrictValue(value) = serde_norway::from_str(text)
        .map_err(|error| Failure::plain(format!("unable to parse {text}: {error}", text = quote(&text))))?;
    match kind.as_deref() {
        // What is no list of changes is the server's to refuse.
        Some("json") => Ok(Patch::Json(value)),
        _ if !value.is_object() => {
            Err(Failure::plain("a patch is an object that holds what shall change: {\"spec\":{\"replicas\":2}}"))
        }
        Some("merge") => Ok(Patch::Merge(value)),
        _ => Ok(Patch::Strategic(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_read_as_carefully_as_a_manifest() {
        let refusal = |text: &str| read(None, text).expect_err("refused").text();
        assert_eq!(
            refusal(&"[".repeat(100_000)),
            "error: the patch is nested too deep: more than 128 brackets are open"
        );
        assert!(refusal("{\"a\": 1, \"a\": 2}").contains("duplicate key \"a\""));
    }

    #[test]
    fn a_patch_can_be_tried_without_the_server() {
        let object = Object::from_value(json!({"spec": {"containers": [{"name": "a", "image": "x"}]}})).expect("a map");
        let containers = |patch| here(&object, &patch).expect("patched").into_value()["spec"]["containers"].clone();
        let change = || json!({"spec": {"containers": [{"name": "a", "tty": true}]}});
        assert_eq!(containers(Patch::Merge(change())), json!([{"name": "a", "tty": true}]));
        assert_eq!(containers(Patch::Strategic(change())), json!([{"name": "a", "image": "x", "tty": true}]));
        let op = json!([{"op": "remove", "path": "/spec/containers/0"}]);
        assert_eq!(containers(Patch::Json(op)), json!([]));
        assert!(here(&object, &Patch::Json(json!([{"op": "remove", "path": "/none"}]))).is_err());
    }

    #[test]
    fn a_patch_is_strategic_unless_another_type_is_named() {
        let patch = json!({"spec": {"replicas": 2, "taints": []}});
        assert!(matches!(read(None, &patch.to_string()), Ok(Patch::Strategic(value)) if value == patch));
        assert!(matches!(read(None, "spec: {replicas: 2, taints: []}"), Ok(Patch::Strategic(value)) if value == patch));
        assert!(matches!(read(Some("strategic"), "{}"), Ok(Patch::Strategic(_))));
        assert!(matches!(read(Some("MERGE"), &patch.to_string()), Ok(Patch::Merge(_))));
        assert!(matches!(read(Some("json"), "[]"), Ok(Patch::Json(_))));
        assert!(read(None, "[]").is_err());
        assert_eq!(
            read(Some("mash"), "{}").expect_err("refused").text(),
            "error: --type must be one of [json merge strategic], not \"mash\""
        );
    }
}
