//! How far a rollout is, in kubectl's words, and waiting until it is done.

use std::io::{self, Write};
use std::time::Duration;

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
    if chosen.kind.kind != "Deployment" {
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
            Sighting::There(object) => stage(&object, wanted.revision).map_err(Failure::plain)?,
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
            .map_err(|why| format!("cannot get the revision of deployment {name:?}: {why}"))?;
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
        return Err(format!("deployment {name:?} exceeded its progress deadline"));
    }
    let (updated, replicas, available) = (status("updatedReplicas"), status("replicas"), status("availableReplicas"));
    let waiting = format!("Waiting for deployment {name:?} rollout to finish:");
    let wanted = deployment.int(&["spec", "replicas"]).unwrap_or(0);
    Ok(if updated < wanted {
        Stage::Going(format!("{waiting} {updated} out of {wanted} new replicas have been updated..."))
    } else if replicas > updated {
        Stage::Going(format!("{waiting} {} old replicas are pending termination...", replicas - updated))
    } else if available < updated {
        Stage::Going(format!("{waiting} {available} of {updated} updated replicas are available..."))
    } else {
        Stage::Done(format!("deployment {name:?} successfully rolled out"))
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
