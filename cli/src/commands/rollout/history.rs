//! The revisions of a Deployment: its ReplicaSets, by the number that the controller gave each. (Those of other kinds
//! are in [`super::controlled`].)

use std::collections::BTreeMap;
use std::io::{self, Write};

use listwatch_components::client::ListParams;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{LabelSelector, Object};
use serde_json::Value;

use super::controlled;
use super::status::running_revision;
use crate::commands::describe::{align, pod_template};
use crate::commands::failure::Failure;
use crate::commands::selection::Chosen;
use crate::commands::session::{Session, full_name, kind_named};
use crate::terminal::escaped;

/// Why a revision came to be, as a person wrote it.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// The sets of a Deployment by revision.
pub(super) type Revisions = BTreeMap<i64, Object>;

/// Prints the list of revisions, or one of them.
pub(super) async fn show(session: &Session, chosen: &Chosen, revision: i64) -> Result<(), Failure> {
    let revisions = if controlled::is_controlled(chosen) {
        controlled::revisions(session, &chosen.object).await?
    } else if chosen.kind.kind == "Deployment" {
        of_deployment(session, &chosen.object).await?
    } else {
        let problem = format!("no history viewer has been implemented for {}", quote(&group_kind(chosen)));
        return Err(Failure::plain(problem));
    };
    let text = text(&revisions, revision).map_err(Failure::plain)?;
    let head = if revision > 0 { format!("with revision #{revision}") } else { String::new() };
    let text = escaped(&text);
    writeln!(io::stdout().lock(), "{} {head}\n{text}", full_name(chosen.kind, chosen.object.name()))?;
    Ok(())
}

/// `ReplicaSet.apps`, `Pod`.
pub(super) fn group_kind(chosen: &Chosen) -> String {
    let (kind, group) = (chosen.kind.kind, chosen.kind.group);
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// The sets that a Deployment controls, by revision.
pub(super) async fn of_deployment(session: &Session, deployment: &Object) -> Result<Revisions, Failure> {
    let selector = deployment.at(&["spec", "selector"]).unwrap_or(&Value::Null);
    let selector = LabelSelector::from_json(selector).map_err(|e| Failure::plain(e.to_string()))?;
    let params = ListParams::in_namespace(deployment.namespace());
    let list = session.api(kind_named("replicasets")?).list(&params).await?;
    let mine = |set: &Object| {
        selector.matches_object(set) && set.controller().is_some_and(|owner| owner.uid == deployment.uid())
    };
    let sets = list.items.into_iter().map(|cached| cached.object).filter(mine);
    // A number that is none counts for nothing, as with kubectl.
    Ok(sets.filter_map(|set| Some((running_revision(&set).ok()?, set))).collect())
}

/// What kubectl prints of a history.
fn text(revisions: &Revisions, revision: i64) -> Result<String, String> {
    if revisions.is_empty() {
        return Ok("No rollout history found.".to_owned());
    }
    if revision > 0 {
        let set = revisions.get(&revision).ok_or("unable to find the specified revision")?;
        let mut template = template_of(set);
        if let Some(cause) = set.annotation(CHANGE_CAUSE).filter(|cause| !cause.is_empty()) {
            template.set(&["metadata", "annotations", CHANGE_CAUSE], cause);
        }
        return Ok(pod_template(&template));
    }
    let mut lines = "REVISION\tCHANGE-CAUSE\n".to_owned();
    for (number, set) in revisions {
        let cause = set.annotation(CHANGE_CAUSE).filter(|cause| !cause.is_empty()).unwrap_or("<none>");
        lines.push_str(&format!("{number}\t{cause}\n"));
    }
    Ok(align(&lines))
}

/// The pod template of a set or a Deployment.
pub(super) fn template_of(object: &Object) -> Object {
    let template = object.at(&["spec", "template"]).cloned().unwrap_or_default();
    Object::from_value(template).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(cause: Option<&str>, image: &str) -> Object {
        let annotations = cause.map_or(json!({}), |cause| json!({CHANGE_CAUSE: cause}));
        let value = json!({
            "metadata": {"name": "loom-1", "annotations": annotations},
            "spec": {"template": {
                "metadata": {"labels": {"t": "loom"}},
                "spec": {"containers": [{"name": "a", "image": image}]},
            }},
        });
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn a_history_reads_as_recorded() {
        let revisions = Revisions::from([(3, set(Some("start here"), "a:1")), (2, set(None, "a:2"))]);
        let list = text(&revisions, 0).expect("a list");
        assert_eq!(list, "REVISION  CHANGE-CAUSE\n2         <none>\n3         start here\n");
        let one = text(&revisions, 3).expect("there");
        assert!(one.contains("  Annotations:\tkubernetes.io/change-cause: start here\n"), "{one}");
        assert!(one.contains("    Image:\ta:1\n"), "{one}");
        assert!(!text(&revisions, 2).expect("there").contains("Annotations"));
        assert_eq!(text(&revisions, 9), Err("unable to find the specified revision".to_owned()));
        assert_eq!(text(&Revisions::new(), 0), Ok("No rollout history found.".to_owned()));
    }
}
