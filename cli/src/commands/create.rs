//! `lw create -f`: creates objects, and refuses those that exist.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::Error;

use super::apply::{DryRun, Validation, with_last_applied, write_params};
use super::failure::{Failure, Report};
use super::manifest::{FileArgs, Manifest};
use super::output::{self, Form};
use super::session::{Session, SessionArgs, full_name};

/// Create objects from files
///
/// Examples: lw create -f web.yaml; cat pod.json | lw create -f -
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
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
    /// Remember the object in an annotation, for a later apply
    #[arg(long)]
    save_config: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &CreateArgs) -> Result<ExitCode, Failure> {
    if args.files.filenames.is_empty() {
        return Err(Failure::usage("must specify one of -f and -k"));
    }
    let session = Session::open(&args.session)?;
    let mut report = Report::default();
    for manifest in args.files.read(&session, "create") {
        let done = match manifest {
            Ok(manifest) => create(args, &session, &manifest).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = done {
            report.fail(failure);
        }
    }
    Ok(report.exit_code())
}

async fn create(args: &CreateArgs, session: &Session, manifest: &Manifest) -> Result<(), Failure> {
    let wanted = if args.save_config { with_last_applied(&manifest.object) } else { manifest.object.clone() };
    let object = if args.dry_run == DryRun::Client {
        wanted
    } else {
        let params = write_params("kubectl-create", args.dry_run, args.validate);
        let failed = |error: Error| Failure::during(manifest.context("creating"), error);
        session.api(manifest.kind).create_with(&wanted, &params).await.map_err(failed)?.object
    };
    let out = &mut io::stdout().lock();
    match args.output {
        Some(form) => output::print(out, form, manifest.kind, &object)?,
        None => writeln!(out, "{} created{}", full_name(manifest.kind, object.name()), args.dry_run.suffix())?,
    }
    Ok(())
}
