//! What a quota's status is to be.

use jiff::Timestamp;
use listwatch_proto::resource::{KINDS, Kind, Object, Quantity, Resources, quota};
use serde_json::{Map, Value, json};

/// The kinds whose objects may use what a quota limits.
pub fn counted_kinds(own: &Object) -> Vec<&'static Kind> {
    let hard = quota::amounts(own.at(&["spec", "hard"]));
    let counts = |kind: &&'static Kind| quota::is_counted(kind) && hard.keys().any(|name| quota::counts(kind, name));
    KINDS.iter().filter(counts).collect()
}

/// Whether a change among the objects of a kind may change what a quota counts.
pub fn concerns(own: &Object, kind: &'static Kind) -> bool {
    let hard = own.at(&["spec", "hard"]).and_then(Value::as_object);
    quota::is_counted(kind) && hard.into_iter().flatten().any(|(name, _)| quota::counts(kind, name))
}

/// The status that a quota is to have; `None`: it has it. What nobody counts is left as it is.
pub fn status(own: &Object, counted: &[(&'static Kind, Vec<Object>)], now: Timestamp) -> Option<Value> {
    let hard = quota::amounts(own.at(&["spec", "hard"]));
    let held = quota::amounts(own.at(&["status", "used"]));
    let mut used: Resources = held.iter().filter(|(name, _)| hard.contains_key(*name)).map(clone).collect();
    for (kind, objects) in counted {
        let names: Vec<&String> = hard.keys().filter(|name| quota::counts(kind, name)).collect();
        let mut sum: Resources = names.iter().map(|name| ((*name).clone(), Quantity::ZERO)).collect();
        for object in objects.iter().filter(|object| quota::in_scopes(own, kind, object)) {
            for (name, amount) in quota::usage(kind, object, now) {
                if let Some(sum) = sum.get_mut(&name) {
                    *sum += amount;
                }
            }
        }
        used.extend(sum);
    }
    let same_hard = own.at(&["status", "hard"]).is_some() && quota::amounts(own.at(&["status", "hard"])) == hard;
    if same_hard && own.at(&["status", "used"]).is_some() && used == held {
        return None;
    }
    let shown = |list: &Resources| -> Map<String, Value> {
        list.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect()
    };
    Some(json!({"hard": shown(&hard), "used": shown(&used)}))
}

fn clone((name, amount): (&String, &Quantity)) -> (String, Quantity) {
    (name.clone(), *amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn kind(name: &str) -> &'static Kind {
        Kind::by_name(name).expect(name)
    }

    fn pod(cpu: &str, phase: &str) -> Object {
        object(json!({"status": {"phase": phase}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}))
    }

    fn counted(own: &Object, pods: Vec<Object>) -> Option<Value> {
        status(own, &[(kind("pod"), pods)], Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_is_there_is_counted_and_nothing_else_is() {
        let own = object(json!({"spec": {"hard": {"pods": "5", "requests.cpu": "2", "count/pods": "9"}}}));
        assert_eq!(counted_kinds(&own), [kind("pod")]);
        let pods = vec![pod("500m", "Running"), pod("1", "Pending"), pod("1", "Succeeded")];
        let expected = json!({
            "hard": {"pods": "5", "requests.cpu": "2", "count/pods": "9"},
            "used": {"pods": "2", "requests.cpu": "1500m", "count/pods": "3"},
        });
        assert_eq!(counted(&own, pods.clone()), Some(expected.clone()));
        let mut told = own.clone();
        told.0.insert("status".into(), expected);
        assert_eq!(counted(&told, pods), None, "nothing to write");
        assert_eq!(counted(&told, Vec::new()).expect("all gone")["used"]["pods"], "0");
    }

    #[test]
    fn scopes_and_changed_limits_are_followed() {
        let own = object(json!({
            "spec": {"hard": {"pods": "5"}, "scopes": ["BestEffort"]},
            "status": {"hard": {"pods": "4", "services": "1"}, "used": {"pods": "0", "services": "1"}},
        }));
        let best_effort = object(json!({"spec": {"containers": [{"name": "c"}]}}));
        let told = counted(&own, vec![best_effort, pod("1", "Running")]).expect("changed");
        assert_eq!(told, json!({"hard": {"pods": "5"}, "used": {"pods": "1"}}));
    }

    #[test]
    fn several_kinds_add_up_and_what_nobody_counts_stays() {
        let own = object(json!({
            "spec": {"hard": {"services": "2", "configmaps": "3", "count/cats.example.com": "1"}},
            "status": {"hard": {}, "used": {"count/cats.example.com": "1"}},
        }));
        assert_eq!(counted_kinds(&own), [kind("configmap"), kind("service")]);
        let lists = [(kind("configmap"), vec![Object::default()]), (kind("service"), vec![Object::default(); 2])];
        let told = status(&own, &lists, Timestamp::UNIX_EPOCH).expect("changed");
        assert_eq!(told["used"], json!({"services": "2", "configmaps": "1", "count/cats.example.com": "1"}));
        assert!(concerns(&own, kind("service")) && !concerns(&own, kind("pod")));
    }
}
