//! What admitted pods have taken of the node.
//!
//! Invariant: a pod is judged and entered under one lock, so that two pods never both get the last place; it is struck
//! out only when its containers are gone.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use listwatch_proto::resource::Resources;
use parking_lot::Mutex;

use super::super::pod::admission::{self, Rejection, Share};

/// The node's book of admitted pods.
#[derive(Debug)]
pub(in crate::kubelet) struct Ledger {
    allocatable: Resources,
    /// Guards judging and entering together.
    admitted: Mutex<HashMap<String, Share>>,
}

impl Ledger {
    /// A node that offers so much, and has no pods yet.
    pub(in crate::kubelet) fn new(allocatable: Resources) -> Self {
        Ledger { allocatable, admitted: Mutex::default() }
    }

    /// Enters a pod that was admitted in an earlier life of the kubelet.
    pub(super) fn enter(&self, uid: &str, pod: &Pod) {
        self.admitted.lock().insert(uid.to_owned(), Share::of(pod));
    }

    /// Judges a pod against the others and enters it.
    pub(super) fn admit(&self, uid: &str, pod: &Pod, node: &Node) -> Result<(), Rejection> {
        let share = Share::of(pod);
        let mut admitted = self.admitted.lock();
        let others: Vec<_> = admitted.iter().filter(|(other, _)| *other != uid).map(|(_, share)| share).collect();
        admission::admit(pod, &share, node, &self.allocatable, &others)?;
        admitted.insert(uid.to_owned(), share);
        Ok(())
    }

    /// Strikes a pod out.
    pub(super) fn leave(&self, uid: &str) {
        self.admitted.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_place_is_given_once_and_again_when_it_is_free() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        }))
        .expect("a pod");
        let allocatable = [("cpu", "4"), ("pods", "110")];
        let ledger = Ledger::new(
            allocatable.iter().map(|(name, text)| ((*name).to_owned(), text.parse().expect("a quantity"))).collect(),
        );
        let node = Node::default();
        assert_eq!(ledger.admit("a", &pod, &node), Ok(()));
        assert_eq!(ledger.admit("a", &pod, &node), Ok(()), "a pod does not stand in its own way");
        assert_eq!(ledger.admit("b", &pod, &node).expect_err("full").reason, "OutOfcpu");
        ledger.leave("a");
        assert_eq!(ledger.admit("b", &pod, &node), Ok(()));
    }
}
