//! `lw replace`: whole objects in place of those that are there.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_components::client::{DeleteParams, Error, Propagation};

use super::apply::with_last_applied;
use super::delete::{Leaving, said_of_deleted, wait_gone};
use super::failure::{Failure, Report};
use super::manifest::{FileArgs, Manifest};
use super::session::Session;
use super::writing::{DryRun, Teller, WritingArgs};

/// How long a deleted object is waited for unless told otherwise (kubectl's number).
const GONE_MAX: Duration = Duration::from_secs(5 * 60);

/// Put whole objects in place of those that are there
///
/// Examples: lw replace -f web.yaml; lw get cm notes -o yaml | sed s/a/b/ | lw replace -f -; lw replace --force -f pod.yaml
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    writing: WritingArgs,
    /// Delete what is there and create it anew
    #[arg(long)]
    force: bool,
    /// With --force, seconds given to end; without it the object's own
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    grace_period: Option<i64>,
    /// With --force, wait at most so long for the end (5s, 2m); 0: five minutes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = super::delete::parse_duration)]
    timeout: Duration,
    /// Remember the object in an annotation, for a later apply
    #[arg(long)]
    save_config: bool,
    /// The part of the object that is replaced
    #[arg(long, value_name = "PART", default_value = "", hide_default_value = true)]
    subresource: String,
}

/// Runs the command.
pub(crate) async fn run(args: &ReplaceArgs) -> Result<ExitCode, Failure> {
    args.files.require()?;
    if args.grace_period.is_some_and(|seconds| seconds >= 0) && !args.force {
        return Err(Failure::usage("--grace-period must have --force specified"));
    }
    if !args.timeout.is_zero() && !args.force {
        return Err(Failure::usage("--timeout must have --force specified"));
    }
    if args.force && args.writing.dry_run != DryRun::None {
        return Err(Failure::usage("--dry-run can not be used when --force is set"));
    }
    let (session, teller) = args.writing.open()?;
    let mut replace = Replace { args, session, teller, report: Report::default() };
    let mut manifests = Vec::new();
    for manifest in args.files.read(&replace.session, "replace") {
        match manifest {
            Ok(manifest) => manifests.push(manifest),
            Err(failure) => replace.report.fail(failure),
        }
    }
    if args.force {
        replace.delete(&manifests).await?;
    }
    for manifest in &manifests {
        if let Err(failure) = replace.one(manifest).await {
            replace.report.fail(failure);
        }
    }
    Ok(replace.report.exit_code())
}

struct Replace<'a> {
    args: &'a ReplaceArgs,
    session: Session,
    teller: Teller,
    report: Report,
}

impl Replace<'_> {
    /// Deletes those that are there, and waits until all are gone.
    async fn delete(&mut self, manifests: &[Manifest]) -> Result<(), Failure> {
        let seconds = self.args.grace_period.filter(|seconds| *seconds >= 0);
        // As kubectl has it, so that nobody loses data by a short flag.
        let grace_period_seconds = seconds.map(|seconds| seconds.max(1));
        let params = DeleteParams { grace_period_seconds, propagation: Propagation::Background, ..DeleteParams::any() };
        let mut leaving = Vec::new();
        for manifest in manifests {
            let key = manifest.key();
            match self.session.api(manifest.kind).delete(&key, &params).await {
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(Failure::during(manifest.context("deleting"), error)),
                Ok(deleted) => {
                    if self.teller.is_in_lines() {
                        writeln!(io::stdout(), "{}", said_of_deleted(manifest.kind, &key, "deleted"))?;
                    }
                    if !deleted.removed {
                        let uid = deleted.object.map_or_else(String::new, |object| object.uid);
                        leaving.push(Leaving { kind: manifest.kind, key, uid });
                    }
                }
            }
        }
        let limit = if self.args.timeout.is_zero() { GONE_MAX } else { self.args.timeout };
        let wait = async {
            for object in &leaving {
                wait_gone(&self.session, object).await?;
            }
            Ok::<(), Error>(())
        };
        let late = |_| Err(Failure::plain("timed out waiting for the condition"));
        tokio::time::timeout(limit, async { wait.await.map_err(Failure::from) }).await.unwrap_or_else(late)
    }

    async fn one(&mut self, manifest: &Manifest) -> Result<(), Failure> {
        let args = self.args;
        let is_remembered = args.save_config || manifest.object.annotation(super::apply::LAST_APPLIED).is_some();
        let mut wanted = if is_remembered { with_last_applied(&manifest.object) } else { manifest.object.clone() };
        let api = self.session.api(manifest.kind);
        let params = args.writing.params("kubectl-replace");
        let object = if args.force {
            api.create_with(&wanted, &params).await?.object
        } else if args.writing.dry_run == DryRun::Client {
            wanted
        } else {
            let failed = |error| Failure::during(manifest.context("replacing"), error);
            if wanted.text(&["metadata", "resourceVersion"]).is_empty() {
                // Whoever names no version means the present one.
                let live = api.get(&manifest.key()).await.map_err(failed)?;
                wanted.set(&["metadata", "resourceVersion"], live.revision.to_string());
            }
            api.update_with(&wanted, &args.subresource, &params).await.map_err(failed)?.object
        };
        self.teller.tell(manifest.kind, &object, "replaced")
    }
}
