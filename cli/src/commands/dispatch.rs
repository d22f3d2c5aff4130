//! Which command is which.

use std::process::ExitCode;

use clap::Subcommand;

use super::failure::Failure;
use super::refused::{Instead, RefusedArgs};
use super::{
    api_resources, api_versions, apply, auth, autoscale, certificate, cluster_info, completion, config, cordon, create,
    delete, describe, diff, drain, edit, events, exec, explain, expose, get, label, logs, options, patch, replace,
    rollout, run, scale, set, taint, version, wait,
};

/// A command on objects. In kubectl's order, in which slips of the pen are looked up, too.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Create(Box<create::CreateArgs>),
    Expose(Box<expose::ExposeArgs>),
    Run(Box<run::RunArgs>),
    Set(Box<set::SetArgs>),
    Explain(explain::ExplainArgs),
    Get(get::GetArgs),
    Edit(edit::EditArgs),
    Delete(delete::DeleteArgs),
    Rollout(Box<rollout::RolloutArgs>),
    Scale(scale::ScaleArgs),
    Autoscale(Box<autoscale::AutoscaleArgs>),
    Certificate(certificate::CertificateArgs),
    ClusterInfo(cluster_info::ClusterInfoArgs),
    Cordon(cordon::CordonArgs),
    Uncordon(cordon::UncordonArgs),
    Drain(Box<drain::DrainArgs>),
    Taint(taint::TaintArgs),
    Describe(describe::DescribeArgs),
    Logs(logs::LogsArgs),
    Attach(exec::AttachArgs),
    Exec(exec::ExecArgs),
    PortForward(exec::PortForwardArgs),
    Events(events::EventsArgs),
    Diff(Box<diff::DiffArgs>),
    Auth(Box<auth::AuthArgs>),
    Apply(Box<apply::ApplyArgs>),
    Patch(patch::PatchArgs),
    Replace(Box<replace::ReplaceArgs>),
    Wait(Box<wait::WaitArgs>),
    Label(label::LabelArgs),
    Annotate(label::AnnotateArgs),
    Completion(completion::CompletionArgs),
    ApiResources(api_resources::ApiResourcesArgs),
    ApiVersions(api_versions::ApiVersionsArgs),
    Config(config::ConfigArgs),
    Version(version::VersionArgs),
    Options(options::OptionsArgs),
    #[command(hide = true)]
    Alpha(RefusedArgs),
    #[command(hide = true)]
    Cp(RefusedArgs),
    #[command(hide = true)]
    Debug(RefusedArgs),
    #[command(hide = true)]
    Kuberc(RefusedArgs),
    #[command(hide = true)]
    Kustomize(RefusedArgs),
    #[command(hide = true)]
    Plugin(RefusedArgs),
    #[command(hide = true)]
    Proxy(RefusedArgs),
    #[command(hide = true)]
    Top(RefusedArgs),
}

/// What pods listen on here, in place of a tunnel.
const ON_THIS_MACHINE: Instead =
    Instead::Do("pods are processes of this machine: reach them at the address that lw get pods -o wide shows");
/// What serves in place of a copy.
const COPY_BY_HAND: Instead = Instead::Do("pack and unpack it: lw exec POD -- tar cf - PATH | tar xf -");
/// What serves in place of building a folder.
const KUSTOMIZE: Instead = Instead::Do("build the folder with kustomize or kubectl kustomize, and give it to -f -");
/// What serves in place of a container to look around from.
const NO_INSIDE: Instead = Instead::Do("pods are processes of this machine: look at them with lw logs and ps");

/// Runs the command.
pub(crate) fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(Box::pin(async {
        match &command {
            Command::Get(args) => get::run(args).await,
            Command::Describe(args) => describe::run(args).await,
            Command::Apply(args) => apply::run(args).await,
            Command::Create(args) => create::run(args).await,
            Command::Delete(args) => delete::run(args).await,
            Command::Scale(args) => scale::run(args).await,
            Command::Logs(args) => logs::run(args).await,
            Command::Events(args) => events::run(args).await,
            Command::Rollout(args) => rollout::run(args).await,
            Command::Set(args) => set::run(args).await,
            Command::Wait(args) => wait::run(args).await,
            Command::Completion(args) => completion::run(args),
            Command::Attach(args) => exec::attach(args).await,
            Command::Autoscale(args) => autoscale::run(args).await,
            Command::Auth(args) => auth::run(args).await,
            Command::Certificate(args) => certificate::run(args).await,
            Command::ClusterInfo(args) => cluster_info::run(args).await,
            Command::Config(args) => config::run(args),
            Command::Version(args) => version::run(args).await,
            Command::Options(args) => options::run(args),
            Command::ApiVersions(args) => api_versions::run(args).await,
            Command::Alpha(args) => {
                args.refuse("alpha", Instead::Do("use kubectl alpha with the cluster's kubeconfig"))
            }
            Command::Kuberc(args) => args.refuse("kuberc", Instead::Do("lw has no preferences beside its flags")),
            Command::Kustomize(args) => args.refuse("kustomize", KUSTOMIZE),
            Command::Plugin(args) => args.refuse("plugin", Instead::Do("plugins are kubectl's; lw starts none")),
            Command::Cp(args) if args.words().count() == 2 && !args.words().any(|word| word.contains(':')) => {
                Err(Failure::plain("one of src or dest must be a remote file specification"))
            }
            Command::Cp(args) => args.refuse("cp", COPY_BY_HAND),
            Command::Debug(args) => args.refuse("debug", NO_INSIDE),
            Command::Diff(args) => diff::run(args).await,
            Command::Drain(args) => drain::run(args).await,
            Command::Explain(args) => explain::run(args).await,
            Command::Exec(args) => exec::run(args).await,
            Command::Expose(args) => expose::run(args).await,
            Command::PortForward(args) => exec::port_forward(args).await,
            Command::Proxy(args) => args.refuse("proxy", ON_THIS_MACHINE),
            Command::Replace(args) => replace::run(args).await,
            Command::Run(args) => run::run(args).await,
            Command::Top(args) => args.refuse("top", Instead::Do("nothing here measures load yet")),
            Command::Edit(args) => edit::run(args).await,
            Command::Patch(args) => patch::run(args).await,
            Command::Label(args) => label::label(args).await,
            Command::Annotate(args) => label::annotate(args).await,
            Command::Taint(args) => taint::run(args).await,
            Command::Cordon(args) => cordon::cordon(args).await,
            Command::Uncordon(args) => cordon::uncordon(args).await,
            Command::ApiResources(args) => api_resources::run(args).await,
        }
    }));
    Ok(outcome.unwrap_or_else(|failure| {
        let mut report = super::failure::Report::default();
        report.fail(failure);
        report.exit_code()
    }))
}
