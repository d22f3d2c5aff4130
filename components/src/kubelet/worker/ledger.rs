//! What admitted pods have taken of the node.
//!
//! Invariant: a pod is judged and entered under one lock, so that two pods never both get the last place; it is struck
//! out only when its containers are gone.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use listwatch_proto::resource::Resources;
use parking_lot::Mutex;

use super::super::pod::admission::{self, Rejection};

/// The node's book of admitted pods.
#[derive(Debug)]
pub(in crate::kubelet) struct Ledger {
    allocatable: Resources,
    /// Guards judging and entering together.
    admitted: Mutex<HashMap<String, Resources>>,
}

impl Ledger {
    /// A node that offers so much, and has no pods yet.
    pub(in crate::kubelet) fn new(allocatable: Resources) -> Self {
        Ledger { allocatable, admitted: Mutex::default() }
    }

    /// Enters a pod that was admitted in an earlier life of the kubelet.
    pub(super) fn enter(&self, uid: &str, pod: &Pod) {
        self.admitted.lock().insert(uid.to_owned(), admission::requests(pod));
    }

    /// Judges a pod against the others and enters it.
    pub(super) fn admit(&self, uid: &str, pod: &Pod, node: &Node) -> Result<(), Rejection> {
        let mut admitted = self.admitted.lock();
        let mut used = Resources::new();
        for (_, requests) in admitted.iter().filter(|(other, _)| *other != uid) {
            for (name, amount) in requests {
                *used.entry(name.clone()).or_default() += *amount;
            }
        }
        admission::admit(pod, node, &self.allocatable, &used)?;
        admitted.insert(uid.to_owned(), admission::requests(pod));
        Ok(())
    }

    /// Strikes a pod out.
    pub(super) fn leave(&self, uid: &str) {
        self.admitted.lock().remove(uid);
    }
}
