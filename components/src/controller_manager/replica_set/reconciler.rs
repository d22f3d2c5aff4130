//! Carries out a set's plan.
//!
//! Invariants: a set never has more pods made for it than it wants, whatever answer is lost: a pod's name is chosen here
//! before it is created, so that a create can be repeated, and after a create of unknown outcome the cache must first
//! come to where the server is; status is written last.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use listwatch_proto::resource::{Object, ObjectKey};
use parking_lot::Mutex;
use rand::Rng;
use serde_json::{Value, json};

use super::{Failure, Plan, Set, plan, status};
use crate::client::{Api, Cached, DeleteParams, Error, ListParams, Patch};
use crate::controller_manager::caches::{Caches, ORPHANS};
use crate::controller_manager::ownership::{adoption, controller_reference, release};
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::tools::Tools;
use crate::runtime::{
    Action, Backoff, BackoffPolicy, EventType, ReconcileError, Reconciler, ReflectorConfig, catch_up,
};

/// The first batch of creates; each good one is followed by one of twice the size (upstream's slow start), so that a
/// set whose pods are refused does not ask five hundred times. Upstream begins with one; eight cost little more when
/// they are refused, and save a usual set three ways to the server.
const FIRST_BATCH: usize = 8;
/// What generated names are made of: no vowels, so no words; no digits that look like letters.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Random characters at the end of a generated name.
const NAME_SUFFIX: usize = 5;
/// The longest beginning of a generated name.
const NAME_BASE_MAX: usize = 58;
/// How often a create is repeated while its outcome is unknown.
const UNKNOWN_MAX: u32 = 5;
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };

/// Reconciles sets.
pub struct ReplicaSetReconciler {
    caches: Caches,
    tools: Tools,
    sets: Api<Object>,
    pods: Api<Object>,
    /// Sets with a create or delete whose outcome never became known.
    unsure: Mutex<HashSet<ObjectKey>>,
}

impl ReplicaSetReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let (sets, pods) = (tools.api("apps", "replicasets"), tools.api("", "pods"));
        ReplicaSetReconciler { caches, tools, sets, pods, unsure: Mutex::default() }
    }

    /// The pods that a set owns and those of its namespace that nobody owns.
    fn candidates(&self, set: &Set) -> Vec<PodRef> {
        let mut pods = self.caches.pods.owned_by(&set.uid);
        pods.retain(|pod| pod.key.namespace == set.key.namespace);
        pods.extend(self.caches.pods.by_index(ORPHANS, &set.key.namespace));
        pods
    }

    /// The pods of all sets of the set's owner.
    fn siblings(&self, cached: &Cached<Object>) -> Vec<PodRef> {
        match cached.object.controller() {
            None => self.caches.pods.owned_by(&cached.uid),
            Some(owner) => {
                let sets = self.caches.replica_sets.owned_by(&owner.uid);
                sets.iter().flat_map(|set| self.caches.pods.owned_by(&set.uid)).collect()
            }
        }
    }

    /// After a write of unknown outcome: waits until the cache shows whatever the server holds by now.
    async fn make_sure(&self, key: &ObjectKey) -> Result<(), ReconcileError> {
        if !self.unsure.lock().contains(key) {
            return Ok(());
        }
        let here = ListParams::in_namespace(&*key.namespace).fields(format!("metadata.name={}", key.name));
        let revision = self.sets.list(&here).await?.revision;
        let all = ReflectorConfig::default();
        catch_up(&self.tools.client, self.pods.kind(), &all, &self.caches.pods, revision).await?;
        self.unsure.lock().remove(key);
        Ok(())
    }

    async fn carry_out(&self, set: &Set, cached: &Cached<Object>, plan: &mut Plan) -> Result<(), Failed> {
        if !plan.adopt.is_empty() {
            self.adopt(set, cached, plan).await?;
        }
        for pod in &plan.release {
            let patch = release(&pod.uid, pod.revision, &pod.owners, &set.uid);
            match self.pods.patch(&pod.key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(Failed::other(error)),
                _ => {}
            }
        }
        if plan.create > 0 {
            self.create(cached, plan.create).await?;
        }
        if !plan.delete.is_empty() {
            self.delete(cached, &plan.delete).await?;
        }
        Ok(())
    }

    /// Adopts after a look at the server: a set that is gone or going there adopts nothing.
    async fn adopt(&self, set: &Set, cached: &Cached<Object>, plan: &mut Plan) -> Result<(), Failed> {
        let live = self.sets.get_opt(&set.key).await.map_err(Failed::other)?;
        if !live.is_some_and(|live| live.uid == set.uid && !live.object.is_terminating()) {
            plan.active.retain(|pod| !plan.adopt.iter().any(|a| a.uid == pod.uid));
            return Ok(());
        }
        for pod in &plan.adopt {
            let owner = controller_reference(&cached.object);
            let patch = adoption(&pod.uid, pod.revision, &pod.owners, owner);
            match self.pods.patch(&pod.key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(Failed::other(error)),
                _ => {}
            }
        }
        Ok(())
    }

    async fn create(&self, cached: &Cached<Object>, count: usize) -> Result<(), Failed> {
        let (mut left, mut batch) = (count, FIRST_BATCH);
        while left > 0 {
            let now = batch.min(left);
            let outcomes = join_all((0..now).map(|_| self.create_one(cached))).await;
            for outcome in outcomes {
                if let Err(error) = outcome {
                    return Err(self.create_failed(cached, error));
                }
            }
            left -= now;
            batch *= 2;
        }
        Ok(())
    }

    async fn create_one(&self, cached: &Cached<Object>) -> Result<(), Error> {
        let mut pod = pod_of(&cached.object);
        let mut backoff = Backoff::new(RETRY);
        let mut unknown = 0;
        loop {
            match self.pods.create(&pod).await {
                Ok(_) => break,
                // The name is taken by somebody else.
                Err(error) if error.is_already_exists() && unknown == 0 => pod = pod_of(&cached.object),
                // A try before may have been done after all: the next run sees to it, once the cache shows it.
                Err(error) if error.is_already_exists() => {
                    self.unsure.lock().insert(cached.key.clone());
                    break;
                }
                Err(error) if error.is_transient() && unknown < UNKNOWN_MAX => {
                    unknown += 1;
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.tools.tell(cached, EventType::Normal, "SuccessfulCreate", format!("Created pod: {}", pod.name()));
        Ok(())
    }

    fn create_failed(&self, cached: &Cached<Object>, error: Error) -> Failed {
        if error.is_transient() {
            self.unsure.lock().insert(cached.key.clone());
            return Failed::other(error);
        }
        let terminating = |status: &listwatch_proto::resource::Status| {
            status.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
        };
        if error.status().is_some_and(terminating) {
            return Failed { failure: None, error: None };
        }
        self.tools.tell(cached, EventType::Warning, "FailedCreate", format!("Error creating: {error}"));
        Failed { failure: Some(Failure { reason: "FailedCreate", message: error.to_string() }), error: Some(error) }
    }

    async fn delete(&self, cached: &Cached<Object>, pods: &[PodRef]) -> Result<(), Failed> {
        let outcomes = join_all(pods.iter().map(|pod| async move {
            match self.pods.delete(&pod.key, &DeleteParams::uid(&*pod.uid)).await {
                Ok(_) => {
                    let message = format!("Deleted pod: {}", pod.key.name);
                    self.tools.tell(cached, EventType::Normal, "SuccessfulDelete", message);
                    Ok(())
                }
                // Gone already, or another pod of that name by now.
                Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
                Err(error) => Err(error),
            }
        }))
        .await;
        let Some(error) = outcomes.into_iter().find_map(Result::err) else { return Ok(()) };
        if error.is_transient() {
            self.unsure.lock().insert(cached.key.clone());
            return Err(Failed::other(error));
        }
        self.tools.tell(cached, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
        let failure = Failure { reason: "FailedDelete", message: error.to_string() };
        Err(Failed { failure: Some(failure), error: Some(error) })
    }
}

/// A plan that was not carried out to its end.
struct Failed {
    /// What the set's condition is to say.
    failure: Option<Failure>,
    /// What brings the key back.
    error: Option<Error>,
}

impl Failed {
    fn other(error: Error) -> Self {
        Failed { failure: None, error: Some(error) }
    }
}

#[async_trait]
impl Reconciler for ReplicaSetReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        self.make_sure(key).await?;
        let Some(cached) = self.caches.replica_sets.get(key) else { return Ok(Action::Done) };
        let Some(set) = Set::of(&cached) else { return Ok(Action::Done) };
        let now = self.tools.clock.now();
        let mut plan = plan(&set, &self.candidates(&set), &self.siblings(&cached), now);
        let outcome = self.carry_out(&set, &cached, &mut plan).await;
        let held_back = plan.held_back.as_ref().map(held_back);
        let (failure, error) = match outcome {
            Ok(()) => (held_back, None),
            Err(failed) => (failed.failure.or(held_back), failed.error),
        };
        let status = status(&set, &cached.object, &plan, failure.as_ref(), now);
        if let Some(patch) = status.patch(&cached.object, &cached.uid, cached.revision) {
            match self.sets.patch_status(key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        match (error, plan.again_after) {
            (Some(error), _) => Err(error.into()),
            (None, Some(after)) => Ok(Action::RequeueAfter(Duration::try_from(after).unwrap_or_default())),
            (None, None) => Ok(Action::Done),
        }
    }
}

/// Why pods are made slowly.
fn held_back(newest: &PodRef) -> Failure {
    let (reason, message) = newest.failure.as_deref().cloned().unwrap_or_default();
    let message = format!(
        "{} or more pods have failed; at most one a second is created. The last was {}: {reason}: {message}",
        super::FAILURES_MAX,
        newest.key.name,
    );
    Failure { reason: "FailedCreate", message }
}

/// A new pod of a set, with a name of its own.
fn pod_of(set: &Object) -> Object {
    let template = set.at(&["spec", "template"]).cloned().unwrap_or_else(|| json!({}));
    let base: String = format!("{}-", set.name()).chars().take(NAME_BASE_MAX).collect();
    let mut metadata = json!({
        "namespace": set.namespace(),
        "name": format!("{base}{}", suffix()),
        "generateName": base,
        "ownerReferences": [controller_reference(set)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        let value = &template["metadata"][field];
        if !value.is_null() {
            metadata[field] = value.clone();
        }
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    match pod {
        Value::Object(map) => Object(map),
        _ => unreachable!("made as a map"),
    }
}

fn suffix() -> String {
    let mut random = rand::rng();
    (0..NAME_SUFFIX).map(|_| char::from(NAME_ALPHABET[random.random_range(0..NAME_ALPHABET.len())])).collect()
}

/// The sets that a pod concerns: its own, or, if nobody owns it, those that it fits.
pub fn sets_of(caches: &Caches, pod: &Cached<crate::controller_manager::pod::Pod>) -> Vec<ObjectKey> {
    match pod.controller() {
        Some(owner) if owner.kind == "ReplicaSet" => vec![ObjectKey::new(&*pod.key.namespace, &*owner.name)],
        Some(_) => Vec::new(),
        None => {
            let sets = caches.replica_sets.in_namespace(&pod.key.namespace);
            let fits = |set: &Arc<Cached<Object>>| {
                crate::controller_manager::ownership::selector(&set.object)
                    .is_some_and(|selector| selector.matches(|key| pod.label(key)))
            };
            sets.iter().filter(|set| fits(set)).map(|set| set.key.clone()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_made_of_the_template_alone() {
        let set = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web-5d", "namespace": "shop", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                                  "spec": {"containers": [{"name": "c", "future": 1}]}}}}))
        .expect("an object");
        let pod = pod_of(&set);
        assert!(pod.name().starts_with("web-5d-") && pod.name().len() == "web-5d-".len() + NAME_SUFFIX);
        assert_eq!((pod.namespace(), pod.label("app")), ("shop", Some("web")));
        assert_eq!(pod.at(&["spec", "containers"]), Some(&json!([{"name": "c", "future": 1}])));
        assert_eq!(pod.controller().map(|o| (o.uid, o.block_owner_deletion)), Some(("u".into(), Some(true))));
        let long = "x".repeat(63);
        let mut set = set;
        set.set(&["metadata", "name"], long);
        assert_eq!(pod_of(&set).name().len(), 63);
    }
}
