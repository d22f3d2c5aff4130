//! Carries out a deployment's plan.
//!
//! Invariants: a set's name follows from its template, so a set that was made before an answer was lost is found, not made
//! again; every change of a set is refused by the server if the set is not as it was read; the status is written last.

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::{Value, json};

use super::revision::REVISION;
use super::status::{self, Facts, Note};
use super::{Deployment, NewSet, Plan, Set, Step, plan, template};
use crate::client::{Api, Cached, DeleteParams, Error, Patch};
use crate::controller_manager::caches::{Caches, ORPHANS};
use crate::controller_manager::ownership::{self, Claim, Claimable, adoption, claim, controller_reference, release};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, EventType, ReconcileError, Reconciler};

/// Reconciles deployments.
pub struct DeploymentReconciler {
    caches: Caches,
    tools: Tools,
    deployments: Api<Object>,
    sets: Api<Object>,
}

/// How carrying out the steps ended.
#[derive(Default)]
struct Outcome {
    note: Option<Note>,
    /// The name was taken by somebody else: the next hash must be another one.
    collided: bool,
    error: Option<Error>,
}

impl DeploymentReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let (deployments, sets) = (tools.api("apps", "deployments"), tools.api("apps", "replicasets"));
        DeploymentReconciler { caches, tools, deployments, sets }
    }

    /// The sets that are the deployment's; takes in and lets go what must be. `None`: the caches have to catch up first.
    async fn claim(&self, cached: &Cached<Object>) -> Result<Option<Vec<Set>>, Error> {
        let Some(selector) = ownership::selector(&cached.object) else { return Ok(Some(Vec::new())) };
        let mut candidates = self.caches.replica_sets.owned_by(&cached.uid);
        candidates.extend(self.caches.replica_sets.by_index(ORPHANS, &cached.key.namespace));
        let (mut own, mut wrote) = (Vec::new(), false);
        for set in candidates.iter().filter(|set| set.key.namespace == cached.key.namespace) {
            let controller = set.object.controller();
            let fits = selector.matches_object(&set.object);
            let object = Claimable { controller: controller.as_ref(), fits, terminating: set.object.is_terminating() };
            let owners = set.object.owner_references();
            let patch = match claim(&cached.uid, cached.object.is_terminating(), object) {
                Claim::Keep => {
                    own.push(Set::of(set));
                    continue;
                }
                Claim::Ignore => continue,
                Claim::Release => release(&set.uid, set.revision, &owners, &cached.uid),
                Claim::Adopt => {
                    if !self.may_adopt(cached).await? {
                        continue;
                    }
                    adoption(&set.uid, set.revision, &owners, controller_reference(&cached.object))
                }
            };
            match self.sets.patch(&set.key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => wrote = true,
            }
        }
        Ok((!wrote).then_some(own))
    }

    /// Whether the deployment still stands at the server.
    async fn may_adopt(&self, cached: &Cached<Object>) -> Result<bool, Error> {
        let live = self.deployments.get_opt(&cached.key).await?;
        Ok(live.is_some_and(|live| live.uid == cached.uid && !live.object.is_terminating()))
    }

    /// Whether a pod of a set other than the new one has not ended yet.
    fn old_pods_run(&self, sets: &[Set], new: Option<&str>) -> bool {
        let old = sets.iter().filter(|set| Some(set.uid.as_str()) != new);
        old.flat_map(|set| self.caches.pods.owned_by(&set.uid)).any(|pod| !pod.is_finished())
    }

    async fn carry_out(&self, cached: &Cached<Object>, deployment: &Deployment, plan: &Plan) -> Outcome {
        let mut outcome = Outcome::default();
        for step in &plan.steps {
            let done = match step {
                Step::Create(new) => self.create(cached, deployment, new, &mut outcome).await,
                Step::Change { set, to, annotations, min_ready_seconds } => {
                    let patch = json!({
                        "metadata": {
                            "uid": set.uid, "resourceVersion": set.revision_read.to_string(),
                            "annotations": annotations,
                        },
                        "spec": {"replicas": to, "minReadySeconds": min_ready_seconds},
                    });
                    self.change(cached, set, *to, patch).await
                }
                Step::Delete(set) => {
                    let params = DeleteParams::uid(&*set.uid).at_revision(set.revision_read);
                    match self.sets.delete(&set.key, &params).await {
                        Err(error) if !error.is_not_found() => Err(error),
                        _ => Ok(()),
                    }
                }
            };
            if let Err(error) = done {
                outcome.error = Some(error);
                break;
            }
        }
        outcome
    }

    async fn create(
        &self,
        cached: &Cached<Object>,
        deployment: &Deployment,
        new: &NewSet,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let object = match new.object(deployment, &controller_reference(&cached.object)) {
            Value::Object(map) => Object(map),
            _ => unreachable!("made as a map"),
        };
        match self.sets.create(&object).await {
            Ok(_) => {
                self.tell_scaled(cached, &new.name, 0, new.replicas);
                outcome.note = Some(Note::created(&new.name));
                Ok(())
            }
            Err(error) if error.is_already_exists() => {
                let key = ObjectKey::new(&*deployment.key.namespace, &*new.name);
                let Some(held) = self.sets.get_opt(&key).await? else { return Err(error) };
                let ours = held.object.controller().is_some_and(|owner| owner.uid == cached.uid);
                let same =
                    held.object.at(&["spec", "template"]).is_some_and(|t| template::same(t, &deployment.template));
                if ours && same {
                    // Made before, and the answer or our memory was lost.
                    outcome.note = Some(Note::found(&new.name));
                } else {
                    outcome.collided = true;
                }
                Ok(())
            }
            Err(error) => {
                let message = format!("Failed to create new replica set {}: {error}", quote(&new.name));
                if !error.is_transient() && !error.is_not_leading() {
                    self.tools.tell(cached, EventType::Warning, "ReplicaSetCreateError", message);
                    outcome.note = Some(Note::create_error(&new.name, &error));
                }
                Err(error)
            }
        }
    }

    async fn change(&self, cached: &Cached<Object>, set: &Set, to: i64, patch: Value) -> Result<(), Error> {
        self.sets.patch(&set.key, &Patch::Merge(patch)).await?;
        if to != set.replicas {
            self.tell_scaled(cached, &set.key.name, set.replicas, to);
        }
        Ok(())
    }

    fn tell_scaled(&self, cached: &Cached<Object>, set: &str, from: i64, to: i64) {
        if from == to {
            return;
        }
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        self.tools.tell(cached, EventType::Normal, "ScalingReplicaSet", message);
    }

    /// Writes the revision on the deployment; its new version comes back.
    async fn write_revision(&self, cached: &Cached<Object>, revision: i64) -> Result<i64, Error> {
        let patch = json!({"metadata": {
            "uid": cached.uid, "resourceVersion": cached.revision.to_string(),
            "annotations": {REVISION: revision.to_string()},
        }});
        self.deployments.patch_status(&cached.key, &Patch::Merge(patch)).await.map(|written| written.revision)
    }
}

#[async_trait]
impl Reconciler for DeploymentReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(cached) = self.caches.deployments.get(key) else { return Ok(Action::Done) };
        if ownership::selector(&cached.object).is_none() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.tools.tell(&cached, EventType::Warning, "SelectingAll", message);
            return Ok(Action::Done);
        }
        let Some(sets) = self.claim(&cached).await? else { return Ok(Action::Done) };
        let mut deployment = Deployment::of(&cached);
        let new = plan(&deployment, &sets, true).new.map(|at| sets[at].uid.clone());
        let plan = plan(&deployment, &sets, self.old_pods_run(&sets, new.as_deref()));
        let outcome = self.carry_out(&cached, &deployment, &plan).await;
        let mut version = cached.revision;
        if let Some(number) = plan.revision.filter(|_| outcome.error.is_none() && !outcome.collided) {
            version = self.write_revision(&cached, number).await?;
        }
        if outcome.collided {
            deployment.collisions += 1;
        }
        let now = self.tools.clock.now();
        let (new, rollout) = (plan.new.map(|at| &sets[at]), plan.rollout);
        let status =
            status::status(&Facts { deployment: &deployment, new, all: &sets, rollout, note: outcome.note, now });
        if let Some(patch) = status::patch(&deployment, version, &status) {
            match self.deployments.patch_status(key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        if let Some(error) = outcome.error {
            return Err(error.into());
        }
        Ok(status::again_after(&deployment, &status, now).map_or(Action::Done, Action::RequeueAfter))
    }
}

/// The deployments that a set concerns: its own, or, if nobody owns it, those that it fits.
pub fn deployments_of(caches: &Caches, set: &Cached<Object>) -> Vec<ObjectKey> {
    match set.object.controller() {
        Some(owner) if owner.kind == "Deployment" => vec![ObjectKey::new(&*set.key.namespace, &*owner.name)],
        Some(_) => Vec::new(),
        None => {
            let deployments = caches.deployments.in_namespace(&set.key.namespace);
            let fits = |deployment: &Arc<Cached<Object>>| {
                ownership::selector(&deployment.object).is_some_and(|selector| selector.matches_object(&set.object))
            };
            deployments.iter().filter(|d| fits(d)).map(|d| d.key.clone()).collect()
        }
    }
}
