//! `lw scale`: sets the number of replicas.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_components::client::{Error, Patch, WriteParams};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, Reason, Status};
use serde_json::json;

use super::failure::{Failure, Report};
use super::follow::{Follow, Sighting};
use super::manifest::FileArgs;
use super::progress::Waiting;
use super::selection::{Chosen, Naming};
use super::session::{Session, SessionArgs, full_name};
use super::writing::DryRun;

/// Set the number of replicas
///
/// Examples: lw scale deploy web --replicas=5; lw scale deploy/web rs/old --replicas=0
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// KIND NAME…, KIND/NAME …, or KIND with -l or --all
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// How many there shall be
    #[arg(long, value_name = "COUNT", required = true, allow_negative_numbers = true)]
    replicas: i32,
    /// Only if there are so many now
    #[arg(long, value_name = "COUNT")]
    current_replicas: Option<i64>,
    /// Only if the object is at this version
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    resource_version: String,
    /// Wait at most so long until there are so many (5s, 2m); 0: not at all
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = super::delete::parse_duration)]
    timeout: Duration,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Every object of the kind in the namespace
    #[arg(long)]
    all: bool,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// Runs the command.
pub(crate) async fn run(args: &ScaleArgs) -> Result<ExitCode, Failure> {
    if args.replicas < 0 {
        let text = "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0";
        return Err(Failure::usage(text));
    }
    if args.current_replicas.is_some_and(|count| count < -1) {
        return Err(Failure::usage("The --current-replicas must specify an integer of -1 or greater"));
    }
    let naming = Naming { words: &args.words, files: &args.files, labels: &args.selector, fields: "", all: args.all };
    if naming.is_empty() {
        return Err(Failure::usage(
            "You must provide one or more resources by argument or filename.\nExample resource specifications \
             include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    let session = Session::open(&args.session)?;
    let found = naming.find(&session, "scale").await?;
    if !args.resource_version.is_empty() && found.chosen.len() > 1 {
        return Err(Failure::plain("cannot use --resource-version with multiple resources"));
    }
    if found.chosen.is_empty() && found.failures.is_empty() {
        return Err(Failure::plain("no objects passed to scale"));
    }
    let mut report = Report::default();
    for chosen in &found.chosen {
        match scale(args, &session, chosen).await {
            Ok(()) => {
                let name = full_name(chosen.kind, chosen.object.name());
                writeln!(io::stdout().lock(), "{name} scaled{}", args.dry_run.suffix())?;
            }
            Err(failure) => report.fail(failure),
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

/// Scales one object; when it changed under the hand it is judged anew.
async fn scale(args: &ScaleArgs, session: &Session, chosen: &Chosen) -> Result<(), Failure> {
    if !chosen.kind.has_subresource("scale") {
        let status = Status::new(Reason::NotFound, "the server could not find the requested resource");
        return Err(Error::Status(Box::new(status)).into());
    }
    if args.dry_run == DryRun::Client {
        return Ok(());
    }
    let (api, key) = (session.api(chosen.kind), chosen.key());
    let params = WriteParams { dry_run: args.dry_run == DryRun::Server, ..WriteParams::default() };
    let mut live = chosen.object.clone();
    loop {
        check(args, &live).map_err(Failure::plain)?;
        let mut patch = json!({"spec": {"replicas": args.replicas}});
        if is_conditional(args) {
            // The condition was judged on this version.
            patch["metadata"] = json!({"resourceVersion": live.revision().to_string()});
        }
        match api.patch_with(&key, "scale", &Patch::Merge(patch), &params).await {
            Ok(_) => break,
            Err(error) if error.is_conflict() => live = api.get(&key).await?.object,
            Err(error) => return Err(error.into()),
        }
    }
    if args.timeout.is_zero() || args.dry_run != DryRun::None {
        return Ok(());
    }
    let name = chosen.object.name();
    let _waiting = Waiting::begin(format!("{} replicas of {name}", args.replicas));
    let late = |_| Err(Failure::plain(format!("timed out waiting for {} to be synced", quote(&name))));
    tokio::time::timeout(args.timeout, settled(args, session, chosen)).await.unwrap_or_else(late)
}

fn is_conditional(args: &ScaleArgs) -> bool {
    args.current_replicas.is_some_and(|count| count >= 0) || !args.resource_version.is_empty()
}

/// The conditions under which the object is to be scaled.
fn check(args: &ScaleArgs, live: &Object) -> Result<(), String> {
    let now = live.int(&["spec", "replicas"]).unwrap_or(0);
    if let Some(expected) = args.current_replicas.filter(|count| *count >= 0 && *count != now) {
        return Err(format!("Expected replicas to be {expected}, was {now}"));
    }
    let version = live.revision().to_string();
    if !args.resource_version.is_empty() && args.resource_version != version {
        return Err(format!("Expected resource version to be {}, was {version}", args.resource_version));
    }
    Ok(())
}

/// Waits until there are as many as asked for, or somebody else has asked for another number.
async fn settled(args: &ScaleArgs, session: &Session, chosen: &Chosen) -> Result<(), Failure> {
    let mut follow = Follow::object(session, chosen.kind, &chosen.key());
    loop {
        let Sighting::There(now) = follow.next().await? else {
            let status = Status::not_found(chosen.kind, chosen.object.name());
            return Err(Error::Status(Box::new(status)).into());
        };
        let wanted = now.int(&["spec", "replicas"]).unwrap_or(0);
        let is_seen = now.int(&["status", "observedGeneration"]).unwrap_or(0) >= now.generation();
        let count = now.int(&["status", "replicas"]).unwrap_or(0);
        if wanted != i64::from(args.replicas) || (is_seen && count == wanted) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        scale: ScaleArgs,
    }

    /// As recorded.
    #[test]
    fn an_object_is_scaled_under_its_conditions_alone() {
        let live = json!({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 3}});
        let live = Object::from_value(live).expect("a map");
        let judge = |flags: &str| {
            let words = ["scale", "deploy", "sash", "--replicas=4"].into_iter().chain(flags.split_whitespace());
            check(&Command::parse_from(words).scale, &live)
        };
        assert_eq!(judge(""), Ok(()));
        assert_eq!(judge("--current-replicas=3 --resource-version=7"), Ok(()));
        assert_eq!(judge("--current-replicas=-1"), Ok(()));
        assert_eq!(judge("--current-replicas=2"), Err("Expected replicas to be 2, was 3".to_owned()));
        let wrong = judge("--resource-version=abc").expect_err("another version");
        assert_eq!(wrong, "Expected resource version to be abc, was 7");
    }
}
