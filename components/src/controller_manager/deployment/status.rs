//! What is said of a deployment (Kubernetes 1.36, `calculateStatus`, `syncRolloutStatus`).
//!
//! Invariant: a condition is written anew only if its status or reason changes, or if progress was made; so an unchanged
//! deployment gives an unchanged status, and nothing is written.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{parse_time, time};
use serde_json::{Value, json};

use super::{Deployment, Set};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// News for the condition `Progressing` that only the steps can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// `True`, `False`, `Unknown`.
    pub status: &'static str,
    /// `NewReplicaSetCreated`, …
    pub reason: &'static str,
    /// Words for a person.
    pub message: String,
}

impl Note {
    /// A set was made.
    pub fn created(set: &str) -> Self {
        Note {
            status: "True",
            reason: "NewReplicaSetCreated",
            message: format!("Created new replica set {}", quote(&set)),
        }
    }

    /// A set was there already.
    pub fn found(set: &str) -> Self {
        Note { status: "True", reason: "FoundNewReplicaSet", message: format!("Found new replica set {}", quote(&set)) }
    }

    /// A set could not be made.
    pub fn create_error(set: &str, error: &dyn std::fmt::Display) -> Self {
        let message = format!("Failed to create new replica set {set}: {error}", set = quote(&set));
        Note { status: "False", reason: "ReplicaSetCreateError", message }
    }
}

/// What to judge a status by.
pub struct Facts<'a> {
    /// The deployment.
    pub deployment: &'a Deployment,
    /// The set of its present template, if it is there.
    pub new: Option<&'a Set>,
    /// All its sets, that one too.
    pub all: &'a [Set],
    /// Whether a rollout is on its way, so that progress is judged.
    pub rollout: bool,
    /// What only the steps can tell.
    pub note: Option<Note>,
    /// The time of day.
    pub now: Timestamp,
}

/// Conditions under change.
struct Conditions {
    list: Vec<Value>,
    now: String,
}

impl Conditions {
    fn get(&self, kind: &str) -> Option<&Value> {
        self.list.iter().find(|c| c["type"] == kind)
    }

    fn remove(&mut self, kind: &str) {
        self.list.retain(|c| c["type"] != kind);
    }

    /// Sets a condition, unless it stands there with the same status and reason.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        if self.get(kind).is_none_or(|c| c["status"] != status || c["reason"] != reason) {
            self.renew(kind, status, reason, message);
        }
    }

    /// Takes over the condition of a set, with the time at which it came about there.
    fn take_over(&mut self, kind: &str, from: &Value) {
        if self.get(kind).is_some_and(|c| c["status"] == from["status"] && c["reason"] == from["reason"]) {
            return;
        }
        let mut condition = from.clone();
        condition["type"] = kind.into();
        condition["lastUpdateTime"] = from["lastTransitionTime"].clone();
        self.remove(kind);
        self.list.push(condition);
    }

    /// Sets a condition with a fresh time of update.
    fn renew(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let held = self.get(kind).filter(|c| c["status"] == status).map(|c| c["lastTransitionTime"].clone());
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastUpdateTime": self.now, "lastTransitionTime": held.unwrap_or_else(|| self.now.clone().into()),
        });
        self.remove(kind);
        self.list.push(condition);
    }
}

/// The status as it is to be.
pub fn status(facts: &Facts<'_>) -> Value {
    let deployment = facts.deployment;
    let mut status = counts(facts);
    let held = deployment.status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = Conditions { list: held, now: time(facts.now) };
    availability(deployment, number(&status, "availableReplicas"), &mut conditions);
    if !deployment.terminating {
        progressing(facts, &status, &mut conditions);
    }
    if facts.rollout {
        match facts.new.into_iter().chain(facts.all).find_map(|set| set.failure.as_ref()) {
            Some(failure) => conditions.take_over(REPLICA_FAILURE, failure),
            None => conditions.remove(REPLICA_FAILURE),
        }
    }
    if !conditions.list.is_empty() {
        status["conditions"] = conditions.list.into();
    }
    status
}

/// How the rollout gets on, if that is measured at all.
fn progressing(facts: &Facts<'_>, status: &Value, conditions: &mut Conditions) {
    let deployment = facts.deployment;
    if deployment.progress_deadline_seconds.is_none() {
        return conditions.remove(PROGRESSING);
    }
    pause(deployment, conditions);
    // A set that was there before the deployment: from now on its progress is measured.
    if let Some(new) = facts.new.filter(|_| facts.note.is_none() && conditions.get(PROGRESSING).is_none()) {
        let found = Note::found(&new.key.name);
        conditions.set(PROGRESSING, found.status, found.reason, &found.message);
    }
    if let Some(note) = &facts.note {
        conditions.set(PROGRESSING, note.status, note.reason, &note.message);
    } else if facts.rollout {
        progress(facts, status, conditions);
    }
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

fn counts(facts: &Facts<'_>) -> Value {
    let sum = |count: fn(&Set) -> i64| facts.all.iter().map(count).sum::<i64>();
    let available = sum(|set| set.available);
    let mut status = json!({"observedGeneration": facts.deployment.generation});
    for (field, count) in [
        ("replicas", sum(|set| set.present)),
        ("updatedReplicas", facts.new.map_or(0, |set| set.present)),
        ("readyReplicas", sum(|set| set.ready)),
        ("availableReplicas", available),
        ("unavailableReplicas", (sum(|set| set.replicas) - available).max(0)),
        ("collisionCount", facts.deployment.collisions),
    ] {
        if count > 0 {
            status[field] = count.into();
        }
    }
    // Said even when it is none, but only if every set's controller counts them.
    if let Some(going) = facts.all.iter().map(|set| set.going).sum::<Option<i64>>() {
        status["terminatingReplicas"] = going.into();
    }
    status
}

fn availability(deployment: &Deployment, available: i64, conditions: &mut Conditions) {
    if available >= deployment.min_available() {
        let message = "Deployment has minimum availability.";
        conditions.set(AVAILABLE, "True", "MinimumReplicasAvailable", message);
    } else {
        let message = "Deployment does not have minimum availability.";
        conditions.set(AVAILABLE, "False", "MinimumReplicasUnavailable", message);
    }
}

fn pause(deployment: &Deployment, conditions: &mut Conditions) {
    let reason = conditions.get(PROGRESSING).map(|c| c["reason"].clone()).unwrap_or_default();
    if reason == TIMED_OUT {
        return;
    }
    if deployment.paused && reason != "DeploymentPaused" {
        conditions.set(PROGRESSING, "Unknown", "DeploymentPaused", "Deployment is paused");
    } else if !deployment.paused && reason == "DeploymentPaused" {
        conditions.set(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed");
    }
}

/// Whether a status says that all is as the deployment wants it.
pub fn is_complete(deployment: &Deployment, status: &Value) -> bool {
    ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|f| number(status, f) == deployment.replicas)
        && number(status, "observedGeneration") >= deployment.generation
}

fn progress(facts: &Facts<'_>, status: &Value, conditions: &mut Conditions) {
    let (deployment, old) = (facts.deployment, &facts.deployment.status);
    let held = conditions.get(PROGRESSING).cloned();
    let reason = held.as_ref().and_then(|c| c["reason"].as_str()).unwrap_or_default();
    if number(status, "replicas") == number(status, "updatedReplicas") && reason == COMPLETE {
        return;
    }
    let subject = match facts.new {
        Some(set) => format!("ReplicaSet {}", quote(&set.key.name)),
        None => format!("Deployment {}", quote(&deployment.key.name)),
    };
    let stale = |status: &Value| number(status, "replicas") - number(status, "updatedReplicas");
    let more = |field: &str| number(status, field) > number(old, field);
    let moved =
        more("updatedReplicas") || stale(status) < stale(old) || more("readyReplicas") || more("availableReplicas");
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        conditions.set(PROGRESSING, "True", COMPLETE, &message);
    } else if moved {
        conditions.renew(PROGRESSING, "True", "ReplicaSetUpdated", &format!("{subject} is progressing."));
    } else if left(deployment, held.as_ref(), facts.now).is_some_and(|left| left < SignedDuration::ZERO) {
        conditions.set(PROGRESSING, "False", TIMED_OUT, &format!("{subject} has timed out progressing."));
    }
}

/// How long the deployment may still stand without progress; `None`: it is not measured.
fn left(deployment: &Deployment, progressing: Option<&Value>, now: Timestamp) -> Option<SignedDuration> {
    let condition = progressing?;
    if condition["reason"] == COMPLETE || condition["reason"] == TIMED_OUT {
        return None;
    }
    let since = parse_time(condition["lastUpdateTime"].as_str()?)?;
    let deadline = SignedDuration::from_secs(deployment.progress_deadline_seconds?);
    Some(since.saturating_add(deadline).ok()?.duration_since(now))
}

/// When to look again for want of progress, given the status that was written.
pub fn again_after(deployment: &Deployment, status: &Value, now: Timestamp) -> Option<Duration> {
    if is_complete(deployment, status) || deployment.paused {
        return None;
    }
    let progressing = status["conditions"].as_array()?.iter().find(|c| c["type"] == PROGRESSING);
    let left = left(deployment, progressing, now)?;
    // Times are whole seconds: a second later it is certainly over.
    Duration::try_from(left.max(SignedDuration::ZERO) + SignedDuration::from_secs(1)).ok()
}

/// The merge patch from the present status to this one; `None` if they are equal.
pub fn patch(deployment: &Deployment, revision: i64, status: &Value) -> Option<Value> {
    let present = deployment.status.as_object();
    if present.is_some_and(|_| deployment.status == *status) {
        return None;
    }
    let mut status = status.clone();
    for field in present.into_iter().flatten().map(|(field, _)| field) {
        if status.get(field).is_none() {
            status[field] = Value::Null;
        }
    }
    Some(json!({"metadata": {"uid": deployment.uid, "resourceVersion": revision.to_string()}, "status": status}))
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
