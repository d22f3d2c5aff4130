//! Which pods are to go.

use crate::controller_manager::node::{Node, Truth};
use crate::controller_manager::pod::{Pod, PodRef};

/// The taint by which an operator says that a node is down for good: what was deleted there need not be waited for.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The reason of a pod that its node has thrown out.
const EVICTED: &str = "Evicted";

/// Of the pods that have ended, those above the threshold: first those thrown out by their node, then the oldest. No
/// threshold: none.
pub fn surplus(mut finished: Vec<PodRef>, threshold: usize) -> Vec<PodRef> {
    let count = finished.len().saturating_sub(threshold);
    if threshold == 0 || count == 0 {
        return Vec::new();
    }
    let evicted = |pod: &Pod| pod.failure.as_ref().is_some_and(|failure| failure.0 == EVICTED);
    finished.sort_by(|a, b| {
        (!evicted(a), a.created).cmp(&(!evicted(b), b.created)).then_with(|| a.key.name.cmp(&b.key.name))
    });
    finished.truncate(count);
    finished
}

/// Whether a node is down and declared so.
pub fn out_of_service(node: &Node) -> bool {
    node.ready() != Truth::True && node.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Whether a pod was deleted and no kubelet will ever finish that: it has no node, or its node is out of service.
pub fn stranded(pod: &Pod, node: Option<&Node>) -> bool {
    pod.terminating && (pod.node.is_empty() || node.is_some_and(out_of_service))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Cached;
    use crate::controller_manager::node::Condition;
    use listwatch_proto::resource::{ObjectKey, Taint};
    use std::sync::Arc;

    fn pod(name: &str, created: i64, change: impl FnOnce(&mut Pod)) -> PodRef {
        let mut object = Pod { created: jiff::Timestamp::from_second(created).expect("a time"), ..Pod::default() };
        change(&mut object);
        Arc::new(Cached { key: ObjectKey::new("default", name), uid: name.into(), revision: 1, object })
    }

    #[test]
    fn the_evicted_and_the_oldest_go_when_there_are_too_many() {
        let evicted = |p: &mut Pod| p.failure = Some(Box::new((EVICTED.into(), String::new())));
        let pods = || vec![pod("b", 2, |_| {}), pod("c", 3, |_| {}), pod("d", 1, |_| {}), pod("e", 9, evicted)];
        let names = |threshold| surplus(pods(), threshold).iter().map(|p| p.key.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(1), ["e", "d", "b"]);
        assert_eq!(names(3), ["e"]);
        assert!(names(4).is_empty() && names(0).is_empty());
    }

    #[test]
    fn only_the_deleted_that_nobody_can_finish_are_stranded() {
        let deleted = |node: &str| {
            pod("a", 0, |p| {
                p.terminating = true;
                p.node = node.into();
            })
        };
        let node = |ready, key| Node {
            taints: vec![Taint::new(key, "NoExecute")],
            conditions: vec![Condition { kind: "Ready".into(), status: ready, ..Condition::default() }],
            ..Node::default()
        };
        let down = node(Truth::Unknown, OUT_OF_SERVICE);
        assert!(stranded(&deleted(""), None));
        assert!(!stranded(&pod("a", 0, |_| {}), None));
        assert!(!stranded(&deleted("n"), None));
        assert!(stranded(&deleted("n"), Some(&down)));
        assert!(!stranded(&pod("a", 0, |p| p.node = "n".into()), Some(&down)));
        assert!(!stranded(&deleted("n"), Some(&node(Truth::True, OUT_OF_SERVICE))));
        assert!(!stranded(&deleted("n"), Some(&node(Truth::Unknown, "k"))));
    }
}
