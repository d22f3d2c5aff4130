//! Who would have to go for a pod to fit, and on which node that hurts least (Kubernetes 1.36, DefaultPreemption).
//!
//! Invariants: only pods of a lower priority go; nobody goes who could stay; one node is looked at at a time.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use crate::scheduler::framework::{CycleState, Profile, Reason};
use crate::scheduler::{Budget, NodeInfo, Pod, budget};

/// Why a node cannot be had by evictions: nobody there is less important.
pub(super) const NO_VICTIMS: Reason = Reason::Borrowed("No preemption victims found for incoming pod");

/// A node that could be had.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Its place in the snapshot.
    pub(super) place: usize,
    /// Who has to go, the most important first.
    pub(super) victims: Vec<Arc<Pod>>,
    /// How many of them go beyond a budget.
    pub(super) violations: usize,
}

/// What a dry run goes by.
pub(super) struct DryRun<'a> {
    pub(super) profile: &'a Profile,
    pub(super) state: &'a CycleState,
    pub(super) pod: &'a Pod,
    pub(super) budgets: &'a [Budget],
}

/// When a pod started; one that has not yet is the latest.
fn started(pod: &Pod) -> &str {
    if pod.start_time.is_empty() { "~" } else { &pod.start_time }
}

/// The more important pod first: higher priority, then longer running.
fn by_importance(a: &Arc<Pod>, b: &Arc<Pod>) -> Ordering {
    b.priority.cmp(&a.priority).then_with(|| started(a).cmp(started(b)))
}

impl DryRun<'_> {
    /// Who has to go from a node; the reasons, if no eviction makes room.
    pub(super) fn on(&self, place: usize, node: &NodeInfo, promised: &[Arc<Pod>]) -> Result<Candidate, Vec<Reason>> {
        let mut lower: Vec<_> = node.pods.iter().filter(|p| p.priority < self.pod.priority).cloned().collect();
        if lower.is_empty() {
            return Err(vec![NO_VICTIMS]);
        }
        let mut rest = node.clone();
        for pod in &lower {
            rest.remove_pod(&pod.key);
        }
        self.profile.fits(self.state, self.pod, &rest, promised).map_err(|still| still.reasons)?;
        lower.sort_by(by_importance);
        let beyond = budget::violations(lower.iter().map(|pod| &**pod), self.budgets);
        let (mut victims, mut violations) = (Vec::new(), 0);
        // Given back as long as the pod fits: those under a budget before the others.
        for protected in [true, false] {
            for (pod, _) in lower.iter().zip(&beyond).filter(|(_, beyond)| **beyond == protected) {
                rest.add_pod(pod.clone());
                if self.profile.fits(self.state, self.pod, &rest, promised).is_err() {
                    rest.remove_pod(&pod.key);
                    victims.push(pod.clone());
                    violations += usize::from(protected);
                }
            }
        }
        victims.sort_by(by_importance);
        Ok(Candidate { place, victims, violations })
    }
}

/// The node where it hurts least; the first of equals.
pub(super) fn least_harm(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by(|a, b| harm(a).cmp(&harm(b)))
}

/// Fewest violations, then the least important top victim, the smallest sum of priorities (each counted from the lowest
/// there is, so that fewer victims nearly always win), the fewest victims, the latest start of the top victims.
fn harm(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<&str>) {
    let victims = &candidate.victims;
    let top = victims.first().map_or(i32::MIN, |pod| pod.priority);
    let sum = victims.iter().map(|pod| i64::from(pod.priority) - i64::from(i32::MIN)).sum();
    let earliest = victims.iter().filter(|pod| pod.priority == top).map(|pod| started(pod)).min().unwrap_or("~");
    (candidate.violations, top, sum, victims.len(), Reverse(earliest))
}
