//! `lw set image`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{Error, Patch};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use crate::commands::failure::{Failure, Report};
use crate::commands::manifest::FileArgs;
use crate::commands::output::PrintArgs;
use crate::commands::selection::{Chosen, Naming};
use crate::commands::session::{Session, SessionArgs, full_name};
use crate::commands::writing::{DryRun, Validation, write_params};

#[derive(Debug, Args)]
pub(super) struct ImageArgs {
    /// KIND NAME… or KIND/NAME …, then CONTAINER=IMAGE …; * stands for every container
    #[arg(value_name = "KIND|KIND/NAME|CONTAINER=IMAGE")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Every object of the kind in the namespace
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    print: PrintArgs,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    dry_run: DryRun,
}

/// A container's new image.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pair {
    /// `*`: every container.
    container: String,
    image: String,
}

/// Runs the command.
pub(super) async fn run(args: &ImageArgs) -> Result<ExitCode, Failure> {
    let (words, pairs) = split(&args.words).map_err(Failure::usage)?;
    let naming = Naming { words, files: &args.files, labels: &args.selector, fields: "", all: args.all };
    check(args, &naming, &pairs).map_err(Failure::usage)?;
    let session = Session::open(&args.session)?;
    let found = naming.find(&session, "set").await?;
    let mut report = Report::default();
    let mut printer = args.print.printer()?;
    for chosen in &found.chosen {
        let plan = match plan(chosen.kind, &chosen.object, &pairs) {
            Ok(plan) => plan,
            Err(why) => {
                report.fail(Failure::plain(why));
                continue;
            }
        };
        plan.missing.iter().for_each(|name| {
            report.fail(Failure::plain(format!("unable to find container named {}", quote(&name))));
        });
        if plan.patch.is_empty() {
            continue;
        }
        match update(args, &session, chosen, &plan).await {
            Ok(object) => {
                let out = &mut io::stdout().lock();
                match &mut printer {
                    Some(printer) => printer.print(out, chosen.kind, &object)?,
                    None => {
                        let name = full_name(chosen.kind, object.name());
                        writeln!(out, "{name} image updated{}", args.dry_run.suffix())?;
                    }
                }
            }
            Err(failure) => report.fail(failure),
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

fn check(args: &ImageArgs, naming: &Naming<'_>, pairs: &[Pair]) -> Result<(), String> {
    if args.all && !args.selector.is_empty() {
        return Err("cannot set --all and --selector at the same time".to_owned());
    }
    if naming.is_empty() {
        return Err("one or more resources must be specified as <resource> <name> or <resource>/<name>".to_owned());
    }
    if pairs.is_empty() {
        return Err("at least one image update is required".to_owned());
    }
    if pairs.len() > 1 && pairs.iter().any(|pair| pair.container == "*") {
        let problem = "all containers are already specified by *, but saw more than one \
                       container_name=container_image pairs";
        return Err(problem.to_owned());
    }
    Ok(())
}

/// Which words name objects, and which name images; kubectl's rules.
fn split(words: &[String]) -> Result<(&[String], Vec<Pair>), String> {
    let is_pair =
        |word: &String| (word.contains('=') && !word.starts_with('=')) || (word.ends_with('-') && word.as_str() != "-");
    let border = words.iter().position(is_pair).unwrap_or(words.len());
    let (objects, rest) = words.split_at(border);
    if let Some(word) = rest.iter().find(|word| !is_pair(word)) {
        return Err(format!("all resources must be specified before image changes: {word}"));
    }
    let mut pairs: Vec<Pair> = Vec::new();
    let mut broken = Vec::new();
    for word in rest {
        match word.split_once('=').filter(|(container, _)| !container.is_empty()) {
            Some((container, image)) => {
                // Of two for the same container the last one counts.
                pairs.retain(|pair| pair.container != container);
                pairs.push(Pair { container: container.to_owned(), image: image.to_owned() });
            }
            None => broken.push(word.as_str()),
        }
    }
    if !broken.is_empty() {
        return Err(format!("invalid image format: {}", broken.join(", ")));
    }
    Ok((objects, pairs))
}

/// What becomes of one object.
#[derive(Debug, PartialEq)]
struct Plan {
    /// RFC 6902; each change makes sure that it meets the container it was made for.
    patch: Vec<Value>,
    changed: Object,
    /// Containers that are named and not there.
    missing: Vec<String>,
}

fn plan(kind: &Kind, object: &Object, pairs: &[Pair]) -> Result<Plan, String> {
    let spec: &[&str] = match kind.kind {
        "Pod" => &["spec"],
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" | "ReplicationController" | "Job" => {
            &["spec", "template", "spec"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => {
            return Err(format!(
                "{}/{} the object is not a pod or does not have a pod template: *{}.{}",
                kind.plural,
                object.name(),
                kind.version,
                kind.kind
            ));
        }
    };
    let mut plan = Plan { patch: Vec::new(), changed: object.clone(), missing: Vec::new() };
    for pair in pairs {
        let mut is_there = false;
        for field in ["initContainers", "containers"] {
            let path = [spec, &[field]].concat();
            if object.at(&path).is_none() {
                continue;
            }
            let containers = plan.changed.at_mut(&path).as_array_mut();
            for (index, container) in containers.into_iter().flatten().enumerate() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                if pair.container != "*" && pair.container != name {
                    continue;
                }
                is_there = true;
                if container["image"] == pair.image {
                    continue;
                }
                container["image"] = pair.image.as_str().into();
                let at = format!("/{}/{index}", path.join("/"));
                plan.patch.push(json!({"op": "test", "path": format!("{at}/name"), "value": name}));
                plan.patch.push(json!({"op": "add", "path": format!("{at}/image"), "value": pair.image}));
            }
        }
        if !is_there {
            plan.missing.push(pair.container.clone());
        }
    }
    Ok(plan)
}

/// Writes the change, and gives the object as it is then.
async fn update(args: &ImageArgs, session: &Session, chosen: &Chosen, plan: &Plan) -> Result<Object, Failure> {
    if args.dry_run == DryRun::Client {
        return Ok(plan.changed.clone());
    }
    let params = write_params("kubectl-set", args.dry_run, Validation::Strict);
    let patch = Patch::Json(Value::Array(plan.patch.clone()));
    let patched = session.api(chosen.kind).patch_with(&chosen.key(), "", &patch, &params).await;
    patched.map(|cached| cached.object).map_err(|error| match error {
        Error::Status(status) => {
            Failure::plain(format!("failed to patch image update to pod template: {}", status.message))
        }
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn pairs(text: &str) -> Vec<Pair> {
        split(&words(text)).expect("pairs").1
    }

    fn deployment() -> Object {
        let value = json!({
            "metadata": {"name": "web"},
            "spec": {"template": {"spec": {
                "initContainers": [{"name": "init", "image": "i:1"}],
                "containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}],
            }}},
        });
        Object::from_value(value).expect("a map")
    }

    fn check(text: &str) -> Plan {
        plan(Kind::by_name("deploy").expect("known"), &deployment(), &pairs(text)).expect("a template")
    }

    #[test]
    fn words_are_objects_and_then_images() {
        let all = words("deploy/web rs/old a=nginx:1.29 b=");
        let (objects, images) = split(&all).expect("good");
        assert_eq!(objects, words("deploy/web rs/old"));
        assert_eq!(images.iter().map(|p| p.image.as_str()).collect::<Vec<_>>(), ["nginx:1.29", ""]);
        assert_eq!(pairs("a=1 a=2").len(), 1, "the last one counts");
        let late = split(&words("deploy/web a=1 rs/old")).expect_err("an object behind an image");
        assert_eq!(late, "all resources must be specified before image changes: rs/old");
        assert_eq!(split(&words("deploy/web a-")).expect_err("no removal"), "invalid image format: a-");
    }

    #[test]
    fn images_change_where_they_are_named() {
        let one = check("b=b:2");
        assert_eq!(
            one.patch,
            [
                json!({"op": "test", "path": "/spec/template/spec/containers/1/name", "value": "b"}),
                json!({"op": "add", "path": "/spec/template/spec/containers/1/image", "value": "b:2"}),
            ]
        );
        assert_eq!(one.changed.at(&["spec", "template", "spec", "containers"]).expect("there")[1]["image"], "b:2");
        assert_eq!(check("*=x").patch.len(), 6, "init containers too");
        assert_eq!(check("a=a:1").patch, Vec::<Value>::new(), "nothing changes");
        let absent = check("c=1 a=a:2");
        assert_eq!((absent.missing, absent.patch.len()), (vec!["c".to_owned()], 2));
    }

    #[test]
    fn what_has_no_containers_is_refused() {
        let map = Object::from_value(json!({"metadata": {"name": "x"}})).expect("a map");
        let error = plan(Kind::by_name("configmap").expect("known"), &map, &pairs("a=b")).expect_err("no containers");
        assert_eq!(error, "configmaps/x the object is not a pod or does not have a pod template: *v1.ConfigMap");
    }
}
