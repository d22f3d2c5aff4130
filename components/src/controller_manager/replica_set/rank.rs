//! Which pods go first when a set has too many (Kubernetes 1.36, `ActivePodsWithRanks`).

use std::cmp::Ordering;
use std::collections::HashMap;

use jiff::Timestamp;

use crate::controller_manager::pod::{Phase, PodRef};

/// Sorts pods so that the first are those whose loss hurts least. `siblings` are the active pods of all sets of the same
/// owner: where many of them share a node, some may go.
pub fn deletion_order(pods: &mut [PodRef], siblings: &[PodRef], now: Timestamp) {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in siblings.iter().filter(|p| p.is_active()) {
        *on_node.entry(&pod.node).or_default() += 1;
    }
    pods.sort_by(|a, b| {
        let crowd = |pod: &PodRef| on_node.get(&*pod.node).copied().unwrap_or(0);
        (!a.node.is_empty())
            .cmp(&!b.node.is_empty())
            .then_with(|| known(a).cmp(&known(b)))
            .then_with(|| a.ready_since.is_some().cmp(&b.ready_since.is_some()))
            .then_with(|| a.deletion_cost.cmp(&b.deletion_cost))
            .then_with(|| crowd(b).cmp(&crowd(a)))
            .then_with(|| match (a.ready_since, b.ready_since) {
                (Some(x), Some(y)) => younger_first(x, y, a, b, now),
                _ => Ordering::Equal,
            })
            .then_with(|| b.restarts.cmp(&a.restarts))
            .then_with(|| younger_first(a.created, b.created, a, b, now))
            .then_with(|| a.uid.cmp(&b.uid))
    });
}

fn known(pod: &PodRef) -> Phase {
    pod.phase
}

/// Ages are compared by powers of two, so that among pods of about the same age the uid decides, as good as by chance.
fn younger_first(a: Timestamp, b: Timestamp, pod_a: &PodRef, pod_b: &PodRef, now: Timestamp) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    if a > now || b > now {
        return b.cmp(&a);
    }
    magnitude(now, a).cmp(&magnitude(now, b)).then_with(|| pod_a.uid.cmp(&pod_b.uid))
}

/// The power of two that an age in nanoseconds reaches; -1 for none.
fn magnitude(now: Timestamp, since: Timestamp) -> i64 {
    match u128::try_from(now.as_nanosecond() - since.as_nanosecond()) {
        Ok(0) | Err(_) => -1,
        Ok(age) => i64::from(age.ilog2()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Cached;
    use crate::controller_manager::pod::Pod;
    use listwatch_proto::resource::ObjectKey;
    use std::sync::Arc;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().expect("a time")
    }

    fn pod(uid: &str, change: impl FnOnce(&mut Pod)) -> PodRef {
        let since = |text: &str| text.parse::<Timestamp>().expect("a time");
        let mut object = Pod {
            node: "n".into(),
            phase: Phase::Running,
            created: since("2026-01-01T00:00:00Z"),
            ready_since: Some(since("2026-01-01T00:00:00Z")),
            ..Pod::default()
        };
        change(&mut object);
        Arc::new(Cached { key: ObjectKey::new("default", uid), uid: uid.into(), revision: 1, object })
    }

    /// Each pod of the list goes before the plain one.
    #[test]
    fn the_least_loss_goes_first() {
        let recent: Timestamp = "2026-01-01T00:59:59Z".parse().expect("a time");
        let cases: Vec<(&str, PodRef)> = vec![
            ("no node", pod("z", |p| p.node = "".into())),
            ("pending", pod("z", |p| p.phase = Phase::Pending)),
            ("unknown", pod("z", |p| p.phase = Phase::Unknown)),
            ("not ready", pod("z", |p| p.ready_since = None)),
            ("cheap", pod("z", |p| p.deletion_cost = -1)),
            ("crowded", pod("z", |p| p.node = "crowd".into())),
            ("ready for a shorter time", pod("z", |p| p.ready_since = Some(recent))),
            ("restarts", pod("z", |p| p.restarts = (1, 0))),
            ("restarts of a sidecar", pod("z", |p| p.restarts = (0, 1))),
            ("newer", pod("z", |p| p.created = recent)),
            ("lower uid", pod("b", |p| p.created = "2026-01-01T00:00:01Z".parse().expect("a time"))),
        ];
        let crowd = [pod("c1", |p| p.node = "crowd".into()), pod("c2", |p| p.node = "crowd".into())];
        for (name, first) in cases {
            let plain = pod("m", |_| {});
            let siblings = [crowd.as_slice(), std::slice::from_ref(&plain)].concat();
            for mut pods in [vec![plain.clone(), first.clone()], vec![first.clone(), plain]] {
                deletion_order(&mut pods, &siblings, now());
                assert_eq!(pods[0].uid, first.uid, "{name}");
            }
        }
    }
}
