//! The subcommands of `lw set`.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::image;
use crate::commands::failure::Failure;
use crate::commands::refused::{Instead, RefusedArgs};

/// Change the images of an object's containers
///
/// Examples: lw set image deploy/web app=nginx:1.29; lw set image deploy,rs -l app=web '*=nginx:1.29'
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(subcommand)]
    command: SetCommand,
}

#[derive(Debug, Subcommand)]
enum SetCommand {
    /// Change the images of containers
    ///
    /// Examples: lw set image deploy/web app=nginx:1.29 side=busybox; lw set image pods --all '*=pause'
    Image(Box<image::ImageArgs>),
    #[command(hide = true)]
    Env(RefusedArgs),
    #[command(hide = true)]
    Resources(RefusedArgs),
    #[command(hide = true)]
    Selector(RefusedArgs),
    #[command(hide = true)]
    Serviceaccount(RefusedArgs),
    #[command(hide = true)]
    Subject(RefusedArgs),
}

/// Runs the command.
pub(crate) async fn run(args: &SetArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        SetCommand::Image(args) => image::run(args).await,
        SetCommand::Env(args) => args.refuse("set env", Instead::Apply),
        SetCommand::Resources(args) => args.refuse("set resources", Instead::Apply),
        SetCommand::Selector(args) => args.refuse("set selector", Instead::Apply),
        SetCommand::Serviceaccount(args) => args.refuse("set serviceaccount", Instead::Apply),
        SetCommand::Subject(args) => args.refuse("set subject", Instead::Nothing),
    }
}
