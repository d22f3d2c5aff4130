//! DaemonSets and StatefulSets: their revisions are ControllerRevisions, which hold the template as a patch.

use std::io::{self, Write};

use listwatch_components::client::{ListParams, Patch};
use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::history::{self, Revisions};
use super::undo::{failed, same};
use crate::commands::describe::pod_template;
use crate::commands::failure::Failure;
use crate::commands::selection::Chosen;
use crate::commands::session::{Session, full_name, kind_named};
use crate::commands::writing::{DryRun, Validation, write_params};

/// Whether this kind keeps its revisions so.
pub(super) fn is_controlled(chosen: &Chosen) -> bool {
    chosen.kind.group == "apps" && matches!(chosen.kind.kind, "DaemonSet" | "StatefulSet")
}

/// Its revisions by number, each with the template that it holds.
pub(super) async fn revisions(session: &Session, owner: &Object) -> Result<Revisions, Failure> {
    let selector = owner.at(&["spec", "selector"]).unwrap_or(&Value::Null);
    let selector = LabelSelector::from_json(selector).map_err(|e| Failure::plain(e.to_string()))?;
    let params = ListParams::in_namespace(owner.namespace()).labels(selector.to_string());
    let list = session.api(kind_named("controllerrevisions")?).list(&params).await?;
    let mine = |revision: &Object| revision.controller().is_some_and(|controller| controller.uid == owner.uid());
    let mine = list.items.into_iter().map(|cached| cached.object).filter(mine);
    Ok(mine.map(|revision| (revision.int(&["revision"]).unwrap_or(0), with_template(revision))).collect())
}

/// The revision with its template where a set of a Deployment has it.
fn with_template(mut revision: Object) -> Object {
    let mut template = revision.at(&["data", "spec", "template"]).cloned().unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    revision.set(&["spec", "template"], template);
    revision
}

/// Rolls back and says so.
pub(super) async fn undo(session: &Session, chosen: &Chosen, to_revision: i64, dry_run: DryRun) -> Result<(), Failure> {
    let revisions = revisions(session, &chosen.object).await?;
    let revision = pick(&revisions, to_revision).map_err(Failure::plain)?;
    let template = history::template_of(revision);
    let outcome = if dry_run == DryRun::Client {
        pod_template(&template)
    } else if same(&template, &history::template_of(&chosen.object)) {
        format!("skipped rollback (current template already matches revision {to_revision})")
    } else {
        let patch = Patch::Strategic(revision.at(&["data"]).cloned().unwrap_or_default());
        let params = write_params("kubectl-rollout", dry_run, Validation::Strict);
        let patched = session.api(chosen.kind).patch_with(&chosen.key(), "", &patch, &params).await;
        patched.map_err(|error| failed(to_revision, error))?;
        "rolled back".to_owned()
    };
    let name = full_name(chosen.kind, chosen.object.name());
    Ok(writeln!(io::stdout().lock(), "{name} {outcome}{}", dry_run.suffix())?)
}

/// The revision that is asked for; for 0 the last but one.
fn pick(revisions: &Revisions, to_revision: i64) -> Result<&Object, String> {
    if to_revision == 0 {
        return revisions.values().rev().nth(1).ok_or_else(|| "no last revision to roll back to".to_owned());
    }
    let unknown = || format!("unable to find specified revision {to_revision} in history");
    revisions.get(&to_revision).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn revision(image: &str) -> Object {
        let template = json!({"$patch": "replace", "spec": {"containers": [{"name": "a", "image": image}]}});
        let value = json!({"metadata": {"name": "x"}, "data": {"spec": {"template": template}}});
        with_template(Object::from_value(value).expect("a map"))
    }

    #[test]
    fn a_revision_is_picked_by_number_or_before_the_last() {
        let all = Revisions::from([(1, revision("a:1")), (2, revision("a:2"))]);
        let image =
            |revision: &Object| history::template_of(revision).into_value()["spec"]["containers"][0]["image"].clone();
        assert_eq!(pick(&all, 0).map(image), Ok(json!("a:1")));
        assert_eq!(pick(&all, 2).map(image), Ok(json!("a:2")));
        assert_eq!(pick(&all, 7), Err("unable to find specified revision 7 in history".to_owned()));
        let one = Revisions::from([(1, revision("a:1"))]);
        assert_eq!(pick(&one, 0), Err("no last revision to roll back to".to_owned()));
        assert!(!history::template_of(&revision("a:1")).into_value().to_string().contains("$patch"));
    }
}
