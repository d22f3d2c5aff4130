//! How far a rollout is, in kubectl's words, and waiting until it is done.

use std::io::{self, Write};
use std::time::Duration;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;

use crate::commands::failure::Failure;
use crate::commands::follow::{Follow, Sighting};
use crate::commands::progress::Waiting;
use crate::commands::selection::Chosen;
use crate::commands::session::Session;
use crate::terminal::escaped;

/// The annotation that tells which revision a Deployment is at.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";

/// What is asked for.
#[derive(Debug)]
pub(super) struct Wanted {
    /// 0: any.
    pub(super) revision: i64,
    /// Until it is done.
    pub(super) watch: bool,
}

/// How far a rollout is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Done(String),
    Going(String),
}

/// Says how far the rollout is, until it is done. A stage is said once, however often its object changes.
pub(super) async fn show(
    session: &Session,
    chosen: &Chosen,
    wanted: &Wanted,
    timeout: Duration,
) -> Result<(), Failure> {
    if !matches!(chosen.kind.kind, "Deployment" | "DaemonSet" | "StatefulSet") {
        let problem = format!("no status viewer has been implemented for {}", chosen.kind.kind);
        return Err(Failure::plain(problem));
    }
    let wait = follow(session, chosen, wanted);
    if timeout.is_zero() {
        return wait.await;
    }
    let late = |_| Err(Failure::plain("timed out waiting for the condition"));
    tokio::time::timeout(timeout, wait).await.unwrap_or_else(late)
}

async fn follow(session: &Session, chosen: &Chosen, wanted: &Wanted) -> Result<(), Failure> {
    let mut follow = Follow::object(session, chosen.kind, &chosen.key());
    let waiting = Waiting::begin(format!("rollout of {}", chosen.object.name()));
    let mut said = String::new();
    loop {
        let stage = match follow.next().await? {
            Sighting::There(object) => match chosen.kind.kind {
                "DaemonSet" => daemon_stage(&object),
                "StatefulSet" => stateful_stage(&object),
                _ => stage(&object, wanted.revision),
            }
            .map_err(Failure::plain)?,
            Sighting::Gone => return Err(Failure::plain("object has been deleted")),
        };
        let (text, is_over) = match stage {
            Stage::Done(text) => (text, true),
            Stage::Going(text) => (text, !wanted.watch),
        };
        if text != said {
            waiting.aside(|| writeln!(io::stdout().lock(), "{}", escaped(&text)))?;
        }
        if is_over {
            return Ok(());
        }
        said = text;
    }
}

/// kubectl's rules and words.
fn stage(deployment: &Object, revision: i64) -> Result<Stage, String> {
    let name = deployment.name();
    if revision > 0 {
        let running = running_revision(deployment)
            .map_err(|why| format!("cannot get the revision of deployment {name}: {why}", name = quote(&name)))?;
        if revision != running {
            return Err(format!("desired revision ({revision}) is different from the running revision ({running})"));
        }
    }
    let status = |field: &str| deployment.int(&["status", field]).unwrap_or(0);
    if deployment.generation() > status("observedGeneration") {
        return Ok(Stage::Going("Waiting for deployment spec update to be observed...".to_owned()));
    }
    let is_late = |condition: &serde_json::Value| condition["reason"] == "ProgressDeadlineExceeded";
    if deployment.condition("Progressing").is_some_and(is_late) {
        return Err(format!("deployment {} exceeded its progress deadline", quote(&name)));
    }
    let (updated, replicas, available) = (status("updatedReplicas"), status("replicas"), status("availableReplicas"));
    let waiting = format!("Waiting for deployment {} rollout to finish:", quote(&name));
    let wanted = deployment.int(&["spec", "replicas"]).unwrap_or(0);
    Ok(if updated < wanted {
        Stage::Going(format!("{waiting} {updated} out of {wanted} new replicas have been updated..."))
    } else if replicas > updated {
        Stage::Going(format!("{waiting} {} old replicas are pending termination...", replicas - updated))
    } else if available < updated {
        Stage::Going(format!("{waiting} {available} of {updated} updated replicas are available..."))
    } else {
        Stage::Done(format!("deployment {} successfully rolled out", quote(&name)))
    })
}

/// The strategy that has stages.
fn must_roll(object: &Object) -> Result<(), String> {
    if object.text(&["spec", "updateStrategy", "type"]) == "RollingUpdate" {
        return Ok(());
    }
    Err("rollout status is only available for RollingUpdate strategy type".to_owned())
}

fn daemon_stage(set: &Object) -> Result<Stage, String> {
    must_roll(set)?;
    let status = |field: &str| set.int(&["status", field]).unwrap_or(0);
    if set.generation() > status("observedGeneration") {
        return Ok(Stage::Going("Waiting for daemon set spec update to be observed...".to_owned()));
    }
    let name = set.name();
    let waiting = format!("Waiting for daemon set {} rollout to finish:", quote(&name));
    let (updated, available) = (status("updatedNumberScheduled"), status("numberAvailable"));
    let wanted = status("desiredNumberScheduled");
    Ok(if updated < wanted {
        Stage::Going(format!("{waiting} {updated} out of {wanted} new pods have been updated..."))
    } else if available < wanted {
        Stage::Going(format!("{waiting} {available} of {wanted} updated pods are available..."))
    } else {
        Stage::Done(format!("daemon set {} successfully rolled out", quote(&name)))
    })
}

fn stateful_stage(set: &Object) -> Result<Stage, String> {
    must_roll(set)?;
    let status = |field: &str| set.int(&["status", field]).unwrap_or(0);
    let seen = status("observedGeneration");
    if seen == 0 || set.generation() > seen {
        return Ok(Stage::Going("Waiting for statefulset spec update to be observed...".to_owned()));
    }
    let wanted = set.int(&["spec", "replicas"]).unwrap_or(1);
    if status("readyReplicas") < wanted {
        return Ok(Stage::Going(format!("Waiting for {} pods to be ready...", wanted - status("readyReplicas"))));
    }
    let updated = status("updatedReplicas");
    if set.at(&["spec", "updateStrategy", "rollingUpdate"]).is_some() {
        let partition = set.int(&["spec", "updateStrategy", "rollingUpdate", "partition"]).unwrap_or(0);
        let new = wanted - partition;
        return Ok(if updated < new {
            Stage::Going(format!(
                "Waiting for partitioned roll out to finish: {updated} out of {new} new pods have been updated..."
            ))
        } else {
            Stage::Done(format!("partitioned roll out complete: {updated} new pods have been updated..."))
        });
    }
    let (update, current) = (set.text(&["status", "updateRevision"]), set.text(&["status", "currentRevision"]));
    Ok(if update == current {
        let count = status("currentReplicas");
        Stage::Done(format!("statefulset rolling update complete {count} pods at revision {current}..."))
    } else {
        Stage::Going(format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision {update}..."
        ))
    })
}

/// The number in the revision annotation; without one it is 0.
pub(super) fn running_revision(object: &Object) -> Result<i64, std::num::ParseIntError> {
    object.annotation(REVISION).map_or(Ok(0), str::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn deployment(replicas: i64, status: Value) -> Object {
        let value = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "loom", "generation": 4, "annotations": {REVISION: "4"}},
            "spec": {"replicas": replicas}, "status": status,
        });
        Object::from_value(value).expect("a map")
    }

    fn check(replicas: i64, status: Value, expected: Stage) {
        assert_eq!(stage(&deployment(replicas, status), 0), Ok(expected));
    }

    #[test]
    fn each_stage_has_kubectls_words() {
        let going = |text: &str| Stage::Going(text.to_owned());
        check(3, json!({"observedGeneration": 3}), going("Waiting for deployment spec update to be observed..."));
        check(
            3,
            json!({"observedGeneration": 4, "updatedReplicas": 1, "replicas": 4}),
            going("Waiting for deployment \"loom\" rollout to finish: 1 out of 3 new replicas have been updated..."),
        );
        check(
            3,
            json!({"observedGeneration": 4, "updatedReplicas": 3, "replicas": 5}),
            going("Waiting for deployment \"loom\" rollout to finish: 2 old replicas are pending termination..."),
        );
        check(
            3,
            json!({"observedGeneration": 4, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 1}),
            going("Waiting for deployment \"loom\" rollout to finish: 1 of 3 updated replicas are available..."),
        );
        let done = json!({"observedGeneration": 4, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3});
        check(3, done, Stage::Done("deployment \"loom\" successfully rolled out".to_owned()));
        check(
            0,
            json!({"observedGeneration": 4}),
            Stage::Done("deployment \"loom\" successfully rolled out".to_owned()),
        );
    }

    #[test]
    fn stages_of_other_sets_have_kubectls_words() {
        let set = |spec: Value, status: Value| {
            let value = json!({"metadata": {"name": "moth", "generation": 2}, "spec": spec, "status": status});
            Object::from_value(value).expect("a map")
        };
        let rolling = json!({"updateStrategy": {"type": "RollingUpdate"}});
        let counts = |updated: i64, available: i64| {
            json!({
                "observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated,
                "numberAvailable": available,
            })
        };
        let daemon = |updated, available| daemon_stage(&set(rolling.clone(), counts(updated, available)));
        let going = |text: &str| Ok(Stage::Going(text.to_owned()));
        let begin = "Waiting for daemon set \"moth\" rollout to finish:";
        assert_eq!(daemon(1, 2), going(&format!("{begin} 1 out of 2 new pods have been updated...")));
        assert_eq!(daemon(2, 1), going(&format!("{begin} 1 of 2 updated pods are available...")));
        assert_eq!(daemon(2, 2), Ok(Stage::Done("daemon set \"moth\" successfully rolled out".to_owned())));
        assert!(daemon_stage(&set(json!({"updateStrategy": {"type": "OnDelete"}}), counts(2, 2))).is_err());
        let partitioned = json!({
            "replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
        });
        let stateful = |ready: i64, updated: i64| {
            let status = json!({"observedGeneration": 2, "readyReplicas": ready, "updatedReplicas": updated});
            stateful_stage(&set(partitioned.clone(), status))
        };
        assert_eq!(stateful(1, 0), going("Waiting for 2 pods to be ready..."));
        let text = "Waiting for partitioned roll out to finish: 0 out of 1 new pods have been updated...";
        assert_eq!(stateful(3, 0), going(text));
        let text = "partitioned roll out complete: 1 new pods have been updated...";
        assert_eq!(stateful(3, 1), Ok(Stage::Done(text.to_owned())));
    }

    #[test]
    fn a_rollout_that_is_late_or_of_another_revision_is_a_failure() {
        let late = json!({
            "observedGeneration": 4,
            "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
        });
        let error = stage(&deployment(3, late), 0).expect_err("late");
        assert_eq!(error, "deployment \"loom\" exceeded its progress deadline");
        // As recorded.
        let error = stage(&deployment(3, json!({"observedGeneration": 4})), 1).expect_err("another");
        assert_eq!(error, "desired revision (1) is different from the running revision (4)");
        assert!(stage(&deployment(0, json!({"observedGeneration": 4})), 4).is_ok());
    }
}
