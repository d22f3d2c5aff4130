//! The command `lw wait`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_proto::resource::{Kind, Object};
use tokio::time::Instant;

use super::condition::Condition;
use crate::commands::choice::ChoiceArgs;
use crate::commands::delete::parse_duration;
use crate::commands::failure::{Failure, Report};
use crate::commands::follow::{Follow, Sighting};
use crate::commands::manifest::FileArgs;
use crate::commands::output::{PrintArgs, Printer};
use crate::commands::progress::Waiting;
use crate::commands::selection::{Chosen, Found, Naming};
use crate::commands::session::{Session, SessionArgs, full_name, parse_targets};

/// What a negative timeout means, as with kubectl.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Wait until objects are there, gone, or as one wants them
///
/// Examples: lw wait --for=condition=Ready pod/web-0 --timeout=60s; lw wait --for=delete pods -l app=web;
/// lw wait --for=create deploy/web; lw wait --for=jsonpath='{.status.phase}'=Running pods --all
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// KIND NAME…, KIND/NAME …, or KIND with -l or --all
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// What to wait for: create, delete, condition=NAME[=VALUE], jsonpath='{PATH}'[=VALUE]; several: one after the other
    #[arg(long = "for", value_name = "CONDITION")]
    conditions: Vec<String>,
    /// Wait at most so long (5s, 2m); 0: only look; negative: a week
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_timeout, allow_hyphen_values = true)]
    timeout: Duration,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    print: PrintArgs,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match text.strip_prefix('-') {
        Some(rest) => parse_duration(rest).map(|_| WEEK),
        None => parse_duration(text),
    }
}

/// Runs the command.
pub(crate) async fn run(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let conditions: Result<Vec<_>, _> = args.conditions.iter().map(|text| Condition::parse(text)).collect();
    let conditions = conditions.map_err(Failure::usage)?;
    if conditions.is_empty() {
        return Err(Failure::usage("say what to wait for: --for=condition=Ready, --for=delete, …"));
    }
    let naming = Naming {
        words: &args.words,
        files: &args.files,
        labels: &args.choice.selector,
        fields: &args.choice.field_selector,
        all: args.choice.all,
    };
    if naming.is_empty() {
        return Err(Failure::usage(
            "You must provide one or more resources by argument or filename.\nExample resource specifications \
             include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    let mut session = Session::open(&args.session)?;
    if args.choice.all_namespaces {
        session.namespace.clear();
    }
    let mut wait = Wait {
        session: &session,
        conditions: &conditions,
        deadline: Instant::now() + args.timeout,
        once: args.timeout.is_zero(),
        printer: args.print.printer()?,
    };
    if conditions.iter().any(|c| matches!(c, Condition::Created)) && !wait.once {
        wait.until_there(args, &naming).await?;
    }
    let found = naming.find(&session, "wait for").await?;
    wait.each(found).await
}

struct Wait<'a> {
    session: &'a Session,
    conditions: &'a [Condition],
    /// Of the whole command.
    deadline: Instant,
    /// Only look.
    once: bool,
    printer: Option<Printer>,
}

impl Wait<'_> {
    /// Waits for every object, one after the other: what has come true meanwhile is not waited for.
    async fn each(&mut self, found: Found) -> Result<ExitCode, Failure> {
        let for_delete = self.conditions.iter().any(|c| matches!(c, Condition::Deleted));
        let is_absent = |failure: &Failure| matches!(failure, Failure::Server { error, .. } if error.is_not_found());
        // What is not there has been deleted.
        let mut failures: Vec<_> = found.failures.into_iter().filter(|f| !(for_delete && is_absent(f))).collect();
        if found.chosen.is_empty() && failures.is_empty() && !for_delete {
            return Err(Failure::plain("no matching resources found"));
        }
        for chosen in &found.chosen {
            if let Err(failure) = self.one(chosen).await {
                failures.push(failure);
            }
        }
        let mut report = Report::default();
        report.fail_all(failures);
        Ok(report.exit_code())
    }

    async fn one(&mut self, chosen: &Chosen) -> Result<(), Failure> {
        for condition in self.conditions {
            let last = self.until(chosen, condition).await?;
            let out = &mut io::stdout().lock();
            match &mut self.printer {
                Some(printer) => printer.print(out, chosen.kind, &last)?,
                None => writeln!(out, "{} condition met", full_name(chosen.kind, last.name()))?,
            }
        }
        Ok(())
    }

    /// Waits for one condition of one object; gives the object as it was last seen.
    async fn until(&self, chosen: &Chosen, condition: &Condition) -> Result<Object, Failure> {
        let name = format!("{}/{}", chosen.kind.plural, chosen.object.name());
        let mut follow = Follow::object(self.session, chosen.kind, &chosen.key());
        let mut last = chosen.object.clone();
        let _waiting = Waiting::begin(&name);
        loop {
            // Whoever only looks is given an answer, however long it takes.
            let next = if self.once {
                Ok(follow.next().await)
            } else {
                tokio::time::timeout_at(self.deadline, follow.next()).await
            };
            let Ok(sighting) = next else {
                return Err(Failure::plain(format!("timed out waiting for the condition on {name}")));
            };
            let is_met = match sighting? {
                Sighting::Gone if matches!(condition, Condition::Deleted) => true,
                Sighting::Gone => return Err(gone(chosen)),
                // One made anew under the name is another one.
                Sighting::There(now) if matches!(condition, Condition::Deleted) => now.uid() != chosen.object.uid(),
                Sighting::There(now) => {
                    last = *now;
                    condition.is_met(&last).map_err(Failure::plain)?
                }
            };
            if is_met {
                return Ok(last);
            }
            if self.once {
                return Err(Failure::plain(format!("condition not met for {name}")));
            }
        }
    }

    /// Waits until everything that is named is there, and of a selection anything.
    async fn until_there(&self, args: &WaitArgs, naming: &Naming<'_>) -> Result<(), Failure> {
        let session = self.session;
        let mut follows = Vec::new();
        for manifest in naming.files.read(session, "wait for") {
            let manifest = manifest?;
            follows.push(Follow::object(session, manifest.kind, &manifest.key()));
        }
        let targets = parse_targets(naming.words)?;
        let is_selection = targets.iter().all(|target| target.names.is_empty());
        for target in &targets {
            let kind: &'static Kind = target.kind;
            if target.names.is_empty() {
                follows.push(Follow::selection(session, kind, &args.choice.selector, &args.choice.field_selector));
            }
            follows.extend(target.names.iter().map(|name| Follow::object(session, kind, &session.key(kind, name))));
        }
        let _waiting = Waiting::begin(naming.words.join(" "));
        let wait = async {
            if is_selection && follows.len() > 1 {
                let (first, ..) = futures::future::select_all(follows.iter_mut().map(|f| Box::pin(seen(f)))).await;
                return first;
            }
            for follow in &mut follows {
                seen(follow).await?;
            }
            Ok(())
        };
        let late = |_| Err(Failure::plain("timed out waiting for the condition"));
        tokio::time::timeout_at(self.deadline, wait).await.unwrap_or_else(late)
    }
}

/// Waits until there is an object.
async fn seen(follow: &mut Follow) -> Result<(), Failure> {
    while matches!(follow.next().await?, Sighting::Gone) {}
    Ok(())
}

fn gone(chosen: &Chosen) -> Failure {
    let status = listwatch_proto::resource::Status::not_found(chosen.kind, chosen.object.name());
    listwatch_components::client::Error::Status(Box::new(status)).into()
}
