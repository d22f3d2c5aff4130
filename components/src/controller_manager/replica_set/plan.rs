//! What a set is to do, from what is.
//!
//! Invariant: pure, so that it can be tested as a table. The caller sees to it that the caches show every own write before
//! a plan is made; so no count of expected events is needed, and none can go wrong.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use listwatch_proto::resource::{LabelSelector, Object, ObjectKey};

use super::{Throttle, deletion_order, throttle};
use crate::client::Cached;
use crate::controller_manager::ownership::{self, Claim, Claimable, claim};
use crate::controller_manager::pod::PodRef;

/// Pods that one run creates or deletes at most (upstream's number): a run must end, so that others are heard.
const BURST: usize = 500;

/// A look for the sake of the time comes a little later than that, so that it is certainly over.
const MARGIN: SignedDuration = SignedDuration::from_millis(10);

/// A set as the plan sees it.
#[derive(Debug, Clone)]
pub struct Set {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its uid.
    pub uid: String,
    /// `spec.replicas`.
    pub replicas: usize,
    /// `spec.selector`.
    pub selector: LabelSelector,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i64,
    /// The labels of its template.
    pub template_labels: Vec<(String, String)>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Pods to take as its own.
    pub adopt: Vec<PodRef>,
    /// Pods to let go.
    pub release: Vec<PodRef>,
    /// How many to create.
    pub create: usize,
    /// Which to delete.
    pub delete: Vec<PodRef>,
    /// The pods that count: active and its own, once adopted.
    pub active: Vec<PodRef>,
    /// How many of its own are on their way out.
    pub terminating: usize,
    /// Pods are made slowly because too many have failed.
    pub throttle: Option<Throttle>,
    /// Come again after this time at the latest.
    pub again_after: Option<SignedDuration>,
}

impl Set {
    /// Reads a set; `None` if it has no usable selector, which the server does not let pass.
    pub fn of(cached: &Arc<Cached<Object>>) -> Option<Self> {
        let object = &cached.object;
        let labels = object.at(&["spec", "template", "metadata", "labels"]).and_then(|l| l.as_object());
        let label = |(key, value): (&String, &serde_json::Value)| Some((key.clone(), value.as_str()?.to_owned()));
        Some(Set {
            key: cached.key.clone(),
            uid: cached.uid.clone(),
            replicas: usize::try_from(object.int(&["spec", "replicas"]).unwrap_or(1)).unwrap_or(0),
            selector: ownership::selector(object)?,
            min_ready_seconds: object.int(&["spec", "minReadySeconds"]).unwrap_or(0),
            template_labels: labels.into_iter().flatten().filter_map(label).collect(),
            terminating: object.is_terminating(),
        })
    }
}

/// Plans for a set. `pods` are those it owns and those nobody owns; `siblings` those of all sets of its owner.
pub fn plan(set: &Set, pods: &[PodRef], siblings: &[PodRef], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut own = Vec::new();
    for pod in pods {
        let fits = set.selector.matches(|key| pod.label(key));
        let object = Claimable { controller: pod.controller(), fits, terminating: pod.terminating };
        match claim(&set.uid, set.terminating, object) {
            Claim::Keep => own.push(pod.clone()),
            // Pods that have ended are of no use to anybody.
            Claim::Adopt if pod.is_active() => {
                plan.adopt.push(pod.clone());
                own.push(pod.clone());
            }
            Claim::Release => plan.release.push(pod.clone()),
            Claim::Adopt | Claim::Ignore => {}
        }
    }
    plan.terminating = own.iter().filter(|p| p.terminating && !p.is_finished()).count();
    plan.active = own.iter().filter(|p| p.is_active()).cloned().collect();
    let count = plan.active.len();
    if set.terminating {
        // The garbage collector sees to the rest.
    } else if count < set.replicas {
        plan.create = (set.replicas - count).min(BURST);
        plan.throttle = throttle(&own, now);
        if let Some(throttle) = &plan.throttle {
            plan.create = usize::from(throttle.wait.is_zero());
            let again_after = if throttle.wait.is_zero() { throttle.pause } else { throttle.wait };
            plan.again_after = Some(again_after + MARGIN);
        }
    } else if count > set.replicas {
        let mut order = plan.active.clone();
        deletion_order(&mut order, siblings, now);
        order.truncate((count - set.replicas).min(BURST));
        plan.delete = order;
    }
    let soonest = next_available(set, &plan.active, now);
    plan.again_after = [plan.again_after, soonest].into_iter().flatten().min();
    plan
}

/// When the next ready pod becomes available.
fn next_available(set: &Set, active: &[PodRef], now: Timestamp) -> Option<SignedDuration> {
    let at = active.iter().filter_map(|pod| pod.available_at(set.min_ready_seconds)).filter(|at| *at > now).min()?;
    Some(at.duration_since(now) + MARGIN)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
