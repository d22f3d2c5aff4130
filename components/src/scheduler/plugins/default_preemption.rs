//! DefaultPreemption: when no node fits, tells on which nodes evicting pods of lower priority could help.
//!
//! Words and counting are those of Kubernetes 1.36.

use std::sync::Arc;

use crate::scheduler::framework::{
    Code, CycleState, Diagnosis, Plugin, PostFilter, PostFilterOutcome, Profile, Reason, available,
};
use crate::scheduler::{NodeInfo, Pod, Snapshot};

const NO_VICTIMS: Reason = Reason::Borrowed("No preemption victims found for incoming pod");
const NOT_HELPFUL: Reason = Reason::Borrowed("Preemption is not helpful for scheduling");

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
    ) -> PostFilterOutcome {
        if pod.asks().never_preempts {
            return tail("not eligible due to preemptionPolicy=Never.");
        }
        let mut reasons: Vec<Reason> = Vec::new();
        for (at, rejection) in &diagnosis.rejections {
            if rejection.code == Code::Unresolvable {
                reasons.push(NOT_HELPFUL);
                continue;
            }
            match without_lower(nodes.node(*at), pod.priority) {
                None => reasons.push(NO_VICTIMS),
                Some(emptied) => match profile.filter(state, pod, &emptied) {
                    Err(still) => reasons.extend(still.reasons),
                    Ok(()) => return PostFilterOutcome::default(),
                },
            }
        }
        let unnamed = nodes.len().saturating_sub(diagnosis.rejections.len());
        reasons.extend(std::iter::repeat_n(NOT_HELPFUL, unnamed));
        tail(&available(nodes.len(), reasons.iter()))
    }
}

/// The node without the pods of a lower priority; `None` if there are none.
fn without_lower(node: &Arc<NodeInfo>, priority: i32) -> Option<NodeInfo> {
    let victims: Vec<_> = node.pods.iter().filter(|p| p.priority < priority).map(|p| p.key.clone()).collect();
    if victims.is_empty() {
        return None;
    }
    let mut emptied = NodeInfo::clone(node);
    for key in &victims {
        emptied.remove_pod(key);
    }
    Some(emptied)
}

fn tail(words: &str) -> PostFilterOutcome {
    PostFilterOutcome { message: format!("no new claims to deallocate, preemption: {words}") }
}
