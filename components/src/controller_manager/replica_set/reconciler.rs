//! Carries out a set's plan.
//!
//! Invariants: a set never has more pods made for it than it wants, whatever answer is lost: a pod's name is chosen here
//! before it is created, so that a create can be repeated, and after a create of unknown outcome the cache must first
//! come to where the server is; status is written last. What happens when the process dies is told in [`super`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use listwatch_proto::resource::{Object, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::create::{self, IN_FLIGHT_MAX, new_name, pod_of};
use super::{Failure, News, PODS_FAIL, Plan, Set, plan, status};
use crate::client::{Api, Cached, DeleteParams, Error, ListParams, Patch};
use crate::controller_manager::caches::{Caches, ORPHANS};
use crate::controller_manager::ownership::{adoption, controller_reference, release};
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::tools::Tools;
use crate::runtime::{
    Action, Backoff, BackoffPolicy, EventType, ReconcileError, Reconciler, ReflectorConfig, catch_up,
};

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
    /// One permit for each create that may be on its way.
    creates: Semaphore,
    /// Sets with a create or delete whose outcome never became known.
    unsettled: Mutex<HashMap<ObjectKey, Unsettled>>,
}

/// Writes whose outcome is not known.
#[derive(Debug, Default)]
struct Unsettled {
    /// Pods that may or may not have been made: the next are made under these names.
    names: Vec<String>,
    /// Whether the cache has since come to where the server was.
    seen: bool,
}

/// When a pod was made.
enum Created {
    Now,
    Before,
}

impl ReplicaSetReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let (sets, pods) = (tools.api("apps", "replicasets"), tools.api("", "pods"));
        let creates = Semaphore::new(IN_FLIGHT_MAX);
        ReplicaSetReconciler { caches, tools, sets, pods, creates, unsettled: Mutex::default() }
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

    /// After a write of unknown outcome: waits until the cache shows whatever the server holds by now. Pods that are seen
    /// then were made.
    async fn make_sure(&self, key: &ObjectKey) -> Result<(), ReconcileError> {
        if self.unsettled.lock().get(key).is_none_or(|unsettled| unsettled.seen) {
            return Ok(());
        }
        let here = ListParams::in_namespace(&*key.namespace).fields(format!("metadata.name={}", key.name));
        let revision = self.sets.list(&here).await?.revision;
        let all = ReflectorConfig::default();
        catch_up(&self.tools.client, self.pods.kind(), &all, &self.caches.pods, revision).await?;
        if let Some(unsettled) = self.unsettled.lock().get_mut(key) {
            let missing = |name: &String| self.caches.pods.get(&ObjectKey::new(&*key.namespace, &**name)).is_none();
            unsettled.names.retain(missing);
            unsettled.seen = true;
        }
        Ok(())
    }

    /// Forgets what is settled: the set is gone or wants no more pods, or all names have been used.
    fn settle(&self, key: &ObjectKey, wants_pods: bool) {
        let mut all = self.unsettled.lock();
        if all.get(key).is_some_and(|unsettled| unsettled.seen && (!wants_pods || unsettled.names.is_empty())) {
            all.remove(key);
        }
    }

    async fn carry_out(&self, set: &Set, cached: &Cached<Object>, plan: &mut Plan) -> Result<(), Failed> {
        if !plan.adopt.is_empty() {
            self.adopt(set, cached, plan).await?;
        }
        for pod in &plan.release {
            let patch = release(&pod.uid, pod.revision, &pod.owners, &set.uid);
            match self.pods.patch(&pod.key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(Failed::unknown(error)),
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
        let live = self.sets.get_opt(&set.key).await.map_err(Failed::unknown)?;
        if !live.is_some_and(|live| live.uid == set.uid && !live.object.is_terminating()) {
            plan.active.retain(|pod| !plan.adopt.iter().any(|a| a.uid == pod.uid));
            return Ok(());
        }
        for pod in &plan.adopt {
            let owner = controller_reference(&cached.object);
            let patch = adoption(&pod.uid, pod.revision, &pod.owners, owner);
            match self.pods.patch(&pod.key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(Failed::unknown(error)),
                _ => {}
            }
        }
        Ok(())
    }

    async fn create(&self, cached: &Cached<Object>, count: usize) -> Result<(), Failed> {
        for batch in create::batches(count) {
            let outcomes = join_all((0..batch).map(|_| self.create_one(cached))).await;
            let errors: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
            if !errors.is_empty() {
                return Err(self.create_failed(cached, errors));
            }
        }
        Ok(())
    }

    async fn create_one(&self, cached: &Cached<Object>) -> Result<(), Error> {
        // Held while the outcome is open, so that this many at most are.
        let _on_its_way = self.creates.acquire().await.expect("the semaphore is never closed");
        let left_over = self.unsettled.lock().get_mut(&cached.key).and_then(|unsettled| unsettled.names.pop());
        let mut repeated = left_over.is_some();
        let mut name = left_over.unwrap_or_else(|| new_name(&cached.object));
        let mut backoff = Backoff::new(RETRY);
        for tries_left in (0..=UNKNOWN_MAX).rev() {
            match self.create_named(cached, &mut name, repeated).await {
                Ok(Created::Now) => break,
                // A try before was done after all: the next run waits until the cache shows it.
                Ok(Created::Before) => {
                    self.is_unsettled(&cached.key, None);
                    break;
                }
                Err(error) if error.is_transient() && tries_left > 0 => {
                    repeated = true;
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                Err(error) => {
                    if error.is_transient() {
                        self.is_unsettled(&cached.key, Some(name));
                    }
                    return Err(error);
                }
            }
        }
        self.tools.tell(cached, EventType::Normal, "SuccessfulCreate", format!("Created pod: {name}"));
        Ok(())
    }

    /// Creates a pod of this name; under another one if it is somebody else's. `repeated`: it may be our own.
    async fn create_named(&self, cached: &Cached<Object>, name: &mut String, repeated: bool) -> Result<Created, Error> {
        loop {
            match self.pods.create(&pod_of(&cached.object, name)).await {
                Ok(_) => return Ok(Created::Now),
                Err(error) if !error.is_already_exists() => return Err(error),
                Err(_) if repeated => return Ok(Created::Before),
                Err(_) => *name = new_name(&cached.object),
            }
        }
    }

    /// Notes that a write of a set has an unknown outcome; for a create, under which name it is to be done again.
    fn is_unsettled(&self, key: &ObjectKey, name: Option<String>) {
        let mut all = self.unsettled.lock();
        let unsettled = all.entry(key.clone()).or_default();
        unsettled.seen = false;
        unsettled.names.extend(name);
    }

    /// Tells of the creates of a batch that were refused. A refusal says more than an outcome that is unknown.
    fn create_failed(&self, cached: &Cached<Object>, errors: Vec<Error>) -> Failed {
        let (refused, unknown): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| !error.is_transient() && !error.is_not_leading());
        let was_told = refused.len();
        let refused: Vec<Error> = refused.into_iter().filter(|e| !e.is_namespace_terminating()).collect();
        for error in &refused {
            self.tools.tell(cached, EventType::Warning, "FailedCreate", format!("Error creating: {error}"));
        }
        match (refused.into_iter().next(), unknown.into_iter().next()) {
            (Some(error), _) => {
                let failure = Failure { reason: "FailedCreate", message: error.to_string() };
                Failed { news: News::Failed(failure), error: Some(error) }
            }
            (None, Some(error)) => Failed::unknown(error),
            // In a namespace that is going every create is refused, and that is as it should be.
            (None, None) => {
                tracing::debug!(set = %cached.key, refused = was_told, "the namespace is going");
                Failed { news: News::Good, error: None }
            }
        }
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
        // A refusal says more than an outcome that is unknown.
        let errors = outcomes.into_iter().filter_map(Result::err);
        let Some(error) = errors.min_by_key(Error::is_transient) else { return Ok(()) };
        if error.is_transient() || error.is_not_leading() {
            self.is_unsettled(&cached.key, None);
            return Err(Failed::unknown(error));
        }
        self.tools.tell(cached, EventType::Warning, "FailedDelete", format!("Error deleting: {error}"));
        let failure = Failure { reason: "FailedDelete", message: error.to_string() };
        Err(Failed { news: News::Failed(failure), error: Some(error) })
    }
}

/// A plan that was not carried out to its end.
struct Failed {
    /// What the set's condition is to say.
    news: News,
    /// What brings the key back.
    error: Option<Error>,
}

impl Failed {
    fn unknown(error: Error) -> Self {
        Failed { news: News::Unknown, error: Some(error) }
    }
}

#[async_trait]
impl Reconciler for ReplicaSetReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        self.make_sure(key).await?;
        let Some(cached) = self.caches.replica_sets.get(key) else {
            self.settle(key, false);
            return Ok(Action::Done);
        };
        let Some(set) = Set::of(&cached) else { return Ok(Action::Done) };
        let now = self.tools.clock.now();
        let mut plan = plan(&set, &self.candidates(&set), &self.siblings(&cached), now);
        let outcome = self.carry_out(&set, &cached, &mut plan).await;
        self.settle(key, plan.create > 0);
        let slowed = plan.throttle.as_ref().map(|throttle| Failure { reason: PODS_FAIL, message: throttle.message() });
        let (news, error) = match (outcome, slowed) {
            (Ok(()), None) => (News::Good, None),
            (Ok(()), Some(slowed)) => (News::Failed(slowed), None),
            (Err(failed), _) => (failed.news, failed.error),
        };
        let status = status(&set, &cached.object, &plan, &news, now);
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
    use crate::client::{Client, ClientConfig};
    use crate::clock;
    use crate::controller_manager::caches::Informers;
    use crate::runtime::Recorder;
    use serde_json::json;

    #[tokio::test]
    async fn a_create_of_unknown_outcome_is_done_again_under_its_name() {
        // Nobody listens there: every try is one of unknown outcome.
        let client = Client::new(&ClientConfig::new("http://127.0.0.1:1")).expect("an address");
        let (recorder, _task) = Recorder::new(&client, "test", "", clock::system());
        let tools = Tools { client: client.clone(), clock: clock::system(), recorder };
        let reconciler = ReplicaSetReconciler::new(Informers::new(&client).caches(), tools);
        let object = Object::from_value(json!({"metadata": {"namespace": "default", "name": "web", "uid": "u"}}));
        let object = object.expect("a map");
        let cached = Cached { key: object.key(), uid: "u".to_owned(), revision: 1, object };
        let names = || reconciler.unsettled.lock().get(&cached.key).map(|unsettled| unsettled.names.clone());

        let failed = reconciler.create(&cached, 20).await.expect_err("nobody is there");
        assert_eq!(failed.news, News::Unknown, "nothing is said of a failure");
        let first = names().expect("noted");
        assert_eq!(first.len(), 1, "the first batch is one pod, and the others are not tried");
        reconciler.create(&cached, 20).await.expect_err("still nobody");
        assert_eq!(names(), Some(first), "the same pod was tried again");
        assert_eq!(reconciler.creates.available_permits(), IN_FLIGHT_MAX, "nothing is on its way");

        reconciler.settle(&cached.key, false);
        assert!(names().is_some(), "the cache has not come to where the server is");
        reconciler.unsettled.lock().get_mut(&cached.key).expect("noted").seen = true;
        reconciler.settle(&cached.key, true);
        assert!(names().is_some(), "the next create is to use it");
        reconciler.settle(&cached.key, false);
        assert!(names().is_none(), "no pod is wanted any more");
    }
}
