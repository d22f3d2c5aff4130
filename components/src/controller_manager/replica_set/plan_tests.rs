//! Plans of a replica set, as tables.

use super::*;
use crate::controller_manager::pod::{Phase, Pod};
use crate::controller_manager::replica_set::{FAILURES_FREE, PAUSE_MIN};
use listwatch_proto::resource::OwnerReference;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Timestamp {
    time("2026-01-01T01:00:00Z")
}

fn set(replicas: usize) -> Set {
    Set {
        key: ObjectKey::new("default", "web"),
        uid: "me".into(),
        replicas,
        selector: LabelSelector::parse("app=web").expect("valid"),
        min_ready_seconds: 0,
        template_labels: vec![("app".into(), "web".into())],
        terminating: false,
    }
}

/// A running pod: `owner/label` with flags `t`erminating, `f`ailed.
fn pod(name: &str, owner: &str, app: &str, flags: &str) -> PodRef {
    let reference = |uid: &str| OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: uid.into(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let object = Pod {
        labels: vec![("app".into(), app.into())],
        owners: if owner.is_empty() { Vec::new() } else { vec![reference(owner)] },
        created: time("2026-01-01T00:00:00Z"),
        terminating: flags.contains('t'),
        phase: if flags.contains('f') { Phase::Failed } else { Phase::Running },
        node: "n".into(),
        ..Pod::default()
    };
    Arc::new(Cached { key: ObjectKey::new("default", name), uid: name.into(), revision: 1, object })
}

fn names(pods: &[PodRef]) -> String {
    pods.iter().map(|p| p.key.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// `create`, then names: adopted | released | deleted.
fn check(set: &Set, pods: &[PodRef], expected: &str) {
    let plan = plan(set, pods, pods, now());
    let got = format!("{} {}|{}|{}", plan.create, names(&plan.adopt), names(&plan.release), names(&plan.delete));
    assert_eq!(got, expected, "{} of {}", names(pods), set.replicas);
}

#[test]
fn plans_bring_the_number_of_pods_to_what_is_wanted() {
    let mine = |name: &str| pod(name, "me", "web", "");
    check(&set(3), &[], "3 ||");
    check(&set(2000), &[], "500 ||");
    check(&set(2), &[mine("a"), mine("b")], "0 ||");
    check(&set(1), &[mine("a"), mine("b"), mine("c")], "0 ||a b");
    check(&set(0), &[mine("a")], "0 ||a");
    // What is going or has ended does not count.
    check(&set(2), &[mine("a"), pod("b", "me", "web", "t"), pod("c", "me", "web", "f")], "1 ||");
    // What nobody owns is taken in, and counts; what somebody else owns does not.
    check(&set(2), &[mine("a"), pod("b", "", "web", "")], "0 b||");
    check(&set(2), &[mine("a"), pod("b", "", "db", ""), pod("c", "other", "web", "")], "1 ||");
    check(&set(1), &[pod("b", "", "web", "t"), pod("c", "", "web", "f")], "1 ||");
    // What no longer fits is let go, and replaced.
    check(&set(1), &[pod("a", "me", "db", "")], "1 |a|");
    // A set that is going does nothing.
    let going = Set { terminating: true, ..set(3) };
    check(&going, &[mine("a"), pod("b", "", "web", ""), pod("c", "me", "db", "")], "0 ||");
}

#[test]
fn pods_that_fail_at_once_are_made_slowly() {
    let failed = |number: usize, created: &str| {
        let mut cached = Cached::clone(&pod(&format!("f{number}"), "me", "web", "f"));
        cached.object.created = time(created);
        Arc::new(cached)
    };
    let old: Vec<PodRef> = (0..FAILURES_FREE).map(|n| failed(n, "2026-01-01T00:00:00Z")).collect();
    let slow = plan(&set(3), &old, &[], now());
    assert_eq!((slow.create, slow.again_after, slow.throttle.is_some()), (1, Some(PAUSE_MIN + MARGIN), true));
    let mut fresh = old.clone();
    fresh[3] = failed(3, "2026-01-01T01:00:00Z");
    let none = plan(&set(3), &fresh, &[], now());
    assert_eq!((none.create, none.again_after), (0, Some(PAUSE_MIN + MARGIN)));
    // The one that was just made has not failed yet: the next waits all the same.
    let made = [
        old.clone(),
        vec![Arc::new(Cached {
            object: Pod { created: now(), ..pod("new", "me", "web", "").object.clone() },
            ..Cached::clone(&pod("new", "me", "web", ""))
        })],
    ]
    .concat();
    assert_eq!(plan(&set(3), &made, &[], now()).create, 0);
    let few = plan(&set(3), &old[1..], &[], now());
    assert_eq!((few.create, few.throttle.is_some()), (3, false));
    // Too many pods are taken away as ever, and what is wanted and there needs no word about the failures.
    assert!(plan(&set(0), &old, &[], now()).throttle.is_none());
}

#[test]
fn a_run_is_due_when_a_ready_pod_becomes_available() {
    let mut cached = Cached::clone(&pod("a", "me", "web", ""));
    cached.object.ready_since = Some(time("2026-01-01T00:59:55Z"));
    let pods = [Arc::new(cached)];
    let waiting = Set { min_ready_seconds: 20, ..set(1) };
    assert_eq!(plan(&waiting, &pods, &[], now()).again_after, Some(SignedDuration::from_millis(15_010)));
    assert_eq!(plan(&set(1), &pods, &[], now()).again_after, None);
}
