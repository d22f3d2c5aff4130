//! The subcommands of `lw config`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::contexts::{self, DeleteArgs, GetContextsArgs, RenameArgs, SetArgs, UseArgs};
use super::file::File;
use super::view::{self, ViewArgs};
use crate::commands::failure::Failure;
use crate::commands::refused::{Instead, RefusedArgs};
use crate::commands::session::SessionArgs;

/// What serves in place of changing servers and identities.
const KUBECTL: Instead =
    Instead::Do("lw up writes servers and identities; to change such a file, use kubectl config with --kubeconfig");

/// Look at the kubeconfig and choose among its contexts
///
/// `lw up` writes its kubeconfig anew when a cluster starts; what is changed here holds until then.
///
/// Examples: lw config view; lw config get-contexts; lw config set-context --current --namespace=blue
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the name of the current context
    ///
    /// Examples: lw config current-context
    CurrentContext(FileArgs),
    DeleteContext(DeleteArgs),
    /// Show the names of the clusters
    ///
    /// Examples: lw config get-clusters
    GetClusters(FileArgs),
    GetContexts(GetContextsArgs),
    /// Show the names of the users
    ///
    /// Examples: lw config get-users
    GetUsers(FileArgs),
    RenameContext(RenameArgs),
    SetContext(SetArgs),
    #[command(visible_alias = "use")]
    UseContext(UseArgs),
    View(ViewArgs),
    #[command(hide = true)]
    DeleteCluster(RefusedArgs),
    #[command(hide = true)]
    DeleteUser(RefusedArgs),
    #[command(hide = true)]
    Set(RefusedArgs),
    #[command(hide = true)]
    SetCluster(RefusedArgs),
    #[command(hide = true)]
    SetCredentials(RefusedArgs),
    #[command(hide = true)]
    Unset(RefusedArgs),
}

/// Flags that say which file.
#[derive(Debug, Args)]
struct FileArgs {
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        What::CurrentContext(args) => current(&args.session),
        What::DeleteContext(args) => contexts::delete(args),
        What::GetClusters(args) => names(&args.session, "clusters"),
        What::GetContexts(args) => contexts::get(args),
        What::GetUsers(args) => names(&args.session, "users"),
        What::RenameContext(args) => contexts::rename(args),
        What::SetContext(args) => contexts::set(args),
        What::UseContext(args) => contexts::switch(args),
        What::View(args) => view::run(args),
        What::DeleteCluster(args) => args.refuse("config delete-cluster", KUBECTL),
        What::DeleteUser(args) => args.refuse("config delete-user", KUBECTL),
        What::Set(args) => args.refuse("config set", KUBECTL),
        What::SetCluster(args) => args.refuse("config set-cluster", KUBECTL),
        What::SetCredentials(args) => args.refuse("config set-credentials", KUBECTL),
        What::Unset(args) => args.refuse("config unset", KUBECTL),
    }
}

fn current(session: &SessionArgs) -> Result<ExitCode, Failure> {
    let file = File::read(session)?;
    if file.current().is_empty() {
        return Err(Failure::plain("current-context is not set"));
    }
    writeln!(io::stdout().lock(), "{}", file.current())?;
    Ok(ExitCode::SUCCESS)
}

fn names(session: &SessionArgs, list: &str) -> Result<ExitCode, Failure> {
    let file = File::read(session)?;
    let mut out = io::stdout().lock();
    writeln!(out, "NAME")?;
    for name in file.names(list) {
        writeln!(out, "{name}")?;
    }
    Ok(ExitCode::SUCCESS)
}
