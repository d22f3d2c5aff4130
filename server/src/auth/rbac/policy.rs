//! The roles and bindings that are there from the start: upstream's (`policy/*.txt`), and those of our own programs.
//!
//! A start adds what is missing and takes nothing away; the annotation `autoupdate: "false"` keeps a role or binding as
//! its owner wants it (Kubernetes 1.36).

use std::collections::BTreeMap;

use listwatch_proto::resource::Object;
use serde_json::{Map, Value, json};

use super::rule::Rule;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const CLUSTER: &str = include_str!("policy/cluster.txt");
const CONTROLLERS: &str = include_str!("policy/controllers.txt");
const BINDINGS: &str = include_str!("policy/bindings.txt");
const NAMESPACED: &str = include_str!("policy/namespaced.txt");
const OWN: &str = include_str!("policy/own.txt");

/// Every object of the default policy.
pub(in super::super) fn first_objects() -> Vec<Object> {
    [CLUSTER, CONTROLLERS, BINDINGS, NAMESPACED, OWN].into_iter().flat_map(read).collect()
}

/// What every node may do beside what the node authorizer judges one by one.
pub(in super::super) fn node_rules() -> Vec<Rule> {
    let node = read(CLUSTER).into_iter().find(|role| role.name() == "system:node");
    Rule::all_of(&node.expect("the policy has the role of nodes"))
}

/// A stored role or binding with the rules, subjects and labels that it lacks; `None` = it lacks nothing, or is to be
/// left alone.
pub(in super::super) fn completed(stored: &Object, wanted: &Object) -> Option<Object> {
    if stored.text(&["metadata", "annotations", AUTOUPDATE]) == "false" {
        return None;
    }
    let mut object = stored.clone();
    for part in ["labels", "annotations"] {
        for (key, value) in wanted.at(&["metadata", part]).and_then(Value::as_object).into_iter().flatten() {
            if object.at(&["metadata", part, key]).is_none() {
                object.set(&["metadata", part, key], value.clone());
            }
        }
    }
    if wanted.at(&["roleRef"]).is_some() {
        add_missing(&mut object, wanted, "subjects");
    } else if wanted.at(&["aggregationRule"]).is_none() {
        let (own, all) = (Rule::all_of(stored), Rule::all_of(wanted));
        let missing: Vec<Value> = all.iter().filter(|rule| !rule.covered_by(&own)).map(Rule::to_json).collect();
        append(&mut object, "rules", missing);
    }
    (object != *stored).then_some(object)
}

fn add_missing(object: &mut Object, wanted: &Object, key: &str) {
    let list = |object: &Object| object.at(&[key]).and_then(Value::as_array).cloned().unwrap_or_default();
    let own = list(object);
    let missing = list(wanted).into_iter().filter(|item| !own.contains(item)).collect();
    append(object, key, missing);
}

fn append(object: &mut Object, key: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let mut list = object.at(&[key]).and_then(Value::as_array).cloned().unwrap_or_default();
    list.extend(items);
    object.set(&[key], list);
}

/// Reads one of the texts. They are part of the program, and a test reads them all.
fn read(text: &str) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (line.starts_with(' '), words.as_slice()) {
            (false, ["role", place]) => objects.push(heading("Role", place)),
            (false, ["binding", place, role]) => {
                let mut binding = heading("RoleBinding", place);
                let (kind, name) = role.split_once('/').expect("KIND/NAME");
                binding.set(&["roleRef"], json!({"apiGroup": GROUP, "kind": kind, "name": name}));
                objects.push(binding);
            }
            (true, words) => below(objects.last_mut().expect("a heading stands first"), words),
            (false, words) => unreachable!("{words:?} is no heading"),
        }
    }
    objects
}

fn heading(kind: &str, place: &str) -> Object {
    let (namespace, name) = match place.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, place),
    };
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    metadata.insert("labels".to_owned(), json!({"kubernetes.io/bootstrapping": "rbac-defaults"}));
    metadata.insert("annotations".to_owned(), json!({AUTOUPDATE: "true"}));
    let kind = if namespace.is_some() { kind.to_owned() } else { format!("Cluster{kind}") };
    let mut object = Object::default();
    object.set(&["apiVersion"], API_VERSION);
    object.set(&["kind"], kind.as_str());
    object.set(&["metadata"], Value::Object(metadata));
    if kind.ends_with("Role") {
        object.set(&["rules"], Value::Null);
    }
    object
}

/// A line below a heading.
fn below(object: &mut Object, words: &[&str]) {
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let labels = |text: &str| -> BTreeMap<String, String> {
        text.split(',').map(|pair| pair.split_once('=').expect("K=V")).map(|(k, v)| (k.into(), v.into())).collect()
    };
    match words {
        ["label", pair] => {
            for (key, value) in labels(pair) {
                object.set(&["metadata", "labels", &key], value);
            }
        }
        ["aggregate", pairs] => {
            let selector = json!({"matchLabels": labels(pairs)});
            append_to(object, &["aggregationRule", "clusterRoleSelectors"], selector);
        }
        ["path", verbs, paths] => {
            let rule = Rule { verbs: list(verbs), paths: list(paths), ..Rule::default() };
            append_to(object, &["rules"], rule.to_json());
        }
        [kind @ ("User" | "Group"), name] => {
            append_to(object, &["subjects"], json!({"apiGroup": GROUP, "kind": kind, "name": name}));
        }
        ["ServiceAccount", place] => {
            let (namespace, name) = place.split_once('/').expect("NAMESPACE/NAME");
            append_to(object, &["subjects"], json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}));
        }
        [verbs, groups, resources, names @ ..] => {
            let groups = list(groups).into_iter().map(|g| if g == "core" { String::new() } else { g }).collect();
            let names = names.first().and_then(|n| n.strip_prefix("names=")).map(list).unwrap_or_default();
            let rule = Rule { verbs: list(verbs), groups, resources: list(resources), names, paths: Vec::new() };
            append_to(object, &["rules"], rule.to_json());
        }
        words => unreachable!("{words:?} is no line of a policy"),
    }
}

fn append_to(object: &mut Object, path: &[&str], item: Value) {
    let mut list = object.at(path).and_then(Value::as_array).cloned().unwrap_or_default();
    list.push(item);
    object.set(path, list);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(kind: &str, name: &str) -> Object {
        first_objects().into_iter().find(|o| o.kind_name() == kind && o.name() == name).expect(name)
    }

    #[test]
    fn every_line_of_the_policy_is_read_and_every_bound_role_is_there() {
        let all = first_objects();
        let has = |kind: &str, namespace: &str, name: &str| {
            all.iter().any(|o| o.kind_name() == kind && o.name() == name && o.namespace() == namespace)
        };
        for binding in all.iter().filter(|o| o.kind_name().ends_with("Binding")) {
            let (kind, name) = (binding.text(&["roleRef", "kind"]), binding.text(&["roleRef", "name"]));
            let namespace = if kind == "Role" { binding.namespace() } else { "" };
            assert!(has(kind, namespace, name), "{kind} {name}");
        }
        let admin = find("ClusterRole", "cluster-admin");
        assert_eq!(admin.at(&["rules", "0"]), None);
        let rules = Rule::all_of(&admin);
        assert_eq!((rules[0].resources.as_slice(), rules[1].paths.as_slice()), (&["*".into()][..], &["*".into()][..]));
        let view = find("ClusterRole", "view");
        assert_eq!(view.at(&["rules"]), Some(&Value::Null));
        assert!(view.at(&["aggregationRule", "clusterRoleSelectors"]).is_some());
    }

    #[test]
    fn a_start_adds_what_is_missing_and_takes_nothing_away() {
        let wanted = find("ClusterRole", "system:basic-user");
        assert_eq!(completed(&wanted, &wanted), None);
        let mut lacking = wanted.clone();
        let own = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        lacking.set(&["rules"], own.clone());
        let full = completed(&lacking, &wanted).expect("it lacks rules");
        assert_eq!(full.at(&["rules"]).and_then(Value::as_array).map(Vec::len), Some(3));
        assert_eq!(full.at(&["rules"]).and_then(|r| r.get(0)), own.get(0));
        lacking.set(&["metadata", "annotations", AUTOUPDATE], "false");
        assert_eq!(completed(&lacking, &wanted), None);
        let binding = find("ClusterRoleBinding", "system:basic-user");
        let mut nobody = binding.clone();
        nobody.remove(&["subjects"]);
        assert_eq!(completed(&nobody, &binding), Some(binding));
    }
}
