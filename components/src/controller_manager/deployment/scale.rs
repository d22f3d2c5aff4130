//! Scaling a deployment while more than one of its sets has pods: each gets its share (Kubernetes 1.36, `scale`).

use super::rolling::Sizes;
use super::{Deployment, Set, Strategy};

/// Whether the number of wanted pods has changed since an active set was last scaled, so that shares are to be given
/// before anything else.
///
/// Recreate knows no shares: with several active sets its rollout is what brings the new size about. (In upstream such a
/// deployment, switched to Recreate and scaled in one write, stands still for ever.)
pub fn is_due(deployment: &Deployment, sets: &[Set]) -> bool {
    let active = || sets.iter().filter(|set| set.replicas > 0);
    if deployment.strategy == Strategy::Recreate && active().count() > 1 {
        return false;
    }
    active().any(|set| set.desired().is_some_and(|desired| desired != deployment.replicas))
}

/// The sizes that the sets are to have. A set that keeps its size is named too when its annotations are out of date:
/// else a rollout would take every later look for a scaling and stand still for ever.
pub fn sizes(deployment: &Deployment, new: Option<&Set>, old: &[&Set]) -> Sizes {
    if let Some(set) = active_or_latest(new, old) {
        return vec![(set.clone(), deployment.replicas)];
    }
    if new.is_some_and(|new| is_saturated(deployment, new)) {
        return old.iter().filter(|set| set.replicas > 0).map(|set| ((*set).clone(), 0)).collect();
    }
    if deployment.strategy == Strategy::Recreate {
        return Vec::new();
    }
    proportional(deployment, new, old)
}

/// The only active set, or the newest if none is.
fn active_or_latest<'a>(new: Option<&'a Set>, old: &[&'a Set]) -> Option<&'a Set> {
    let mut active = new.into_iter().chain(old.iter().copied()).filter(|set| set.replicas > 0);
    match (active.next(), active.next()) {
        (None, _) => new.or_else(|| old.iter().copied().max_by_key(|set| set.created)),
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
    }
}

fn is_saturated(deployment: &Deployment, new: &Set) -> bool {
    new.replicas == deployment.replicas
        && new.desired() == Some(deployment.replicas)
        && new.available == deployment.replicas
}

fn proportional(deployment: &Deployment, new: Option<&Set>, old: &[&Set]) -> Sizes {
    let mut active: Vec<&Set> = new.into_iter().chain(old.iter().copied()).filter(|set| set.replicas > 0).collect();
    let total: i64 = active.iter().map(|set| set.replicas).sum();
    let allowed = if deployment.replicas > 0 { deployment.max_pods() } else { 0 };
    let to_add = allowed - total;
    active.sort_by(|a, b| {
        let by_age = a.created.cmp(&b.created);
        let by_age = if to_add > 0 { by_age.reverse() } else { by_age };
        b.replicas.cmp(&a.replicas).then(by_age).then_with(|| a.key.name.cmp(&b.key.name))
    });
    let mut added = 0;
    let mut sizes: Sizes = active
        .into_iter()
        .map(|set| {
            let share = if to_add == 0 { 0 } else { share(deployment, set, to_add, added) };
            added += share;
            (set.clone(), set.replicas + share)
        })
        .collect();
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    sizes
}

/// The pods that a set gets of those to add (or loses of those to take away), of which some are spent.
fn share(deployment: &Deployment, set: &Set, to_add: i64, added: i64) -> i64 {
    let left = to_add - added;
    if deployment.replicas == 0 {
        return -set.replicas;
    }
    // Without the note of what was the most before, the number of pods there are is the best guess.
    let max_before = set.max().filter(|max| *max > 0).unwrap_or_else(|| deployment.pods_now());
    if max_before == 0 {
        return 0;
    }
    let wanted = (set.replicas as f64 * deployment.max_pods() as f64 / max_before as f64).round() as i64;
    let share = wanted - set.replicas;
    if to_add > 0 { share.min(left) } else { share.max(left) }
}

#[cfg(test)]
mod tests {
    use super::super::revision::{DESIRED, MAX};
    use super::super::rolling::tests::{deployment, set};
    use super::*;

    fn scaled(name: &str, replicas: i64, desired: i64, max: i64) -> Set {
        let mut set = set(name, replicas, replicas);
        set.annotations.insert(DESIRED.into(), desired.to_string());
        set.annotations.insert(MAX.into(), max.to_string());
        set
    }

    fn check(deployment: &Deployment, new: &Set, old: &[&Set], expected: &[(&str, i64)]) {
        let got: Vec<_> = sizes(deployment, Some(new), old).into_iter().map(|(s, n)| (s.key.name, n)).collect();
        let expected: Vec<_> = expected.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn the_known_answer_of_the_documentation() {
        let (new, old) = (scaled("new", 5, 10, 13), scaled("old", 8, 10, 13));
        check(&deployment(15, 3, 2), &new, &[&old], &[("old", 11), ("new", 7)]);
    }

    #[test]
    fn shares_follow_sizes() {
        let (new, old) = (scaled("new", 4, 10, 13), scaled("old", 9, 10, 13));
        check(&deployment(5, 3, 2), &new, &[&old], &[("old", 6), ("new", 2)]);
        check(&deployment(0, 0, 0), &new, &[&old], &[("old", 0), ("new", 0)]);
    }

    #[test]
    fn the_only_active_set_takes_it_all() {
        check(&deployment(7, 1, 0), &scaled("new", 3, 3, 4), &[&scaled("old", 0, 3, 4)], &[("new", 7)]);
        check(&deployment(7, 1, 0), &scaled("new", 0, 3, 4), &[&scaled("old", 2, 3, 4)], &[("old", 7)]);
        check(&deployment(7, 1, 0), &scaled("new", 0, 0, 1), &[&scaled("old", 0, 0, 1)], &[("new", 7)]);
        // The new set has what is wanted: the others have had their day.
        check(&deployment(3, 1, 0), &scaled("new", 3, 3, 4), &[&scaled("old", 1, 9, 4)], &[("old", 0)]);
    }

    #[test]
    fn an_old_annotation_is_refreshed_though_the_size_stays() {
        let (new, old) = (scaled("new", 4, 5, 5), scaled("old", 0, 5, 5));
        assert!(is_due(&deployment(4, 0, 1), &[new.clone(), old.clone()]));
        check(&deployment(4, 0, 1), &new, &[&old], &[("new", 4)]);
        let (new, old) = (scaled("new", 2, 5, 5), scaled("old", 2, 5, 5));
        check(&deployment(4, 0, 1), &new, &[&old], &[("new", 2), ("old", 2)]);
    }
}
