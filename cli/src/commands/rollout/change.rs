//! Restart, pause and resume: small changes of a Deployment that each make sense in one state alone.

use std::io::{self, Write};

use jiff::Zoned;
use listwatch_components::client::{Error, Patch};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::commands::failure::Failure;
use crate::commands::selection::Chosen;
use crate::commands::session::{Session, full_name};
use crate::commands::writing::{DryRun, Validation, write_params};

/// The annotation whose change replaces every pod (kubectl's own).
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Restart,
    Pause,
    Resume,
}

impl Change {
    /// What is said of a kind that does not know this.
    fn gerund(self) -> &'static str {
        match self {
            Change::Restart => "restarting",
            Change::Pause => "pausing",
            Change::Resume => "resuming",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Change::Restart => "restarted",
            Change::Pause => "paused",
            Change::Resume => "resumed",
        }
    }
}

/// Changes one object and says so.
pub(super) async fn apply(session: &Session, chosen: &Chosen, change: Change) -> Result<(), Failure> {
    let (kind, object) = (chosen.kind, &chosen.object);
    let now = Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let restarts = matches!((kind.kind, change), ("DaemonSet" | "StatefulSet", Change::Restart));
    let planned = if kind.kind == "Deployment" || restarts {
        plan(object, change, &now)
    } else {
        Err(format!("{} is not supported", change.gerund()))
    };
    let patch = planned.map_err(|why| Failure::plain(format!("{} {} {why}", kind.name(), quote(&object.name()))))?;
    let params = write_params("kubectl-rollout", DryRun::None, Validation::Strict);
    let patched = session.api(kind).patch_with(&chosen.key(), "", &Patch::Merge(patch), &params).await;
    patched.map_err(|error| match error {
        Error::Status(status) => Failure::plain(format!("failed to patch: {}", status.message)),
        other => other.into(),
    })?;
    writeln!(io::stdout().lock(), "{} {}", full_name(kind, object.name()), change.done())?;
    Ok(())
}

/// The merge patch, or why there can be none.
fn plan(deployment: &Object, change: Change, now: &str) -> Result<Value, String> {
    let is_paused = deployment.flag(&["spec", "paused"]);
    match change {
        Change::Restart if is_paused => Err("can't restart paused deployment (run rollout resume first)".to_owned()),
        Change::Restart if deployment.text(&["spec", "template", "metadata", "annotations", RESTARTED_AT]) == now => {
            Err("has been restarted within the past second: wait before restarting it again".to_owned())
        }
        Change::Restart => Ok(json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: now}}}}})),
        Change::Pause if is_paused => Err("is already paused".to_owned()),
        Change::Pause => Ok(json!({"spec": {"paused": true}})),
        Change::Resume if !is_paused => Err("is not paused".to_owned()),
        Change::Resume => Ok(json!({"spec": {"paused": null}})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_makes_sense_in_one_state_alone() {
        let deployment = |paused: bool| {
            let template = json!({"metadata": {"annotations": {RESTARTED_AT: "then"}}});
            Object::from_value(json!({"spec": {"paused": paused, "template": template}})).expect("a map")
        };
        let check = |paused: bool, change, now: &str| plan(&deployment(paused), change, now);
        assert_eq!(check(false, Change::Pause, ""), Ok(json!({"spec": {"paused": true}})));
        assert_eq!(check(true, Change::Pause, ""), Err("is already paused".to_owned()));
        assert_eq!(check(true, Change::Resume, ""), Ok(json!({"spec": {"paused": null}})));
        assert_eq!(check(false, Change::Resume, ""), Err("is not paused".to_owned()));
        let restarted = check(false, Change::Restart, "now").expect("a patch");
        assert_eq!(restarted["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT], "now");
        let error = check(true, Change::Restart, "now").expect_err("paused");
        assert_eq!(error, "can't restart paused deployment (run rollout resume first)");
        assert!(check(false, Change::Restart, "then").is_err(), "the pods would stay");
    }
}
