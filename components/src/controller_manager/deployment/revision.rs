//! Numbers of revisions, and the annotations that travel from a deployment to its sets (Kubernetes 1.36).

use std::collections::BTreeMap;

use super::Set;

/// The revision that a set stands for, and that a deployment is at.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that a set had before.
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The deployment's replicas when the set was last scaled.
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The deployment's replicas and surge when the set was last scaled.
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// How long the list of former numbers may get, in bytes; the oldest are dropped (upstream's limit).
const HISTORY_MAX: usize = 2000;

/// Annotations of a deployment that its sets do not get.
const OWN: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
];

/// The number that the newest set is to have: one above all the others.
pub fn next(old: &[&Set]) -> i64 {
    old.iter().map(|set| set.revision()).max().unwrap_or(0) + 1
}

/// The annotations that a set of this revision is to have, given those it has: those of its deployment, and its number
/// with the history of it. Nothing is taken away.
pub fn annotate(
    deployment: &BTreeMap<String, String>,
    held: &BTreeMap<String, String>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut wanted = held.clone();
    let travels = |(key, _): &(&String, &String)| !OWN.contains(&key.as_str());
    wanted.extend(deployment.iter().filter(travels).map(|(k, v)| (k.clone(), v.clone())));
    let before = held.get(REVISION);
    if before.and_then(|number| number.parse::<i64>().ok()).unwrap_or(0) < revision {
        wanted.insert(REVISION.into(), revision.to_string());
        if let Some(before) = before {
            wanted.insert(HISTORY.into(), remember(held.get(HISTORY).map_or("", String::as_str), before));
        }
    }
    wanted
}

/// The list of former numbers with one more, as far as there is room.
fn remember(history: &str, before: &str) -> String {
    let mut numbers: Vec<&str> = history.split(',').filter(|number| !number.is_empty()).chain([before]).collect();
    while numbers.len() > 1 && numbers.iter().map(|number| number.len() + 1).sum::<usize>() > HISTORY_MAX + 1 {
        numbers.remove(0);
    }
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_of_a_set_does_not_grow_without_end() {
        assert_eq!(remember("", "1"), "1");
        assert_eq!(remember("1,4", "9"), "1,4,9");
        let full = vec!["1234"; 400].join(",");
        let longer = remember(&full, "5678");
        assert!(longer.len() <= HISTORY_MAX && longer.ends_with(",1234,5678"), "{} bytes", longer.len());
        assert!(longer.len() > HISTORY_MAX - 5, "no more is forgotten than must be");
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn annotations_travel_and_numbers_are_remembered() {
        let deployment = map(&[("kubernetes.io/change-cause", "why"), (REVISION, "7"), (OWN[0], "{}")]);
        let new = annotate(&deployment, &map(&[]), 1);
        assert_eq!(new, map(&[("kubernetes.io/change-cause", "why"), (REVISION, "1")]));
        let back = annotate(&deployment, &map(&[(REVISION, "1"), (DESIRED, "3")]), 4);
        assert_eq!((back[REVISION].as_str(), back[HISTORY].as_str(), back[DESIRED].as_str()), ("4", "1", "3"));
        let again = annotate(&deployment, &back, 6);
        assert_eq!((again[REVISION].as_str(), again[HISTORY].as_str()), ("6", "1,4"));
        assert_eq!(annotate(&deployment, &again, 5), again, "a number never falls");
    }
}
