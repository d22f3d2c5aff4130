//! `lw create -f`, and what the generators share with it.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use listwatch_components::client::Error;
use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::config_map::ConfigMapArgs;
use super::simple::{DeploymentArgs, NamespaceArgs};
use crate::commands::apply::{DryRun, Validation, with_last_applied, write_params};
use crate::commands::failure::Failure;
use crate::commands::manifest::{FileArgs, for_each_manifest};
use crate::commands::output::{PrintArgs, Printer};
use crate::commands::session::{Session, SessionArgs, full_name};

/// Create objects from files, or simple ones by flags
///
/// Examples: lw create -f web.yaml; cat pod.json | lw create -f -; lw create deployment web --image=nginx --replicas=3;
/// lw create namespace blue; lw create configmap notes --from-literal=a=1 --from-file=notes.txt
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CreateArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    how: HowArgs,
}

/// Objects that flags can describe.
#[derive(Debug, Subcommand)]
enum What {
    #[command(visible_alias = "ns")]
    Namespace(NamespaceArgs),
    #[command(name = "configmap", visible_alias = "cm")]
    ConfigMap(ConfigMapArgs),
    #[command(visible_alias = "deploy")]
    Deployment(DeploymentArgs),
}

/// How an object is created.
#[derive(Debug, Args)]
pub(super) struct HowArgs {
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
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
    match &args.what {
        Some(What::Namespace(what)) => one(&what.how, what.object(), "").await,
        Some(What::ConfigMap(what)) => one(&what.how, what.object()?, "configmap").await,
        Some(What::Deployment(what)) => one(&what.how, what.object()?, "deployment").await,
        None => from_files(args).await,
    }
}

async fn from_files(args: &CreateArgs) -> Result<ExitCode, Failure> {
    args.files.require()?;
    let session = Session::open(&args.how.session)?;
    let mut creator = Creator { how: &args.how, session: &session, printer: args.how.print.printer()? };
    for_each_manifest(&args.files, &session, "create", async |manifest| {
        creator
            .create(manifest.kind, &manifest.object, |error| Failure::during(manifest.context("creating"), error))
            .await
    })
    .await
}

/// Creates the object that flags describe. A failure names the generator, where kubectl's does.
async fn one(how: &HowArgs, object: Value, generator: &str) -> Result<ExitCode, Failure> {
    let mut object = Object::from_value(object).map_err(|_| Failure::plain("the object is none"))?;
    let kind = object.kind().ok_or_else(|| Failure::plain("the kind is not served"))?;
    let printer = how.print.printer()?;
    let session = Session::open(&how.session)?;
    if kind.namespaced && (how.dry_run != DryRun::Client || session.is_namespace_given) {
        object.set(&["metadata", "namespace"], session.namespace.as_str());
    }
    let mut creator = Creator { how, session: &session, printer };
    let failed = |error| match error {
        Error::Status(status) if !generator.is_empty() => {
            Failure::plain(format!("failed to create {generator}: {}", status.message))
        }
        error => error.into(),
    };
    creator.create(kind, &object, failed).await?;
    Ok(ExitCode::SUCCESS)
}

struct Creator<'a> {
    how: &'a HowArgs,
    session: &'a Session,
    printer: Option<Printer>,
}

impl Creator<'_> {
    async fn create(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        failed: impl FnOnce(Error) -> Failure,
    ) -> Result<(), Failure> {
        let dry_run = self.how.dry_run;
        let wanted = if self.how.save_config { with_last_applied(object) } else { object.clone() };
        let object = if dry_run == DryRun::Client {
            wanted
        } else {
            let params = write_params("kubectl-create", dry_run, self.how.validate);
            self.session.api(kind).create_with(&wanted, &params).await.map_err(failed)?.object
        };
        let out = &mut io::stdout().lock();
        match &mut self.printer {
            Some(printer) => printer.print(out, kind, &object)?,
            None => writeln!(out, "{} created{}", full_name(kind, object.name()), dry_run.suffix())?,
        }
        Ok(())
    }
}
