//! Why no node was found, in upstream's exact words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{Code, NO_NODES_AT_ALL, Nomination, Reason, Rejection};

/// What is said when there is no node at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// What became of each node in a cycle that found none.
#[derive(Debug, Clone, Default)]
pub struct Diagnosis {
    /// The number of nodes.
    pub nodes: usize,
    /// The refusals, by the node's place in the snapshot.
    pub rejections: Vec<(usize, Rejection)>,
    /// The refusal of all nodes not named there: those that a pre-filter left out.
    pub others: Option<Rejection>,
    /// A pre-filter refused the pod itself: its words, said once and without counts.
    pub pre_filter: Option<String>,
    /// What a post-filter adds; empty: nothing.
    pub post_filter: String,
    /// What becomes of the node that the pod was promised.
    pub nomination: Nomination,
}

impl Diagnosis {
    /// Who refused: an event that cures one of these brings the pod back.
    pub fn plugins(&self) -> BTreeSet<&'static str> {
        if self.nodes == 0 {
            return BTreeSet::from([NO_NODES_AT_ALL]);
        }
        self.rejections.iter().map(|(_, r)| r.plugin).chain(self.others.as_ref().map(|r| r.plugin)).collect()
    }

    /// The message of the condition and the event.
    pub fn message(&self) -> String {
        if self.nodes == 0 {
            return NO_NODES.to_owned();
        }
        let mut message = match &self.pre_filter {
            Some(words) => format!("0/{} nodes are available: {words}.", self.nodes),
            None => available(self.nodes, self.reasons()),
        };
        if !self.post_filter.is_empty() {
            let _ = write!(message, " {}", self.post_filter);
        }
        message
    }

    /// How final the refusal of the node in a place is; `None`: it was not refused.
    pub fn code(&self, place: usize) -> Option<Code> {
        let named = self.rejections.iter().find(|(at, _)| *at == place).map(|(_, refusal)| refusal);
        named.or(self.others.as_ref()).map(|refusal| refusal.code)
    }

    fn reasons(&self) -> impl Iterator<Item = &Reason> {
        let unnamed = self.nodes.saturating_sub(self.rejections.len());
        let others = self.others.iter().flat_map(move |r| std::iter::repeat_n(r, unnamed));
        self.rejections.iter().map(|(_, r)| r).chain(others).flat_map(|r| &r.reasons)
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods.`: counts and reasons, sorted as text.
pub fn available<'a>(nodes: usize, reasons: impl Iterator<Item = &'a Reason>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut parts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort_unstable();
    let mut message = format!("0/{nodes} nodes are available");
    if parts.is_empty() {
        message.push_str(": ");
    } else {
        let _ = write!(message, ": {}", parts.join(", "));
    }
    message.push('.');
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_text() {
        let rejection = |reasons: &[&'static str]| Rejection {
            plugin: "P",
            code: Code::Unschedulable,
            reasons: reasons.iter().map(|r| Reason::Borrowed(*r)).collect(),
        };
        let mut rejections: Vec<_> = (0..10).map(|at| (at, rejection(&["node(s) had untolerated taint(s)"]))).collect();
        rejections.push((10, rejection(&["Insufficient cpu", "Too many pods"])));
        rejections.push((11, rejection(&["Insufficient cpu"])));
        let mut diagnosis = Diagnosis { nodes: 12, rejections, ..Diagnosis::default() };
        assert_eq!(
            diagnosis.message(),
            "0/12 nodes are available: 1 Too many pods, 10 node(s) had untolerated taint(s), 2 Insufficient cpu."
        );
        diagnosis.nodes = 14;
        diagnosis.others = Some(rejection(&["left out"]));
        diagnosis.post_filter = "tail.".into();
        assert!(diagnosis.message().ends_with("2 Insufficient cpu, 2 left out. tail."), "{}", diagnosis.message());
        assert_eq!(Diagnosis::default().message(), NO_NODES);
    }
}
