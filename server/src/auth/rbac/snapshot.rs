//! All roles and bindings, found by whom they concern.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::Value;

use super::rule::Rule;
use crate::registry::User;

/// The prefix of a service account's user name.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Namespace and name; an empty namespace is the cluster.
type Place = (String, String);

/// Whom a binding concerns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

/// One binding.
#[derive(Clone, Debug)]
struct Binding {
    /// `ClusterRole` or `Role`.
    role_kind: String,
    role_name: String,
    /// Each with the words for it.
    subjects: Vec<(Subject, String)>,
}

/// Roles and bindings of the whole cluster.
#[derive(Debug, Default)]
pub(in super::super) struct Snapshot {
    roles: HashMap<Place, Arc<Vec<Rule>>>,
    bindings: HashMap<Place, Binding>,
    /// The bindings of a subject in a namespace; ordered, so that an answer is the same each time.
    by_subject: HashMap<(String, Subject), BTreeSet<String>>,
}

/// One role that is bound to a user.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    /// `ClusterRoleBinding "x" of ClusterRole "y" to User "z"`.
    pub(super) source: String,
    /// Its rules, or the words for a role that is not there.
    pub(super) rules: Result<&'a [Rule], String>,
}

impl Snapshot {
    pub(super) fn put_role(&mut self, namespace: &str, role: &Object) {
        self.roles.insert((namespace.to_owned(), role.name().to_owned()), Arc::new(Rule::all_of(role)));
    }

    pub(super) fn remove_role(&mut self, namespace: &str, name: &str) {
        self.roles.remove(&(namespace.to_owned(), name.to_owned()));
    }

    pub(super) fn put_binding(&mut self, namespace: &str, object: &Object) {
        self.remove_binding(namespace, object.name());
        let subjects = object.at(&["subjects"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let subjects: Vec<_> = subjects.iter().filter_map(|subject| read_subject(namespace, subject)).collect();
        for (subject, _) in &subjects {
            let bindings = self.by_subject.entry((namespace.to_owned(), subject.clone())).or_default();
            bindings.insert(object.name().to_owned());
        }
        let binding = Binding {
            role_kind: object.text(&["roleRef", "kind"]).to_owned(),
            role_name: object.text(&["roleRef", "name"]).to_owned(),
            subjects,
        };
        self.bindings.insert((namespace.to_owned(), object.name().to_owned()), binding);
    }

    pub(super) fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(old) = self.bindings.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        for (subject, _) in old.subjects {
            let key = (namespace.to_owned(), subject);
            if let Some(bindings) = self.by_subject.get_mut(&key) {
                bindings.remove(name);
                if bindings.is_empty() {
                    self.by_subject.remove(&key);
                }
            }
        }
    }

    /// The rules of a role.
    pub(super) fn role(&self, kind: &str, namespace: &str, name: &str) -> Result<&[Rule], String> {
        let place = if kind == "ClusterRole" { String::new() } else { namespace.to_owned() };
        match self.roles.get(&(place, name.to_owned())) {
            Some(rules) => Ok(rules),
            None if kind == "ClusterRole" => {
                Err(format!("clusterrole.rbac.authorization.k8s.io {} not found", quote(&name)))
            }
            None => Err(format!("role.rbac.authorization.k8s.io {} not found", quote(&name))),
        }
    }

    /// The roles bound to a user in a namespace, those of the whole cluster first.
    pub(super) fn bound<'a>(&'a self, user: &User, namespace: &'a str) -> impl Iterator<Item = Bound<'a>> {
        let mut subjects = vec![Subject::User(user.name.clone())];
        subjects.extend(user.groups.iter().cloned().map(Subject::Group));
        let mut names: Vec<(&'a str, &'a str)> = Vec::new();
        let scopes: &[&'a str] = if namespace.is_empty() { &[""] } else { &["", namespace] };
        for &scope in scopes {
            let mut here = BTreeSet::new();
            for subject in &subjects {
                if let Some(found) = self.by_subject.get(&(scope.to_owned(), subject.clone())) {
                    here.extend(found.iter().map(String::as_str));
                }
            }
            names.extend(here.into_iter().map(|name| (scope, name)));
        }
        names.into_iter().filter_map(move |(scope, name)| {
            let binding = self.bindings.get(&(scope.to_owned(), name.to_owned()))?;
            let (_, words) = binding.subjects.iter().find(|(subject, _)| subjects.contains(subject))?;
            let (kind, shown) = match scope {
                "" => ("ClusterRoleBinding", name.to_owned()),
                scope => ("RoleBinding", format!("{name}/{scope}")),
            };
            let source = format!(
                "{kind} {shown} of {} {} to {words}",
                binding.role_kind,
                quote(&binding.role_name),
                shown = quote(&shown)
            );
            Some(Bound { source, rules: self.role(&binding.role_kind, scope, &binding.role_name) })
        })
    }
}

fn read_subject(namespace: &str, subject: &Value) -> Option<(Subject, String)> {
    let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = text("name");
    match text("kind") {
        "User" => Some((Subject::User(name.to_owned()), format!("User {}", quote(&name)))),
        "Group" => Some((Subject::Group(name.to_owned()), format!("Group {}", quote(&name)))),
        "ServiceAccount" => {
            let own = text("namespace");
            let namespace = if own.is_empty() { namespace } else { own };
            let words = format!("ServiceAccount {}", quote(&format!("{name}/{namespace}")));
            let user = Subject::User(format!("{SERVICE_ACCOUNT}{namespace}:{name}"));
            Some((user, words)).filter(|_| !namespace.is_empty())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn sources(snapshot: &Snapshot, user: &User, namespace: &str) -> Vec<String> {
        snapshot.bound(user, namespace).map(|bound| bound.source).collect()
    }

    #[test]
    fn bindings_are_found_by_user_group_and_service_account() {
        let mut snapshot = Snapshot::default();
        let role =
            json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        snapshot.put_role("", &object(role));
        let binding = |name: &str, subjects: Value| {
            object(
                json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}),
            )
        };
        snapshot.put_binding("", &binding("all", json!([{"kind": "Group", "name": "g"}])));
        snapshot.put_binding("n", &binding("own", json!([{"kind": "ServiceAccount", "name": "robot"}])));
        let robot = User {
            name: "system:serviceaccount:n:robot".into(),
            groups: vec!["g".into(), "h".into()],
            ..User::default()
        };
        assert_eq!(
            sources(&snapshot, &robot, "n"),
            [
                r#"ClusterRoleBinding "all" of ClusterRole "r" to Group "g""#,
                r#"RoleBinding "own/n" of ClusterRole "r" to ServiceAccount "robot/n""#
            ]
        );
        assert_eq!(sources(&snapshot, &robot, "m").len(), 1);
        assert_eq!(sources(&snapshot, &User { name: "robot".into(), ..User::default() }, "n").len(), 0);
        snapshot.put_binding("n", &binding("own", json!([])));
        assert_eq!(sources(&snapshot, &robot, "n").len(), 1);
        snapshot.remove_role("", "r");
        let missing = snapshot.bound(&robot, "").next().expect("bound").rules.expect_err("gone");
        assert_eq!(missing, "clusterrole.rbac.authorization.k8s.io \"r\" not found");
    }
}
