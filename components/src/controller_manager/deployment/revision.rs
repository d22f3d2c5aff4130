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
            let history = held.get(HISTORY).filter(|h| !h.is_empty());
            let history = history.map_or_else(|| before.clone(), |history| format!("{history},{before}"));
            wanted.insert(HISTORY.into(), history);
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

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
