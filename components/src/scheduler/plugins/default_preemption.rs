//! DefaultPreemption: when no node fits, looks for the node where evicting pods of lower priority makes room at the least
//! harm, and promises it to the pod; or says why no eviction helps.
//!
//! Words, counting and order are those of Kubernetes 1.36. Budgets are heeded as the snapshot has them, which follows
//! the watch of PodDisruptionBudgets.

use super::victims::{Candidate, DryRun, least_harm};
use crate::scheduler::framework::{
    Code, CycleState, Diagnosis, Nomination, Plugin, PostFilter, PostFilterOutcome, Profile, Reason, available,
};
use crate::scheduler::{Pod, Snapshot};

const NOT_HELPFUL: Reason = Reason::Borrowed("Preemption is not helpful for scheduling");

/// Of many nodes so many that could be had are enough: a tenth, and this many at least.
const CANDIDATES_MIN: usize = 100;

/// See the module.
pub struct DefaultPreemption;

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        "DefaultPreemption"
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        profile: &Profile,
        state: &CycleState,
        pod: &Pod,
        nodes: &Snapshot,
        diagnosis: &Diagnosis,
        turn: usize,
    ) -> PostFilterOutcome {
        if pod.asks().never_preempts {
            return tail("not eligible due to preemptionPolicy=Never.", Nomination::Keep);
        }
        if waits_for_victims(pod, nodes, diagnosis) {
            return tail("not eligible due to a terminating pod on the nominated node.", Nomination::Keep);
        }
        match candidates(&DryRun { profile, state, pod, budgets: nodes.budgets() }, nodes, diagnosis, turn) {
            Ok(candidates) => match least_harm(candidates) {
                Some(best) => {
                    let node = nodes.node(best.place).object().name.clone();
                    let nomination = Nomination::Node { node, victims: best.victims };
                    PostFilterOutcome { message: String::new(), nomination }
                }
                None => PostFilterOutcome::default(),
            },
            Err(reasons) => tail(&available(nodes.len(), reasons.iter()), Nomination::Withdraw),
        }
    }
}

/// Whether pods that were told to go for this one are still going.
fn waits_for_victims(pod: &Pod, nodes: &Snapshot, diagnosis: &Diagnosis) -> bool {
    let Some(place) = nodes.nominations().of(&pod.key).and_then(|name| nodes.place(name)) else { return false };
    let going = |other: &Pod| other.terminating && other.preempted && other.priority < pod.priority;
    diagnosis.code(place) != Some(Code::Unresolvable) && nodes.node(place).pods.iter().any(|other| going(other))
}

/// The nodes that could be had, or what is said of each node when none can.
fn candidates(
    dry_run: &DryRun<'_>,
    nodes: &Snapshot,
    diagnosis: &Diagnosis,
    turn: usize,
) -> Result<Vec<Candidate>, Vec<Reason>> {
    let refused = diagnosis.rejections.iter().filter(|(_, refusal)| refusal.code == Code::Unschedulable);
    let places: Vec<usize> = refused.map(|(place, _)| *place).collect();
    let enough = (places.len() / 10).max(CANDIDATES_MIN);
    let (mut found, mut reasons) = (Vec::new(), Vec::new());
    for at in 0..places.len() {
        let place = places[(turn + at) % places.len()];
        let node = nodes.node(place);
        match dry_run.on(place, node, nodes.nominations().on(&node.object().name)) {
            Ok(candidate) => found.push(candidate),
            Err(more) => reasons.extend(more),
        }
        if found.len() >= enough && found.iter().any(|candidate: &Candidate| candidate.violations == 0) {
            break;
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    reasons.extend(std::iter::repeat_n(NOT_HELPFUL, nodes.len() - places.len()));
    Err(reasons)
}

fn tail(words: &str, nomination: Nomination) -> PostFilterOutcome {
    PostFilterOutcome { message: format!("no new claims to deallocate, preemption: {words}"), nomination }
}
