//! Which pods of a node go, and which stand in the way (kubectl 1.36's rules and words).

use std::collections::BTreeMap;

use jiff::Timestamp;
use listwatch_proto::resource::{Object, parse_time};
use serde_json::Value;

/// What the person allows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed {
    /// Pods that nobody makes anew.
    pub(super) unmanaged: bool,
    /// Pods whose local data is lost.
    pub(super) local_data: bool,
    /// Pods of daemon sets may stay.
    pub(super) daemons_stay: bool,
    /// Pods that have been going for more than so many seconds are left alone; 0: none are.
    pub(super) leave_going: i64,
}

/// What is to be done about the pods of a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// Those that go.
    pub(super) go: Vec<Object>,
    /// What a person should know; empty: nothing.
    pub(super) warnings: String,
    /// Why it cannot be done.
    pub(super) obstacles: Vec<String>,
}

/// What one rule says of a pod.
enum Verdict {
    Goes,
    GoesWith(String),
    Stays,
    StaysWith(String),
    Hinders(String),
}

/// Judges every pod; `has_daemon` says whether the daemon set of a pod is there.
pub(super) fn choose(
    pods: Vec<Object>,
    allowed: Allowed,
    now: Timestamp,
    has_daemon: impl Fn(&Object) -> bool,
) -> Choice {
    let mut choice = Choice::default();
    let (mut warnings, mut obstacles) = (BTreeMap::new(), BTreeMap::new());
    for pod in pods {
        let name = format!("{}/{}", pod.namespace(), pod.name());
        // The last rule's word counts, as with kubectl.
        let mut verdict = Verdict::Goes;
        let rules: [&dyn Fn() -> Verdict; 5] = [
            &|| going(&pod, allowed, now),
            &|| daemon(&pod, allowed, &has_daemon),
            &|| if pod.annotation("kubernetes.io/config.mirror").is_some() { Verdict::Stays } else { Verdict::Goes },
            &|| local_data(&pod, allowed),
            &|| unmanaged(&pod, allowed),
        ];
        for rule in rules {
            verdict = rule();
            if !matches!(verdict, Verdict::Goes | Verdict::GoesWith(_)) {
                break;
            }
        }
        match verdict {
            Verdict::Goes => choice.go.push(pod),
            Verdict::GoesWith(why) => {
                warnings.entry(why).or_insert_with(Vec::new).push(name);
                choice.go.push(pod);
            }
            Verdict::Stays => {}
            Verdict::StaysWith(why) => warnings.entry(why).or_insert_with(Vec::new).push(name),
            Verdict::Hinders(why) => obstacles.entry(why).or_insert_with(Vec::new).push(name),
        }
    }
    let told = |(why, names): (String, Vec<String>)| format!("{why}: {}", names.join(", "));
    choice.warnings = warnings.into_iter().map(told).collect::<Vec<_>>().join("; ");
    choice.obstacles =
        obstacles.into_iter().map(|(why, names)| format!("cannot delete {why}: {}", names.join(", "))).collect();
    choice
}

fn is_done(pod: &Object) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

fn controller(pod: &Object) -> Option<&Value> {
    let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

/// The daemon set that made the pod.
pub(super) fn daemon_of(pod: &Object) -> Option<&str> {
    let owner = controller(pod)?;
    (owner["kind"] == "DaemonSet" && owner["apiVersion"] == "apps/v1").then(|| owner["name"].as_str()).flatten()
}

fn going(pod: &Object, allowed: Allowed, now: Timestamp) -> Verdict {
    let since = parse_time(pod.text(&["metadata", "deletionTimestamp"]));
    let is_long = since.is_some_and(|at| now.as_second() - at.as_second() > allowed.leave_going);
    if allowed.leave_going > 0 && is_long { Verdict::Stays } else { Verdict::Goes }
}

fn daemon(pod: &Object, allowed: Allowed, has_daemon: impl Fn(&Object) -> bool) -> Verdict {
    let Some(name) = daemon_of(pod) else { return Verdict::Goes };
    if is_done(pod) {
        return Verdict::Goes;
    }
    if !has_daemon(pod) {
        let why = format!("daemonsets.apps \"{name}\" not found");
        return if allowed.unmanaged { Verdict::GoesWith(why) } else { Verdict::Hinders(why) };
    }
    if allowed.daemons_stay {
        Verdict::StaysWith("ignoring DaemonSet-managed Pods".to_owned())
    } else {
        Verdict::Hinders("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)".to_owned())
    }
}

fn local_data(pod: &Object, allowed: Allowed) -> Verdict {
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array);
    let has_data = volumes.into_iter().flatten().any(|volume| !volume["emptyDir"].is_null());
    match (has_data && !is_done(pod), allowed.local_data) {
        (false, _) => Verdict::Goes,
        (true, true) => Verdict::GoesWith("deleting Pods with local storage".to_owned()),
        (true, false) => {
            Verdict::Hinders("Pods with local storage (use --delete-emptydir-data to override)".to_owned())
        }
    }
}

fn unmanaged(pod: &Object, allowed: Allowed) -> Verdict {
    match (is_done(pod) || controller(pod).is_some(), allowed.unmanaged) {
        (true, _) => Verdict::Goes,
        (false, true) => Verdict::GoesWith("deleting Pods that declare no controller".to_owned()),
        (false, false) => Verdict::Hinders("Pods that declare no controller (use --force to override)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, owner: &str, more: Value) -> Object {
        let mut pod = json!({"metadata": {"namespace": "n", "name": name}, "spec": {}, "status": {"phase": "Running"}});
        if !owner.is_empty() {
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": owner, "name": "x", "controller": true}]);
        }
        json_patch::merge(&mut pod, &more);
        Object::from_value(pod).expect("a map")
    }

    fn judge(pod: &Object, allowed: Allowed) -> (usize, String) {
        let now = Timestamp::from_second(1_800_000_000).expect("a time");
        let choice = choose(vec![pod.clone()], allowed, now, |_| true);
        (choice.go.len(), choice.warnings + &choice.obstacles.join(";"))
    }

    #[test]
    fn a_pod_goes_unless_a_rule_is_against_it() {
        let none = Allowed::default();
        let all = Allowed { unmanaged: true, local_data: true, daemons_stay: true, leave_going: 0 };
        let managed = pod("a", "ReplicaSet", json!({}));
        assert_eq!(judge(&managed, none), (1, String::new()));
        let bare = pod("a", "", json!({}));
        let problem = "cannot delete Pods that declare no controller (use --force to override): n/a";
        assert_eq!(judge(&bare, none), (0, problem.to_owned()));
        assert_eq!(judge(&bare, all), (1, "deleting Pods that declare no controller: n/a".to_owned()));
        let daemon = pod("a", "DaemonSet", json!({}));
        let problem = "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): n/a";
        assert_eq!(judge(&daemon, none), (0, problem.to_owned()));
        assert_eq!(judge(&daemon, all), (0, "ignoring DaemonSet-managed Pods: n/a".to_owned()));
        let data = pod("a", "ReplicaSet", json!({"spec": {"volumes": [{"emptyDir": {}}]}}));
        assert_eq!(judge(&data, none).0, 0);
        assert_eq!(judge(&data, all).0, 1);
        let mirror = pod("a", "", json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}));
        assert_eq!(judge(&mirror, none), (0, String::new()));
        let done = pod("a", "", json!({"status": {"phase": "Failed"}}));
        assert_eq!(judge(&done, none), (1, String::new()));
        let going = pod("a", "ReplicaSet", json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}));
        assert_eq!(judge(&going, Allowed { leave_going: 5, ..none }), (0, String::new()));
        assert_eq!(judge(&going, none), (1, String::new()));
    }
}
