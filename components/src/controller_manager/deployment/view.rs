//! A deployment and its sets as the plan sees them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use listwatch_proto::resource::{Object, ObjectKey, parse_time};
use serde_json::Value;

use super::fenceposts::{self, Fenceposts};
use super::revision::{DESIRED, MAX, REVISION};
use crate::client::Cached;

/// `spec.strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// All old pods go before the first new one comes.
    Recreate,
    /// A few at a time.
    Rolling,
}

/// A deployment.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`.
    pub replicas: i64,
    /// `spec.selector`, as it is.
    pub selector: Value,
    /// `spec.template`, as it is.
    pub template: Value,
    /// `spec.strategy.type`.
    pub strategy: Strategy,
    /// How many pods may be above and below the wanted number.
    pub fenceposts: Fenceposts,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i64,
    /// `spec.paused`.
    pub paused: bool,
    /// `spec.revisionHistoryLimit`; `None`: no limit.
    pub history_limit: Option<usize>,
    /// `spec.progressDeadlineSeconds`; `None`: none.
    pub progress_deadline_seconds: Option<i64>,
    /// `status`, as it is.
    pub status: Value,
    /// `status.collisionCount`.
    pub collisions: i64,
}

/// A replica set of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub revision_read: i64,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`.
    pub replicas: i64,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i64,
    /// `spec.template`, as it is.
    pub template: Value,
    /// `status.replicas`.
    pub present: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// `status.availableReplicas`.
    pub available: i64,
    /// `status.terminatingReplicas`; `None`: its controller has not counted them.
    pub going: Option<i64>,
    /// Whether its controller has seen its present spec.
    pub observed: bool,
    /// The condition `ReplicaFailure`, if it is True.
    pub failure: Option<Value>,
}

fn annotations(object: &Object) -> BTreeMap<String, String> {
    object.annotations().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

impl Deployment {
    /// Reads a deployment. What the server should have filled in gets upstream's default.
    pub fn of(cached: &Cached<Object>) -> Self {
        let object = &cached.object;
        let value = |path: &[&str]| object.at(path).cloned().unwrap_or(Value::Null);
        let replicas = object.int(&["spec", "replicas"]).unwrap_or(1).max(0);
        let strategy = match object.text(&["spec", "strategy", "type"]) {
            "Recreate" => Strategy::Recreate,
            _ => Strategy::Rolling,
        };
        let rolling = value(&["spec", "strategy", "rollingUpdate"]);
        let fenceposts = match strategy {
            Strategy::Rolling => fenceposts::resolve(&rolling["maxSurge"], &rolling["maxUnavailable"], replicas),
            Strategy::Recreate => Fenceposts { surge: 0, unavailable: 0 },
        };
        let no_limit = i64::from(i32::MAX);
        let limit = object.int(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        let deadline = object.int(&["spec", "progressDeadlineSeconds"]).unwrap_or(600);
        Deployment {
            key: cached.key.clone(),
            uid: cached.uid.clone(),
            generation: object.generation(),
            terminating: object.is_terminating(),
            annotations: annotations(object),
            replicas,
            selector: value(&["spec", "selector"]),
            template: value(&["spec", "template"]),
            strategy,
            fenceposts,
            min_ready_seconds: object.int(&["spec", "minReadySeconds"]).unwrap_or(0),
            paused: object.flag(&["spec", "paused"]),
            history_limit: (limit != no_limit).then(|| usize::try_from(limit).unwrap_or(0)),
            progress_deadline_seconds: (deadline != no_limit).then_some(deadline),
            status: value(&["status"]),
            collisions: object.int(&["status", "collisionCount"]).unwrap_or(0),
        }
    }

    /// The most pods there may be during a rolling update.
    pub fn max_pods(&self) -> i64 {
        self.replicas + self.fenceposts.surge
    }

    /// The pods it had when its status was written.
    pub fn pods_now(&self) -> i64 {
        self.status["replicas"].as_i64().unwrap_or(0)
    }

    /// The fewest pods that must be available during a rolling update.
    pub fn min_available(&self) -> i64 {
        self.replicas - self.fenceposts.unavailable
    }
}

impl Set {
    /// Reads a set.
    pub fn of(cached: &Cached<Object>) -> Self {
        let object = &cached.object;
        let status = |field: &str| object.int(&["status", field]).unwrap_or(0);
        Set {
            key: cached.key.clone(),
            uid: cached.uid.clone(),
            revision_read: cached.revision,
            created: parse_time(object.creation_timestamp()).unwrap_or(Timestamp::UNIX_EPOCH),
            terminating: object.is_terminating(),
            annotations: annotations(object),
            replicas: object.int(&["spec", "replicas"]).unwrap_or(1),
            min_ready_seconds: object.int(&["spec", "minReadySeconds"]).unwrap_or(0),
            template: object.at(&["spec", "template"]).cloned().unwrap_or(Value::Null),
            present: status("replicas"),
            ready: status("readyReplicas"),
            available: status("availableReplicas"),
            going: object.int(&["status", "terminatingReplicas"]),
            observed: status("observedGeneration") >= object.generation(),
            failure: object.condition("ReplicaFailure").filter(|c| c["status"] == "True").cloned(),
        }
    }

    /// The number in an annotation.
    fn number(&self, annotation: &str) -> Option<i64> {
        self.annotations.get(annotation)?.parse().ok()
    }

    /// The revision it stands for; 0 if none is written on it.
    pub fn revision(&self) -> i64 {
        self.number(REVISION).unwrap_or(0)
    }

    /// The deployment's wanted number of pods when this set was last scaled.
    pub fn desired(&self) -> Option<i64> {
        self.number(DESIRED)
    }

    /// The deployment's greatest number of pods when this set was last scaled.
    pub fn max(&self) -> Option<i64> {
        self.number(MAX)
    }
}
