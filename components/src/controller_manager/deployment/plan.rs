//! What a deployment is to do, from what is.
//!
//! Invariant: pure and level-triggered: the same state gives the same steps, whoever looks and however often; a step that
//! was already taken is not in the plan.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::revision::{self, DESIRED, MAX, REVISION};
use super::template::{self, HASH_LABEL};
use super::{Deployment, Set, Strategy, rolling, scale};

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Make the set of the present template.
    Create(NewSet),
    /// Change what is written on a set, and its size if `to` differs from what it has.
    Change {
        /// The set as it was read.
        set: Set,
        /// Its size to be.
        to: i64,
        /// Its annotations to be.
        annotations: BTreeMap<String, String>,
        /// Its `spec.minReadySeconds` to be.
        min_ready_seconds: i64,
    },
    /// Forget a set that is no longer worth remembering.
    Delete(Set),
}

/// A set to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSet {
    /// Its name: the deployment's and the hash.
    pub name: String,
    /// The value of the hash label.
    pub hash: String,
    /// Its size.
    pub replicas: i64,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The writes on sets.
    pub steps: Vec<Step>,
    /// The number that the deployment is to bear, if it does not yet.
    pub revision: Option<i64>,
    /// Whether a rollout is on its way, so that progress is judged.
    pub rollout: bool,
    /// The set of the present template, by its place among the sets.
    pub new: Option<usize>,
}

/// Plans for a deployment with its sets. `old_pods_run`: whether a pod of an old set has not ended yet.
pub fn plan(deployment: &Deployment, sets: &[Set], old_pods_run: bool) -> Plan {
    let mut plan = Plan { new: find_new(deployment, sets), ..Plan::default() };
    if deployment.terminating {
        return plan;
    }
    let new = plan.new.map(|at| &sets[at]);
    let old: Vec<&Set> = sets.iter().enumerate().filter(|(at, _)| Some(*at) != plan.new).map(|(_, set)| set).collect();
    let number = revision::next(&old);
    let mut draft = Draft { deployment, steps: Vec::new() };
    if let Some(new) = new {
        draft.annotate(new, number);
        let written = new.revision().max(number);
        plan.revision = (deployment.annotations.get(REVISION) != Some(&written.to_string())).then_some(written);
    }
    if deployment.paused || scale::is_due(deployment, sets) {
        for (set, to) in scale::sizes(deployment, new, &old) {
            draft.resize(&set, to);
        }
        if deployment.paused {
            draft.forget(&old);
        }
        plan.steps = draft.steps;
        return plan;
    }
    plan.rollout = true;
    match deployment.strategy {
        Strategy::Rolling => roll(&mut draft, new, &old, number),
        Strategy::Recreate => recreate(&mut draft, new, &old, number, old_pods_run),
    }
    if draft.steps.is_empty() && super::status::is_complete(deployment, &deployment.status) {
        draft.forget(&old);
    }
    if let Some(Step::Create(_)) = draft.steps.first() {
        plan.revision = (deployment.annotations.get(REVISION) != Some(&number.to_string())).then_some(number);
    }
    plan.steps = draft.steps;
    plan
}

/// The set of the present template: the oldest, should there be several.
fn find_new(deployment: &Deployment, sets: &[Set]) -> Option<usize> {
    let same = |(_, set): &(usize, &Set)| template::same(&set.template, &deployment.template);
    let oldest = |(_, a): &(usize, &Set), (_, b): &(usize, &Set)| {
        a.created.cmp(&b.created).then_with(|| a.key.name.cmp(&b.key.name))
    };
    sets.iter().enumerate().filter(same).min_by(oldest).map(|(at, _)| at)
}

fn roll(draft: &mut Draft<'_>, new: Option<&Set>, old: &[&Set], number: i64) {
    let room = rolling::room(draft.deployment, old.iter().copied().chain(new));
    let Some(new) = new else {
        return draft.create(rolling::new_set_size(draft.deployment, room, 0), number);
    };
    let size = rolling::new_set_size(draft.deployment, room, new.replicas);
    if size != new.replicas {
        return draft.resize(new, size);
    }
    for (set, to) in rolling::old_set_sizes(draft.deployment, new, old) {
        draft.resize(&set, to);
    }
}

fn recreate(draft: &mut Draft<'_>, new: Option<&Set>, old: &[&Set], number: i64, old_pods_run: bool) {
    let active: Vec<_> = old.iter().filter(|set| set.replicas > 0).collect();
    if !active.is_empty() {
        return active.into_iter().for_each(|set| draft.resize(set, 0));
    }
    // What the sets say counts as well: they may know of pods that this cache does not show yet. One that has not seen
    // its present size may even be making pods for the size before.
    let empty = |set: &&Set| set.observed && set.present == 0 && set.going.unwrap_or(0) == 0;
    if old_pods_run || !old.iter().all(empty) {
        return;
    }
    match new {
        None => draft.create(draft.deployment.replicas, number),
        Some(new) => draft.resize(new, draft.deployment.replicas),
    }
}

/// Steps under construction.
struct Draft<'a> {
    deployment: &'a Deployment,
    steps: Vec<Step>,
}

impl Draft<'_> {
    /// Brings the annotations and the ready time of the new set up to date.
    fn annotate(&mut self, new: &Set, number: i64) {
        let annotations = revision::annotate(&self.deployment.annotations, &new.annotations, number);
        let min_ready_seconds = self.deployment.min_ready_seconds;
        if annotations != new.annotations || min_ready_seconds != new.min_ready_seconds {
            self.steps.push(Step::Change { set: new.clone(), to: new.replicas, annotations, min_ready_seconds });
        }
    }

    /// Gives a set a size, and notes on it for which size of the deployment that was.
    fn resize(&mut self, set: &Set, size: i64) {
        let sizes = self.sizes();
        let held = self.steps.iter_mut().find_map(|step| match step {
            Step::Change { set: held, to, annotations, .. } if held.uid == set.uid => Some((to, annotations)),
            _ => None,
        });
        if let Some((to, annotations)) = held {
            *to = size;
            annotations.extend(sizes);
            return;
        }
        let mut annotations = set.annotations.clone();
        annotations.extend(sizes);
        if size != set.replicas || annotations != set.annotations {
            let min_ready_seconds = set.min_ready_seconds;
            self.steps.push(Step::Change { set: set.clone(), to: size, annotations, min_ready_seconds });
        }
    }

    fn create(&mut self, replicas: i64, number: i64) {
        let hash = template::hash(&self.deployment.template, self.deployment.collisions);
        let mut annotations = revision::annotate(&self.deployment.annotations, &BTreeMap::new(), number);
        annotations.extend(self.sizes());
        let name = format!("{}-{hash}", self.deployment.key.name);
        self.steps.push(Step::Create(NewSet { name, hash, replicas, annotations }));
    }

    /// Old sets without pods beyond the history limit, the oldest revisions first.
    fn forget(&mut self, old: &[&Set]) {
        let Some(limit) = self.deployment.history_limit else { return };
        let mut sets: Vec<&&Set> = old.iter().filter(|set| !set.terminating).collect();
        sets.sort_by(|a, b| a.revision().cmp(&b.revision()).then(a.created.cmp(&b.created)));
        let surplus = sets.len().saturating_sub(limit);
        let idle = |set: &&&&Set| set.replicas == 0 && set.present == 0 && set.observed;
        self.steps.extend(sets.iter().take(surplus).filter(idle).map(|set| Step::Delete((**set).clone())));
    }

    fn sizes(&self) -> [(String, String); 2] {
        let deployment = self.deployment;
        [(DESIRED.into(), deployment.replicas.to_string()), (MAX.into(), deployment.max_pods().to_string())]
    }
}

impl NewSet {
    /// The object to be created.
    pub fn object(&self, deployment: &Deployment, owner: &listwatch_proto::resource::OwnerReference) -> Value {
        let mut template = deployment.template.clone();
        template["metadata"]["labels"][HASH_LABEL] = self.hash.clone().into();
        let mut selector = deployment.selector.clone();
        selector["matchLabels"][HASH_LABEL] = self.hash.clone().into();
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "namespace": deployment.key.namespace, "name": self.name,
                "labels": template["metadata"]["labels"], "annotations": self.annotations, "ownerReferences": [owner],
            },
            "spec": {
                "replicas": self.replicas, "minReadySeconds": deployment.min_ready_seconds,
                "selector": selector, "template": template,
            },
        })
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
