//! `lw create -f`, and what the generators share with it.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use bytes::Bytes;
use clap::{Args, Subcommand};
use listwatch_components::client::{Error, RawRequest};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::config_map::ConfigMapArgs;
use super::rbac::{ClusterRoleArgs, ClusterRoleBindingArgs, RoleArgs, RoleBindingArgs};
use super::secret::SecretArgs;
use super::service::ServiceArgs;
use super::simple::{BudgetArgs, NamespaceArgs, PriorityArgs, QuotaArgs, ServiceAccountArgs};
use super::token::{self, TokenArgs};
use super::workload::{CronJobArgs, DeploymentArgs, JobArgs};
use crate::commands::apply::{LAST_APPLIED, with_last_applied};
use crate::commands::failure::Failure;
use crate::commands::manifest::{FileArgs, for_each_manifest};
use crate::commands::refused::{Instead, RefusedArgs};
use crate::commands::session::Session;
use crate::commands::writing::{DryRun, Teller, WritingArgs};

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
    /// Send the file as it is to this path of the server
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Objects that flags can describe.
#[derive(Debug, Subcommand)]
enum What {
    #[command(name = "clusterrole")]
    ClusterRole(ClusterRoleArgs),
    #[command(name = "clusterrolebinding")]
    ClusterRoleBinding(ClusterRoleBindingArgs),
    #[command(name = "configmap", visible_alias = "cm")]
    ConfigMap(ConfigMapArgs),
    #[command(name = "cronjob", visible_alias = "cj")]
    CronJob(CronJobArgs),
    #[command(visible_alias = "deploy")]
    Deployment(DeploymentArgs),
    #[command(hide = true, alias = "ing")]
    Ingress(RefusedArgs),
    Job(JobArgs),
    #[command(visible_alias = "ns")]
    Namespace(NamespaceArgs),
    #[command(name = "poddisruptionbudget", visible_alias = "pdb")]
    Budget(BudgetArgs),
    #[command(name = "priorityclass", visible_alias = "pc")]
    Priority(PriorityArgs),
    #[command(visible_alias = "resourcequota")]
    Quota(QuotaArgs),
    Role(RoleArgs),
    #[command(name = "rolebinding")]
    RoleBinding(RoleBindingArgs),
    Secret(SecretArgs),
    #[command(visible_alias = "svc")]
    Service(ServiceArgs),
    #[command(name = "serviceaccount", visible_alias = "sa")]
    ServiceAccount(ServiceAccountArgs),
    Token(TokenArgs),
}

/// How an object is created.
#[derive(Debug, Args)]
pub(super) struct HowArgs {
    #[command(flatten)]
    writing: WritingArgs,
    /// Remember the object in an annotation, for a later apply
    #[arg(long)]
    save_config: bool,
}

impl HowArgs {
    /// The connection, for what is made from other objects.
    pub(super) fn session(&self) -> Result<Session, Failure> {
        Session::open(&self.writing.session)
    }
}

/// Runs the command.
pub(crate) async fn run(args: &CreateArgs) -> Result<ExitCode, Failure> {
    // Failures of some generators name what they make, with a colon behind it or without: kubectl's words.
    match &args.what {
        Some(What::ClusterRole(what)) => one(what.how(), what.object()?, "").await,
        Some(What::ClusterRoleBinding(what)) => one(what.how(), what.object()?, "clusterrolebinding:").await,
        Some(What::ConfigMap(what)) => one(&what.how, what.object()?, "configmap:").await,
        Some(What::CronJob(what)) => one(&what.how, what.object()?, "cronjob:").await,
        Some(What::Deployment(what)) => one(&what.how, what.object()?, "deployment:").await,
        Some(What::Ingress(what)) => {
            what.refuse("create ingress", Instead::Do("write a manifest and use lw create -f"))
        }
        Some(What::Job(what)) => one(&what.how, what.object().await?, "job:").await,
        Some(What::Namespace(what)) => one(&what.how, what.object()?, "").await,
        Some(What::Budget(what)) => one(&what.how, what.object()?, "poddisruptionbudgets:").await,
        Some(What::Priority(what)) => one(&what.how, what.object()?, "priorityclass:").await,
        Some(What::Quota(what)) => one(&what.how, what.object()?, "quota:").await,
        Some(What::Role(what)) => one(what.how(), what.object()?, "").await,
        Some(What::RoleBinding(what)) => one(what.how(), what.object()?, "rolebinding:").await,
        Some(What::Secret(what)) => one(what.what.how(), what.what.object()?, "secret").await,
        Some(What::Service(what)) => one(what.how(), what.object()?, &format!("{}:", what.called())).await,
        Some(What::ServiceAccount(what)) => one(&what.how, what.object()?, "serviceaccount:").await,
        Some(What::Token(what)) => token::run(what).await,
        None => match &args.raw {
            Some(path) => send(args, path).await,
            None => from_files(args).await,
        },
    }
}

/// Sends a file to a path, and shows the answer.
async fn send(args: &CreateArgs, path: &str) -> Result<ExitCode, Failure> {
    let Some(file) = args.files.only() else {
        return Err(Failure::usage("--raw can only use a single local file or stdin"));
    };
    if args.how.writing.print.is_given() {
        return Err(Failure::usage("--raw and --output are mutually exclusive"));
    }
    let mut body = Vec::new();
    if file == "-" {
        io::stdin().lock().read_to_end(&mut body)?;
    } else {
        body = std::fs::read(file).map_err(|error| Failure::plain(format!("open {file}: {error}")))?;
    }
    let session = Session::open(&args.how.writing.session)?;
    let request = RawRequest { method: http::Method::POST, path: path.to_owned(), body: Some(Bytes::from(body)) };
    let answer = session.client.raw(request).await?;
    io::stdout().lock().write_all(&answer)?;
    Ok(ExitCode::SUCCESS)
}

async fn from_files(args: &CreateArgs) -> Result<ExitCode, Failure> {
    args.files.require()?;
    let (session, teller) = args.how.writing.open()?;
    let mut creator = Creator { how: &args.how, session: &session, teller };
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
    let (session, teller) = how.writing.open()?;
    if kind.namespaced && (how.writing.dry_run != DryRun::Client || session.is_namespace_given) {
        object.set(&["metadata", "namespace"], session.namespace.as_str());
    }
    if how.save_config {
        remember(&mut object, session.is_namespace_given);
    }
    let mut creator = Creator { how, session: &session, teller };
    let failed = |error| match error {
        Error::Status(status) if !generator.is_empty() => {
            Failure::plain(format!("failed to create {generator} {}", status.message))
        }
        error => error.into(),
    };
    creator.create(kind, &object, failed).await?;
    Ok(ExitCode::SUCCESS)
}

/// Has an object that flags describe remember itself, as kubectl writes it: in the order of Go's types, and without a
/// namespace that nobody named.
fn remember(object: &mut Object, with_namespace: bool) {
    let mut bare = object.clone();
    if !with_namespace {
        bare.remove(&["metadata", "namespace"]);
    }
    let first = ["kind", "apiVersion", "metadata"];
    let rest = bare.0.keys().map(String::as_str).filter(|field| !first.contains(field));
    let fields = first.into_iter().chain(rest).map(|field| format!("{}:{}", quote(&field), bare.0[field]));
    let memory = format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","));
    object.set(&["metadata", "annotations", LAST_APPLIED], memory);
}

struct Creator<'a> {
    how: &'a HowArgs,
    session: &'a Session,
    teller: Teller,
}

impl Creator<'_> {
    async fn create(
        &mut self,
        kind: &'static Kind,
        object: &Object,
        failed: impl FnOnce(Error) -> Failure,
    ) -> Result<(), Failure> {
        let is_to_remember = self.how.save_config && object.annotation(LAST_APPLIED).is_none();
        let wanted = if is_to_remember { with_last_applied(object) } else { object.clone() };
        let object = if self.how.writing.dry_run == DryRun::Client {
            wanted
        } else {
            let params = self.how.writing.params("kubectl-create");
            self.session.api(kind).create_with(&wanted, &params).await.map_err(failed)?.object
        };
        self.teller.tell(kind, &object, "created")
    }
}
