//! `lw apply -f`: create what is missing, patch what differs, say which it was.

use std::io;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use listwatch_components::client::{Patch, WriteParams};
use listwatch_proto::resource::Object;
use listwatch_proto::v1::FieldValidation;
use serde_json::{Map, Value};

use super::super::failure::{Failure, Report};
use super::super::manifest::{FileArgs, Manifest};
use super::super::output::{self, Form};
use super::super::session::{Session, SessionArgs, full_name};
use super::three_way::{merge_patch, three_way};

/// The annotation that remembers what was applied (kubectl's own).
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How often a patch is made anew when the object changed under it (kubectl's number).
const TRIES_MAX: u32 = 5;

/// Make objects be as their files say
///
/// Examples: lw apply -f web.yaml; lw apply -f folder/; cat web.yaml | lw apply -f -
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// Print the objects in this form instead of what was done
    #[arg(short, long, value_enum)]
    output: Option<Form>,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
    /// What becomes of fields that do not exist
    #[arg(long, value_enum, default_value_t = Validation::Strict)]
    validate: Validation,
}

/// Who only pretends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Nobody.
    None,
    /// This program.
    Client,
    /// The server.
    Server,
}

impl DryRun {
    /// What is said behind a deed.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}

/// What becomes of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validation {
    /// They are refused, each by name.
    #[value(alias = "true")]
    Strict,
    /// They are dropped with a warning.
    Warn,
    /// They are dropped.
    #[value(alias = "false")]
    Ignore,
}

/// How objects of a file are written.
pub(crate) fn write_params(manager: &str, dry_run: DryRun, validate: Validation) -> WriteParams {
    let field_validation = match validate {
        Validation::Strict => FieldValidation::Strict,
        Validation::Warn => FieldValidation::Warn,
        Validation::Ignore => FieldValidation::Ignore,
    };
    WriteParams { dry_run: dry_run == DryRun::Server, field_manager: manager.to_owned(), field_validation }
}

/// Runs the command.
pub(crate) async fn run(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    if args.files.filenames.is_empty() {
        return Err(Failure::usage("must specify one of -f and -k"));
    }
    let session = Session::open(&args.session)?;
    let mut report = Report::default();
    for manifest in args.files.read(&session, "apply") {
        let done = match manifest {
            Ok(manifest) => apply(args, &session, &manifest).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = done {
            report.fail(failure);
        }
    }
    Ok(report.exit_code())
}

async fn apply(args: &ApplyArgs, session: &Session, manifest: &Manifest) -> Result<(), Failure> {
    if manifest.object.name().is_empty() {
        let generate_name = manifest.object.text(&["metadata", "generateName"]);
        return Err(Failure::plain(format!("from {generate_name}: cannot use generate name with apply")));
    }
    let api = session.api(manifest.kind);
    let params = write_params("kubectl-client-side-apply", args.dry_run, args.validate);
    let wanted = with_last_applied(&manifest.object);
    let mut tries = 0;
    loop {
        let live = api.get_opt(&manifest.key()).await;
        let live = live.map_err(|e| Failure::during(format!("error when retrieving current configuration of:\nResource: \"{}, Resource={}\", GroupVersionKind: \"{}, Kind={}\"\nName: \"{}\", Namespace: \"{}\"\nfrom server for: \"{}\"", manifest.kind.api_version(), manifest.kind.plural, manifest.kind.api_version(), manifest.kind.kind, manifest.object.name(), manifest.object.namespace(), manifest.source), e))?;
        let Some(live) = live else {
            let object = if args.dry_run == DryRun::Client {
                wanted
            } else {
                let created = api.create_with(&wanted, &params).await;
                created.map_err(|e| Failure::during(manifest.context("creating"), e))?.object
            };
            return say(args, manifest, &object, "created");
        };
        let patch = patch_for(manifest, &wanted, &live.object);
        let Some(patch) = patch else { return say(args, manifest, &live.object, "unchanged") };
        if args.dry_run == DryRun::Client {
            return say(args, manifest, &live.object, "configured");
        }
        match api.patch_with(&manifest.key(), "", &Patch::Merge(patch), &params).await {
            Ok(patched) => return say(args, manifest, &patched.object, "configured"),
            Err(error) if error.is_conflict() && tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(Failure::during(manifest.context("patching"), error)),
        }
    }
}

/// What must change, guarded by the version it was computed from; `None`: nothing.
fn patch_for(manifest: &Manifest, wanted: &Object, live: &Object) -> Option<Value> {
    let name = manifest.object.name();
    let last = match live.annotation(LAST_APPLIED) {
        Some(text) => serde_json::from_str(text).unwrap_or_else(|_| Map::new()),
        None => {
            let plural = manifest.kind.name();
            eprintln!(
                "Warning: resource {plural}/{name} is missing the {LAST_APPLIED} annotation which is required by lw \
                 apply. lw apply should only be used on resources created declaratively by either lw create \
                 --save-config or lw apply. The missing annotation will be patched automatically."
            );
            Map::new()
        }
    };
    let next = three_way(&last, &wanted.0, &live.0);
    let mut patch = merge_patch(&live.0, &next);
    if patch.is_empty() {
        return None;
    }
    if live.is_terminating() {
        eprintln!("Warning: Detected changes to resource {name} which is currently being deleted.");
    }
    // Lists are sent whole, as they were here: not over what somebody has changed since.
    let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    metadata["resourceVersion"] = live.at(&["metadata", "resourceVersion"]).cloned().unwrap_or(Value::Null);
    Some(Value::Object(patch))
}

/// The object with the memory of itself.
pub(crate) fn with_last_applied(object: &Object) -> Object {
    let mut bare = object.clone();
    if bare.annotations().next().is_none() {
        bare.set(&["metadata", "annotations"], Value::Object(Map::new()));
    }
    bare.remove(&["metadata", "annotations", LAST_APPLIED]);
    let memory = Value::Object(bare.0.clone()).to_string() + "\n";
    bare.set(&["metadata", "annotations", LAST_APPLIED], memory);
    bare
}

fn say(args: &ApplyArgs, manifest: &Manifest, object: &Object, deed: &str) -> Result<(), Failure> {
    let out = &mut io::stdout().lock();
    match args.output {
        Some(form) => output::print(out, form, manifest.kind, object)?,
        None => {
            use io::Write;
            writeln!(out, "{} {deed}{}", full_name(manifest.kind, object.name()), args.dry_run.suffix())?;
        }
    }
    Ok(())
}
