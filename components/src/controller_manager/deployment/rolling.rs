//! One step of a rolling update: how many pods each set is to have now (Kubernetes 1.36).
//!
//! Invariants: never more than the wanted number and the surge exist, never fewer than the wanted number less the
//! unavailable are left available by what is done here. For that a step is only taken once every set has seen the last
//! one: before, a set may be making or deleting pods for a size of the past, and its counts are those of the past.
//! Upstream goes by the sizes alone, so that for a moment a fast deployment and a slow set are out of bounds together.

use super::{Deployment, Set, Strategy};

/// Sets and their sizes to be.
pub type Sizes = Vec<(Set, i64)>;

/// How many pods may be added to those of all sets. A set takes up the pods it may have, and those it still has though it
/// may not.
pub fn room<'a>(deployment: &Deployment, sets: impl Iterator<Item = &'a Set> + Clone) -> i64 {
    if !sets.clone().all(|set| set.observed) {
        return 0;
    }
    deployment.max_pods() - sets.map(|set| set.replicas.max(set.present)).sum::<i64>()
}

/// The size that the new set is to have while there is room for so many more.
pub fn new_set_size(deployment: &Deployment, room: i64, new: i64) -> i64 {
    match deployment.strategy {
        Strategy::Recreate => deployment.replicas,
        Strategy::Rolling if new > deployment.replicas => deployment.replicas,
        Strategy::Rolling => new + room.clamp(0, deployment.replicas - new),
    }
}

/// The sizes that old sets are to have, as far as they change; empty: none may shrink now.
pub fn old_set_sizes(deployment: &Deployment, new: &Set, old: &[&Set]) -> Sizes {
    let old_total: i64 = old.iter().map(|set| set.replicas).sum();
    if old_total == 0 || !old.iter().all(|set| set.observed) || !new.observed {
        return Vec::new();
    }
    let total = old_total + new.replicas;
    let new_unavailable = new.replicas - counted(new);
    let mut budget = total - deployment.min_available() - new_unavailable;
    if budget <= 0 {
        return Vec::new();
    }
    let mut sets: Vec<(Set, i64)> = old.iter().map(|set| ((*set).clone(), set.replicas)).collect();
    sets.sort_by(|a, b| a.0.created.cmp(&b.0.created).then_with(|| a.0.key.name.cmp(&b.0.key.name)));
    // What is not available anyway costs nothing.
    for (set, size) in &mut sets {
        let unhealthy = (*size - set.available).clamp(0, budget);
        *size -= unhealthy;
        budget -= unhealthy;
    }
    let available: i64 = counted(new) + old.iter().map(|set| counted(set)).sum::<i64>();
    let mut spare = (available - deployment.min_available()).max(0);
    for (_, size) in &mut sets {
        let healthy = (*size).min(spare);
        *size -= healthy;
        spare -= healthy;
    }
    sets.retain(|(set, size)| *size != set.replicas);
    sets
}

/// The available pods that a set will still have. A status is made before pods are deleted: it counts some that are on
/// their way out, and taking those for spare would take the deployment below its minimum.
fn counted(set: &Set) -> i64 {
    set.available.min(set.replicas)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::controller_manager::deployment::fenceposts::Fenceposts;
    use listwatch_proto::resource::ObjectKey;
    use serde_json::Value;

    pub(crate) fn deployment(replicas: i64, surge: i64, unavailable: i64) -> Deployment {
        Deployment {
            key: ObjectKey::new("default", "web"),
            uid: "d".into(),
            generation: 1,
            terminating: false,
            annotations: Default::default(),
            replicas,
            selector: Value::Null,
            template: Value::Null,
            strategy: Strategy::Rolling,
            fenceposts: Fenceposts { surge, unavailable },
            min_ready_seconds: 0,
            paused: false,
            history_limit: Some(10),
            progress_deadline_seconds: Some(600),
            status: Value::Null,
            collisions: 0,
        }
    }

    pub(crate) fn set(name: &str, replicas: i64, available: i64) -> Set {
        Set {
            key: ObjectKey::new("default", name),
            uid: name.into(),
            revision_read: 1,
            created: jiff::Timestamp::UNIX_EPOCH,
            terminating: false,
            annotations: Default::default(),
            replicas,
            min_ready_seconds: 0,
            template: Value::Null,
            present: available,
            ready: available,
            available,
            going: Some(0),
            observed: true,
            failure: None,
        }
    }

    fn sizes(deployment: &Deployment, new: &Set, old: &[&Set]) -> Vec<(String, i64)> {
        old_set_sizes(deployment, new, old).into_iter().map(|(set, size)| (set.key.name, size)).collect()
    }

    #[test]
    fn an_update_of_three_goes_in_upstreams_steps() {
        let deployment = deployment(3, 1, 0);
        let (mut new, mut old) = (set("new", 0, 0), set("old", 3, 3));
        let mut steps = Vec::new();
        // Each turn: size the sets; what was made is then made available.
        while old.replicas > 0 || new.replicas < 3 {
            let size = new_set_size(&deployment, room(&deployment, [&new, &old].into_iter()), new.replicas);
            if size != new.replicas {
                steps.push(format!("up {}→{size}", new.replicas));
                new.replicas = size;
            } else if let [(_, size)] = old_set_sizes(&deployment, &new, &[&old]).as_slice() {
                steps.push(format!("down {}→{size}", old.replicas));
                (old.replicas, old.available, old.present) = (*size, *size, *size);
            } else {
                assert_ne!(new.available, new.replicas, "stands still after {steps:?}");
                (new.available, new.present) = (new.replicas, new.replicas);
            }
        }
        assert_eq!(steps, ["up 0→1", "down 3→2", "up 1→2", "down 2→1", "up 2→3", "down 1→0"]);
    }

    #[test]
    fn new_sets_grow_into_the_room_there_is() {
        let check = |replicas, surge, total, new, expected| {
            let deployment = deployment(replicas, surge, 0);
            let size = new_set_size(&deployment, deployment.max_pods() - total, new);
            assert_eq!(size, expected, "{replicas} {total} {new}");
        };
        check(3, 1, 0, 0, 3);
        check(3, 1, 3, 0, 1);
        check(3, 1, 4, 1, 1);
        check(10, 3, 10, 0, 3);
        check(10, 3, 8, 0, 5);
        check(3, 1, 9, 5, 3);
        check(0, 0, 3, 0, 0);
    }

    #[test]
    fn the_unhealthy_go_first_and_the_oldest_before_others() {
        let older = |mut set: Set| {
            set.created = jiff::Timestamp::MIN;
            set
        };
        let ten = deployment(10, 0, 2);
        // Broken old pods are replaced without asking how many are available.
        assert_eq!(sizes(&ten, &set("new", 0, 0), &[&set("old", 10, 5)]), [("old".into(), 8)]);
        // A budget spent on the unhealthy of the oldest set first.
        let (a, b) = (older(set("a", 5, 4)), set("b", 5, 5));
        assert_eq!(sizes(&ten, &set("new", 0, 0), &[&b, &a]), [("a".into(), 3)]);
        // New pods that are not available hold the old ones.
        assert_eq!(sizes(&ten, &set("new", 4, 0), &[&set("old", 8, 8)]), []);
        assert_eq!(sizes(&ten, &set("new", 4, 4), &[&set("old", 8, 8)]), [("old".into(), 4)]);
        assert_eq!(sizes(&deployment(3, 1, 0), &set("new", 3, 3), &[&set("old", 1, 1)]), [("old".into(), 0)]);
    }

    #[test]
    fn pods_on_their_way_out_are_not_spare() {
        // The old set was just made smaller by two; its status still counts ten.
        let (ten, old) = (deployment(10, 3, 2), set("old", 8, 10));
        assert_eq!(sizes(&ten, &set("new", 5, 5), &[&old]), [("old".into(), 3)]);
        // Counts of a set that has not seen its present size say nothing.
        let unaware = |set: Set| Set { observed: false, ..set };
        assert_eq!(sizes(&ten, &unaware(set("new", 5, 5)), &[&old]), []);
        assert_eq!(sizes(&ten, &set("new", 5, 5), &[&unaware(old)]), []);
    }

    #[test]
    fn everything_may_go_when_nothing_is_wanted() {
        assert_eq!(sizes(&deployment(0, 0, 0), &set("new", 0, 0), &[&set("old", 3, 3)]), [("old".into(), 0)]);
    }
}
