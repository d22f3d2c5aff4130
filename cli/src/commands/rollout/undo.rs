//! Back to an earlier revision: its template and annotations become the Deployment's again.

use std::io::{self, Write};

use listwatch_components::client::{Error, Patch};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Map, Value, json};

use super::controlled;
use super::history::{Revisions, group_kind, of_deployment, template_of};
use super::status::REVISION;
use crate::commands::apply::LAST_APPLIED;
use crate::commands::describe::pod_template;
use crate::commands::failure::Failure;
use crate::commands::selection::Chosen;
use crate::commands::session::{Session, full_name};
use crate::commands::writing::{DryRun, Validation, write_params};

/// The label by which a Deployment tells its sets' pods apart; no part of the template.
const HASH: &str = "pod-template-hash";
/// Annotations that stay the Deployment's own.
const OWN: &[&str] = &[
    LAST_APPLIED,
    REVISION,
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];

/// Rolls a Deployment back and says so.
pub(super) async fn undo(session: &Session, chosen: &Chosen, to_revision: i64, dry_run: DryRun) -> Result<(), Failure> {
    if controlled::is_controlled(chosen) {
        return controlled::undo(session, chosen, to_revision, dry_run).await;
    }
    if chosen.kind.kind != "Deployment" {
        let problem = format!("no rollbacker has been implemented for {}", quote(&group_kind(chosen)));
        return Err(Failure::plain(problem));
    }
    let deployment = &chosen.object;
    let revisions = of_deployment(session, deployment).await?;
    let outcome = match plan(deployment, &revisions, to_revision, dry_run).map_err(Failure::plain)? {
        Plan::Say(text) => text,
        Plan::Patch(patch) => {
            let params = write_params("kubectl-rollout", dry_run, Validation::Strict);
            let patched = session.api(chosen.kind).patch_with(&chosen.key(), "", &Patch::Json(patch), &params).await;
            patched.map_err(|error| failed(to_revision, error))?;
            "rolled back".to_owned()
        }
    };
    let name = full_name(chosen.kind, deployment.name());
    writeln!(io::stdout().lock(), "{name} {outcome}{}", dry_run.suffix())?;
    Ok(())
}

pub(super) fn failed(to_revision: i64, error: Error) -> Failure {
    match error {
        Error::Status(status) => Failure::plain(format!("failed restoring revision {to_revision}: {}", status.message)),
        other => other.into(),
    }
}

/// What a rollback comes to.
#[derive(Debug, PartialEq)]
enum Plan {
    /// Nothing is to be written.
    Say(String),
    /// RFC 6902.
    Patch(Value),
}

fn plan(deployment: &Object, revisions: &Revisions, to_revision: i64, dry_run: DryRun) -> Result<Plan, String> {
    let set = pick(deployment, revisions, to_revision)?;
    let mut template = template_of(set);
    if dry_run == DryRun::Client {
        return Ok(Plan::Say(pod_template(&template)));
    }
    if deployment.flag(&["spec", "paused"]) {
        let lw = crate::usage::program();
        return Err(format!(
            "you cannot rollback a paused deployment; resume it first with '{lw} rollout resume' and try again"
        ));
    }
    template.remove(&["metadata", "labels", HASH]);
    if same(&template, &template_of(deployment)) {
        let text = format!("skipped rollback (current template already matches revision {to_revision})");
        return Ok(Plan::Say(text));
    }
    let is_own = |key: &str| OWN.contains(&key);
    let kept = deployment.annotations().filter(|(key, _)| is_own(key));
    let brought = set.annotations().filter(|(key, _)| !is_own(key));
    let annotations: Map<String, Value> =
        kept.chain(brought).map(|(key, value)| (key.to_owned(), value.into())).collect();
    Ok(Plan::Patch(json!([
        {"op": "replace", "path": "/spec/template", "value": template.into_value()},
        // To add replaces what is there, and needs nothing to be there.
        {"op": "add", "path": "/metadata/annotations", "value": annotations},
    ])))
}

/// The set of the revision; for 0 that of the last but one.
fn pick<'a>(deployment: &Object, revisions: &'a Revisions, to_revision: i64) -> Result<&'a Object, String> {
    if to_revision == 0 {
        let before = revisions.values().rev().nth(1);
        return before.ok_or_else(|| format!("no rollout history found for deployment {}", quote(&deployment.name())));
    }
    let unknown = || format!("unable to find specified revision {to_revision} in history");
    revisions.get(&to_revision).ok_or_else(unknown)
}

/// Whether two templates mean the same: what is empty is as what is not there.
pub(super) fn same(a: &Object, b: &Object) -> bool {
    let bare = |template: &Object| {
        let mut value = template.clone().into_value();
        prune(&mut value);
        value
    };
    bare(a) == bare(b)
}

fn prune(value: &mut Value) {
    let is_empty = |v: &Value| match v {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune);
            // An empty source of a volume says which source it is, so only what stands for nothing goes.
            map.retain(|key, v| !is_empty(v) || key == "emptyDir");
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotations: Value, labels: Value, image: &str) -> Object {
        let value = json!({
            "metadata": {"name": "loom", "annotations": annotations},
            "spec": {"template": {
                "metadata": {"labels": labels, "creationTimestamp": null},
                "spec": {"containers": [{"name": "a", "image": image, "resources": {}}]},
            }},
        });
        Object::from_value(value).expect("a map")
    }

    fn deployment() -> Object {
        object(json!({REVISION: "3", LAST_APPLIED: "{}", "why": "new"}), json!({"t": "loom"}), "a:3")
    }

    fn revisions() -> Revisions {
        let set = |number: &str, why: &str, image: &str| {
            let annotations = json!({REVISION: number, "deployment.kubernetes.io/max-replicas": "4", "why": why});
            object(annotations, json!({"t": "loom", HASH: "abc"}), image)
        };
        Revisions::from([(1, set("1", "old", "a:1")), (2, set("2", "mid", "a:2")), (3, set("3", "new", "a:3"))])
    }

    fn check(to_revision: i64) -> Result<Plan, String> {
        plan(&deployment(), &revisions(), to_revision, DryRun::None)
    }

    #[test]
    fn a_rollback_brings_the_template_and_keeps_the_deployments_own_annotations() {
        let Ok(Plan::Patch(patch)) = check(0) else { panic!("a patch") };
        assert_eq!(patch[0]["value"]["spec"]["containers"][0]["image"], "a:2", "the last but one");
        assert_eq!(patch[0]["value"]["metadata"]["labels"], json!({"t": "loom"}), "without the hash");
        assert_eq!(patch[1]["value"], json!({REVISION: "3", LAST_APPLIED: "{}", "why": "mid"}));
        let Ok(Plan::Patch(patch)) = check(1) else { panic!("a patch") };
        assert_eq!(patch[0]["value"]["spec"]["containers"][0]["image"], "a:1");
    }

    /// As recorded.
    #[test]
    fn there_may_be_nothing_to_go_back_to() {
        let skipped = "skipped rollback (current template already matches revision 3)".to_owned();
        assert_eq!(check(3), Ok(Plan::Say(skipped)));
        assert_eq!(check(44), Err("unable to find specified revision 44 in history".to_owned()));
        assert_eq!(check(-1), Err("unable to find specified revision -1 in history".to_owned()));
        let mut one = revisions();
        one.retain(|number, _| *number == 3);
        let error = plan(&deployment(), &one, 0, DryRun::None).expect_err("nothing before");
        assert_eq!(error, "no rollout history found for deployment \"loom\"");
    }

    #[test]
    fn a_paused_deployment_is_not_rolled_back_but_shown() {
        let mut paused = deployment();
        paused.set(&["spec", "paused"], true);
        let error = plan(&paused, &revisions(), 1, DryRun::Server).expect_err("paused");
        assert!(error.starts_with("you cannot rollback a paused deployment"), "{error}");
        let Ok(Plan::Say(text)) = plan(&paused, &revisions(), 1, DryRun::Client) else { panic!("a text") };
        assert!(text.starts_with("Pod Template:\n  Labels:\tpod-template-hash=abc\n"), "{text}");
    }
}
