//! Which command is which.

use std::process::ExitCode;

use clap::Subcommand;

use super::{apply, create, delete, describe, events, get, logs, scale};

/// A command on objects.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Get(get::GetArgs),
    Describe(describe::DescribeArgs),
    Apply(apply::ApplyArgs),
    Create(Box<create::CreateArgs>),
    Delete(delete::DeleteArgs),
    Scale(scale::ScaleArgs),
    Logs(logs::LogsArgs),
    Events(events::EventsArgs),
}

/// Runs the command.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
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
        }
    }));
    Ok(outcome.unwrap_or_else(|failure| {
        let mut report = super::failure::Report::default();
        report.fail(failure);
        report.exit_code()
    }))
}
