//! The subcommands of `lw auth`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::can_i::{self, CanIArgs};
use super::who_am_i::{self, WhoAmIArgs};
use crate::commands::failure::Failure;
use crate::commands::refused::{Instead, RefusedArgs};
use crate::commands::session::Session;

/// Ask who you are and what you may do
///
/// Examples: lw auth can-i create pods; lw auth can-i --list; lw auth whoami
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    what: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    CanI(CanIArgs),
    #[command(name = "whoami")]
    WhoAmI(WhoAmIArgs),
    #[command(hide = true)]
    Reconcile(RefusedArgs),
}

/// Runs the command.
pub(crate) async fn run(args: &AuthArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        AuthCommand::CanI(args) => can_i::run(args).await,
        AuthCommand::WhoAmI(args) => who_am_i::run(args).await,
        AuthCommand::Reconcile(args) => args.refuse("auth reconcile", Instead::Apply),
    }
}

/// Asks a question that is put as an object, and gives the answer in it.
pub(super) async fn review(session: &Session, question: Value) -> Result<Object, Failure> {
    let question = Object::from_value(question).map_err(|_| Failure::plain("the question is no object"))?;
    let kind = question.kind().ok_or_else(|| Failure::plain("the server does not answer this question"))?;
    Ok(session.api(kind).create(&question).await?.object)
}
