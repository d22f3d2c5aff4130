//! The subcommands of `lw rollout`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{change, history, status, undo};
use crate::commands::delete::parse_duration;
use crate::commands::failure::{Failure, Report};
use crate::commands::manifest::FileArgs;
use crate::commands::selection::{Chosen, Naming};
use crate::commands::session::{Session, SessionArgs};
use crate::commands::writing::DryRun;

/// Follow, undo, restart and pause the rollout of a Deployment, a DaemonSet or a StatefulSet
///
/// Examples: lw rollout status deploy/web; lw rollout history deploy/web; lw rollout undo deploy/web --to-revision=2
#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Wait until a rollout is done, and say how far it is
    ///
    /// Examples: lw rollout status deploy/web --timeout=60s; lw rollout status deploy/web --watch=false
    Status(StatusArgs),
    /// Show the revisions of a Deployment, a DaemonSet or a StatefulSet
    ///
    /// Examples: lw rollout history deploy/web; lw rollout history deploy/web --revision=3
    History(HistoryArgs),
    /// Go back to an earlier revision
    ///
    /// Examples: lw rollout undo deploy/web; lw rollout undo deploy/web --to-revision=3 --dry-run=server
    Undo(UndoArgs),
    /// Replace every pod, with the same template
    ///
    /// Examples: lw rollout restart deploy/web; lw rollout restart deploy -l app=web
    Restart(WhichArgs),
    /// Let changes of the template wait
    ///
    /// Example: lw rollout pause deploy/web
    Pause(WhichArgs),
    /// Roll out what has waited
    ///
    /// Example: lw rollout resume deploy/web
    Resume(WhichArgs),
}

/// Which objects.
#[derive(Debug, Args)]
pub(super) struct WhichArgs {
    /// KIND NAME…, KIND/NAME …, or KIND for all of it
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Wait until it is done; without it only say how far it is
    #[arg(short, long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    watch: bool,
    /// Fail unless this revision is the one that runs; 0: any
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    revision: i64,
    /// Wait at most so long (5s, 2m); 0: for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    timeout: Duration,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Show this revision with its pod template; 0: a list of all
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    revision: i64,
}

#[derive(Debug, Args)]
pub(super) struct UndoArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Go back to this revision; 0: to the one before
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    to_revision: i64,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs the command.
pub(crate) async fn run(args: &RolloutArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        RolloutCommand::Status(args) => {
            let wanted = status::Wanted { revision: not_negative(args.revision)?, watch: args.watch };
            each(&args.which, async |session, chosen| status::show(session, chosen, &wanted, args.timeout).await).await
        }
        RolloutCommand::History(args) => {
            let revision = not_negative(args.revision)?;
            each(&args.which, async |session, chosen| history::show(session, chosen, revision).await).await
        }
        RolloutCommand::Undo(args) => {
            let (to, dry_run) = (args.to_revision, args.dry_run);
            each(&args.which, async |session, chosen| undo::undo(session, chosen, to, dry_run).await).await
        }
        RolloutCommand::Restart(which) => change_each(which, change::Change::Restart).await,
        RolloutCommand::Pause(which) => change_each(which, change::Change::Pause).await,
        RolloutCommand::Resume(which) => change_each(which, change::Change::Resume).await,
    }
}

async fn change_each(which: &WhichArgs, change: change::Change) -> Result<ExitCode, Failure> {
    each(which, async |session, chosen| change::apply(session, chosen, change).await).await
}

fn not_negative(revision: i64) -> Result<i64, Failure> {
    if revision < 0 {
        return Err(Failure::usage(format!("revision must be a positive integer: {revision}")));
    }
    Ok(revision)
}

/// Does something with each object that is named; goes on after a failure.
async fn each(
    which: &WhichArgs,
    mut deed: impl AsyncFnMut(&Session, &Chosen) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let naming = Naming { words: &which.words, files: &which.files, labels: &which.selector, fields: "", all: true };
    if naming.is_empty() {
        return Err(Failure::usage("required resource not specified"));
    }
    let session = Session::open(&which.session)?;
    let found = naming.find(&session, "roll out").await?;
    if found.chosen.is_empty() && found.failures.is_empty() {
        session.say_nothing_found(false);
    }
    let mut report = Report::default();
    for chosen in &found.chosen {
        if let Err(failure) = deed(&session, chosen).await {
            report.fail(failure);
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}
