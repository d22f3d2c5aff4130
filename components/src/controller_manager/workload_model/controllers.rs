//! What the reconcilers do with a plan, on the model's world.

use std::sync::Arc;

use listwatch_proto::resource::{Object, OwnerReference};
use rand::Rng;
use serde_json::{Value, json};

use super::world::{Model, View, World, cached};
use crate::client::Cached;
use crate::controller_manager::deployment::revision::REVISION;
use crate::controller_manager::deployment::status::{self as deployment_status, Facts, Note};
use crate::controller_manager::deployment::{self, Deployment, NewSet, Step};
use crate::controller_manager::ownership::controller_reference;
use crate::controller_manager::pod::Pod;
use crate::controller_manager::replica_set::{self, News, create::batches};

/// The controller manager has died; whatever was under way is over.
pub(super) struct Died;

impl Model {
    /// A view that has come on by chance, but never behind the own writes of this key.
    fn look(&mut self, key: &str, of: fn(&mut Model) -> &mut View) -> [Arc<World>; 3] {
        let head = self.revision();
        let view = of(self);
        let own = view.written.get(key).copied().unwrap_or(0);
        let seen = [view.deployments, view.sets, view.pods];
        let now = seen.map(|seen| {
            let least = seen.max(own);
            if !self.lag || self.random.random_bool(0.5) { head } else { self.random.random_range(least..=head) }
        });
        let view = of(self);
        [view.deployments, view.sets, view.pods] = now;
        now.map(|revision| self.history[revision].clone())
    }

    fn wrote(&mut self, key: &str, before: usize, of: fn(&mut Model) -> &mut View) {
        let now = self.revision();
        if now > before {
            of(self).written.insert(key.to_owned(), now);
        }
    }

    fn may_die(&mut self) -> Result<(), Died> {
        if self.random.random_bool(self.chance.death) { Err(Died) } else { Ok(()) }
    }

    /// A new controller manager: what its predecessor's predecessor had sent is done by now, and it sees all there is.
    fn start_anew(&mut self) {
        self.deaths += 1;
        let now = self.revision();
        let fresh = || View { deployments: now, sets: now, pods: now, ..View::default() };
        (self.deployment_view, self.set_view) = (fresh(), fresh());
    }

    pub(super) fn run_deployment(&mut self) {
        let before = self.revision();
        let seen = self.look("web", |model| &mut model.deployment_view);
        if self.reconcile_deployment(&seen).is_err() {
            return self.start_anew();
        }
        self.wrote("web", before, |model| &mut model.deployment_view);
    }

    fn reconcile_deployment(&mut self, [deployments, sets, pods]: &[Arc<World>; 3]) -> Result<(), Died> {
        let read = deployments.deployment.clone();
        let deployment = Deployment::of(&read);
        let sets: Vec<deployment::Set> = sets.sets.values().map(|set| deployment::Set::of(set)).collect();
        let new = deployment::plan(&deployment, &sets, true).new.map(|at| sets[at].uid.clone());
        let is_old = |uid: &str| Some(uid) != new.as_deref();
        let old_pods_run = pods.pods.values().any(|pod| !pod.is_finished() && is_old(&pod.owners[0].uid));
        let plan = deployment::plan(&deployment, &sets, old_pods_run);
        let mut note = None;
        for step in &plan.steps {
            self.may_die()?;
            let done = match step {
                Step::Create(new) => self.create_new_set(&read, &deployment, new, &mut note),
                Step::Change { set, to, annotations, min_ready_seconds } => {
                    self.put_set((&set.key, set.revision_read), |object| {
                        object.set(&["metadata", "annotations"], json!(annotations));
                        object.set(&["spec", "replicas"], *to);
                        object.set(&["spec", "minReadySeconds"], *min_ready_seconds);
                    })
                }
                Step::Delete(set) => {
                    let head = self.head();
                    let as_read = |held: &Arc<Cached<Object>>| held.revision == set.revision_read;
                    if head.sets.get(&set.key.name).is_some_and(as_read) {
                        self.write(|world, _| drop(world.sets.remove(&set.key.name)));
                    }
                    true
                }
            };
            if !done {
                return Ok(());
            }
        }
        self.may_die()?;
        let new = plan.new.map(|at| &sets[at]);
        let facts = Facts { deployment: &deployment, new, all: &sets, rollout: plan.rollout, note, now: self.now };
        let status = deployment_status::status(&facts);
        // Both writes name the version that was read: nothing is lost by taking them for one.
        let unchanged = plan.revision.is_none() && read.object.at(&["status"]) == Some(&status);
        if self.head().deployment.revision == read.revision && !unchanged {
            let mut object = read.object.clone();
            if let Some(number) = plan.revision {
                object.set(&["metadata", "annotations", REVISION], number.to_string());
            }
            object.set(&["status"], status);
            self.write(|world, revision| world.deployment = cached(object, revision));
        }
        Ok(())
    }

    fn create_new_set(
        &mut self,
        read: &Cached<Object>,
        deployment: &Deployment,
        new: &NewSet,
        note: &mut Option<Note>,
    ) -> bool {
        if self.head().sets.contains_key(&new.name) {
            *note = Some(Note::found(&new.name));
            return true;
        }
        let object = new.object(deployment, &controller_reference(&read.object));
        self.create_set(Object::from_value(object).expect("a map"));
        *note = Some(Note::created(&new.name));
        true
    }

    pub(super) fn run_set(&mut self, name: &str) {
        let before = self.revision();
        let [_, sets, pods] = self.look(name, |model| &mut model.set_view);
        let Some(read) = sets.sets.get(name).cloned() else { return };
        if self.reconcile_set(&read, &pods).is_err() {
            return self.start_anew();
        }
        self.wrote(name, before, |model| &mut model.set_view);
    }

    fn reconcile_set(&mut self, read: &Arc<Cached<Object>>, pods: &World) -> Result<(), Died> {
        let set = replica_set::Set::of(read).expect("it has a selector");
        let own: Vec<_> = pods.pods.values().filter(|pod| pod.owners[0].uid == set.uid).cloned().collect();
        let plan = replica_set::plan(&set, &own, &own, self.now);
        for batch in batches(plan.create) {
            if let Err(died) = self.may_die() {
                self.leave_behind(read, batch);
                return Err(died);
            }
            for _ in 0..batch {
                let pod = new_pod(&read.object, self.now);
                self.create_pod(pod);
            }
        }
        for pod in &plan.delete {
            self.may_die()?;
            let head = self.head();
            if let Some(held) = head.pods.get(&pod.key.name).filter(|held| !held.terminating) {
                self.put_pod(&pod.key.name, Pod { terminating: true, ..held.object.clone() });
            }
        }
        self.may_die()?;
        let news = plan.throttle.as_ref().map_or(News::Good, |_| News::Unknown);
        let status = replica_set::status(&set, &read.object, &plan, &news, self.now).0;
        if read.object.at(&["status"]) != Some(&status) {
            self.put_set((&read.key, read.revision), |object| object.set(&["status"], status));
        }
        Ok(())
    }

    /// A batch at the moment of death: a part is done, a part is still on its way, a part was never sent. What an
    /// earlier process had on its way has arrived by now.
    fn leave_behind(&mut self, set: &Cached<Object>, batch: usize) {
        self.arrive(usize::MAX);
        for _ in 0..batch {
            let pod = new_pod(&set.object, self.now);
            match self.random.random_range(0..4) {
                0 => self.create_pod(pod),
                1 | 2 => self.late.push(pod),
                _ => {}
            }
        }
    }

    /// Carries out so many of the creates that were on their way.
    pub(super) fn arrive(&mut self, count: usize) {
        for _ in 0..count.min(self.late.len()) {
            let pod = self.late.pop().expect("counted");
            self.create_pod(pod);
        }
    }
}

fn new_pod(set: &Object, now: jiff::Timestamp) -> Pod {
    let labels = set.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_object).expect("labels");
    let mut labels: Vec<(Box<str>, Box<str>)> =
        labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into())).collect();
    labels.sort();
    let owner: OwnerReference = controller_reference(set);
    Pod { labels, owners: vec![owner], created: now, node: "n".into(), ..Pod::default() }
}
