//! What is said of a deployment, as stories.

use super::*;
use crate::controller_manager::deployment::rolling::tests::{deployment, set};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).expect("a time")
}

fn judge(deployment: &Deployment, new: &Set, old: &[Set], seconds: i64) -> Value {
    let all: Vec<Set> = [new].into_iter().chain(old).cloned().collect();
    status(&Facts { deployment, new: Some(new), all: &all, rollout: true, note: None, now: at(seconds) })
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let found = status["conditions"].as_array().and_then(|list| list.iter().find(|c| c["type"] == kind));
    found.unwrap_or(&Value::Null)
}

fn reason(status: &Value) -> &str {
    condition(status, PROGRESSING)["reason"].as_str().unwrap_or("none")
}

#[test]
fn a_rollout_is_told_from_beginning_to_end() {
    let mut web = deployment(2, 1, 0);
    let all = [set("new", 2, 0)];
    let facts = Facts {
        deployment: &web,
        new: Some(&all[0]),
        all: &all,
        rollout: true,
        note: Some(Note::created("new")),
        now: at(0),
    };
    web.status = status(&facts);
    assert_eq!((reason(&web.status), &web.status["unavailableReplicas"]), ("NewReplicaSetCreated", &json!(2)));
    assert_eq!(condition(&web.status, AVAILABLE)["status"], "False");
    web.status = judge(&web, &set("new", 2, 1), &[], 5);
    assert_eq!(reason(&web.status), "ReplicaSetUpdated");
    assert_eq!(condition(&web.status, PROGRESSING)["lastTransitionTime"], time(at(0)));
    assert_eq!(condition(&web.status, PROGRESSING)["lastUpdateTime"], time(at(5)));
    assert_eq!(again_after(&web, &web.status, at(5)), Some(Duration::from_secs(601)));
    web.status = judge(&web, &set("new", 2, 2), &[], 9);
    assert_eq!(reason(&web.status), COMPLETE);
    assert_eq!(condition(&web.status, PROGRESSING)["message"], "ReplicaSet \"new\" has successfully progressed.");
    assert_eq!(condition(&web.status, AVAILABLE)["status"], "True");
    assert_eq!(patch(&web, 1, &judge(&web, &set("new", 2, 2), &[], 99)), None, "nothing new, nothing written");
    assert_eq!(again_after(&web, &web.status, at(99)), None);
    // A pod that is lost after completion is no rollout.
    assert_eq!(reason(&judge(&web, &set("new", 2, 1), &[], 2000)), COMPLETE);
}

#[test]
fn a_set_that_was_there_before_is_told_and_then_measured() {
    let mut web = deployment(2, 1, 0);
    let all = [set("old", 2, 2)];
    let paused = Facts { deployment: &web, new: Some(&all[0]), all: &all, rollout: false, note: None, now: at(0) };
    let found = status(&paused);
    assert_eq!(condition(&found, PROGRESSING)["message"], "Found new replica set \"old\"");
    // Nothing is left to be done: found and complete in one.
    web.status = judge(&web, &all[0], &[], 0);
    assert_eq!(reason(&web.status), COMPLETE);
    let mut broken = deployment(2, 1, 0);
    broken.status = judge(&broken, &set("old", 2, 1), &[], 0);
    assert_eq!(reason(&judge(&broken, &set("old", 2, 1), &[], 700)), TIMED_OUT);
}

#[test]
fn counts_are_sums_over_all_sets() {
    let web = deployment(3, 1, 0);
    let (mut new, mut old) = (set("new", 1, 0), set("old", 3, 3));
    (new.present, new.ready, old.going) = (1, 1, Some(2));
    let told = judge(&web, &new, std::slice::from_ref(&old), 0);
    let expected = json!({"observedGeneration": 1, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 4,
        "availableReplicas": 3, "unavailableReplicas": 1, "terminatingReplicas": 2});
    let counts: serde_json::Map<_, _> =
        told.as_object().expect("a map").clone().into_iter().filter(|(field, _)| field != "conditions").collect();
    assert_eq!(Value::Object(counts), expected);
    new.going = None;
    assert!(judge(&web, &new, &[old], 0).get("terminatingReplicas").is_none(), "nobody has counted");
}

#[test]
fn a_deployment_that_goes_is_only_counted() {
    let mut web = deployment(1, 1, 0);
    (web.terminating, web.paused) = (true, true);
    let facts = Facts { deployment: &web, new: None, all: &[], rollout: false, note: None, now: at(0) };
    assert_eq!((reason(&status(&facts)), &status(&facts)["terminatingReplicas"]), ("none", &json!(0)));
}

#[test]
fn a_set_that_cannot_be_made_is_told() {
    let web = deployment(1, 1, 0);
    let note = Some(Note::create_error("web-5d", &"no room"));
    let told = status(&Facts { deployment: &web, new: None, all: &[], rollout: true, note, now: at(0) });
    let condition = condition(&told, PROGRESSING);
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("ReplicaSetCreateError")));
    assert_eq!(condition["message"], "Failed to create new replica set \"web-5d\": no room");
}

#[test]
fn a_resumed_deployment_is_given_its_whole_time() {
    let mut web = deployment(2, 1, 0);
    web.status = judge(&web, &set("new", 2, 1), &[], 0);
    let judge_paused = |web: &Deployment, seconds| {
        let all = [set("new", 2, 1)];
        let facts =
            Facts { deployment: web, new: Some(&all[0]), all: &all, rollout: false, note: None, now: at(seconds) };
        status(&facts)
    };
    web.paused = true;
    web.status = judge_paused(&web, 500);
    assert_eq!(again_after(&web, &web.status, at(500)), None, "no deadline while paused");
    web.paused = false;
    web.status = judge(&web, &set("new", 2, 1), &[], 5000);
    assert_eq!(reason(&web.status), "DeploymentResumed");
    assert_eq!(again_after(&web, &web.status, at(5000)), Some(Duration::from_secs(601)));
    assert_eq!(reason(&judge(&web, &set("new", 2, 1), &[], 5601)), TIMED_OUT);
    // What has timed out stays so through a pause.
    web.status = judge(&web, &set("new", 2, 1), &[], 5601);
    web.paused = true;
    assert_eq!(reason(&judge_paused(&web, 5700)), TIMED_OUT);
}

#[test]
fn standing_still_too_long_is_told_once() {
    let mut web = deployment(2, 1, 0);
    web.status = judge(&web, &set("new", 2, 1), &[], 0);
    web.status = judge(&web, &set("new", 2, 1), &[], 600);
    assert_eq!(reason(&web.status), "ReplicaSetUpdated");
    web.status = judge(&web, &set("new", 2, 1), &[], 601);
    assert_eq!(reason(&web.status), TIMED_OUT);
    assert_eq!(condition(&web.status, PROGRESSING)["status"], "False");
    assert_eq!(again_after(&web, &web.status, at(601)), None);
    assert_eq!(judge(&web, &set("new", 2, 1), &[], 700), web.status);
    // Progress ends it.
    assert_eq!(reason(&judge(&web, &set("new", 2, 2), &[], 701)), COMPLETE);
}

#[test]
fn a_pause_and_a_failure_are_told() {
    let mut web = deployment(1, 1, 0);
    web.paused = true;
    let facts = |web: &Deployment| {
        status(&Facts { deployment: web, new: None, all: &[], rollout: false, note: None, now: at(0) })
    };
    web.status = facts(&web);
    assert_eq!(reason(&web.status), "DeploymentPaused");
    web.paused = false;
    assert_eq!(reason(&facts(&web)), "DeploymentResumed");
    let mut failing = set("new", 1, 0);
    let failed_at = "2026-01-01T00:00:00Z";
    failing.failure = Some(json!({"type": REPLICA_FAILURE, "status": "True", "reason": "FailedCreate",
        "message": "no", "lastTransitionTime": failed_at}));
    web.status = judge(&web, &failing, &[], 1);
    let told = condition(&web.status, REPLICA_FAILURE);
    assert_eq!((&told["message"], &told["lastUpdateTime"]), (&json!("no"), &json!(failed_at)));
    assert!(condition(&judge(&web, &set("new", 1, 0), &[], 2), REPLICA_FAILURE).is_null());
    web.progress_deadline_seconds = None;
    assert_eq!(reason(&judge(&web, &set("new", 1, 0), &[], 3)), "none");
}
