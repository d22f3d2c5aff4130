//! Which pods are to go.

use crate::controller_manager::pod::PodRef;

/// Of the pods that have ended, those above the threshold, the oldest first. No threshold: none.
pub fn surplus(mut finished: Vec<PodRef>, threshold: usize) -> Vec<PodRef> {
    let count = finished.len().saturating_sub(threshold);
    if threshold == 0 || count == 0 {
        return Vec::new();
    }
    finished.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.key.cmp(&b.key)));
    finished.truncate(count);
    finished
}

/// Whether a pod was deleted before it had a node: no kubelet will ever finish that.
pub fn orphaned(pod: &PodRef) -> bool {
    pod.terminating && pod.node.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Cached;
    use crate::controller_manager::pod::Pod;
    use listwatch_proto::resource::ObjectKey;
    use std::sync::Arc;

    fn pod(name: &str, created: i64, change: impl FnOnce(&mut Pod)) -> PodRef {
        let mut object = Pod { created: jiff::Timestamp::from_second(created).expect("a time"), ..Pod::default() };
        change(&mut object);
        Arc::new(Cached { key: ObjectKey::new("default", name), uid: name.into(), revision: 1, object })
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let pods = || vec![pod("b", 2, |_| {}), pod("c", 3, |_| {}), pod("a", 1, |_| {})];
        let names = |threshold| surplus(pods(), threshold).iter().map(|p| p.key.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(1), ["a", "b"]);
        assert!(names(3).is_empty() && names(0).is_empty());
    }

    #[test]
    fn only_the_deleted_without_a_node_are_orphaned() {
        assert!(orphaned(&pod("a", 0, |p| p.terminating = true)));
        assert!(!orphaned(&pod("a", 0, |_| {})));
        assert!(!orphaned(&pod("a", 0, |p| {
            p.terminating = true;
            p.node = "n".into();
        })));
    }
}
