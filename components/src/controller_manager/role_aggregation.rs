//! Cluster roles that are made of others: `aggregationRule` says of which, this controller brings the rules together
//! (Kubernetes 1.36).

use async_trait::async_trait;
use listwatch_proto::resource::{LabelSelector, Object, ObjectKey};
use serde_json::{Value, json};

use super::tools::Tools;
use crate::client::{Api, ListParams, Patch};
use crate::runtime::{Action, ReconcileError, Reconciler};

/// The one key: a role may be part of any other.
pub fn every_role() -> ObjectKey {
    ObjectKey::new("", "")
}

/// Brings rules together.
pub struct RoleAggregationReconciler {
    roles: Api<Object>,
}

impl RoleAggregationReconciler {
    /// A reconciler.
    pub fn new(tools: &Tools) -> Self {
        RoleAggregationReconciler { roles: tools.api("rbac.authorization.k8s.io", "clusterroles") }
    }
}

/// The rules of every role that is made of others and has not these rules.
fn plan(roles: &[&Object]) -> Vec<(String, Vec<Value>)> {
    let mut changes = Vec::new();
    for role in roles {
        let Some(selectors) = role.at(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array) else {
            continue;
        };
        let mut rules: Vec<Value> = Vec::new();
        for selector in selectors.iter().filter_map(|selector| LabelSelector::from_json(selector).ok()) {
            let mut parts: Vec<&&Object> =
                roles.iter().filter(|part| part.name() != role.name() && selector.matches_object(part)).collect();
            parts.sort_by_key(|part| part.name());
            for rule in parts.iter().flat_map(|part| rules_of(part)) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
        if rules_of(role) != rules.as_slice() {
            changes.push((role.name().to_owned(), rules));
        }
    }
    changes
}

fn rules_of(role: &Object) -> &[Value] {
    role.at(&["rules"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

#[async_trait]
impl Reconciler for RoleAggregationReconciler {
    async fn reconcile(&self, _key: &ObjectKey) -> Result<Action, ReconcileError> {
        let roles = self.roles.list(&ListParams::default()).await?.items;
        let objects: Vec<&Object> = roles.iter().map(|role| &role.object).collect();
        for (name, rules) in plan(&objects) {
            match self.roles.patch(&ObjectKey::new("", name), &Patch::Merge(json!({"rules": rules}))).await {
                Err(error) if error.is_not_found() => {}
                outcome => drop(outcome?),
            }
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, label: &str, aggregates: Option<&str>, rules: Value) -> Object {
        let mut role = json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules});
        if let Some(label) = aggregates {
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        }
        Object::from_value(role).expect("a map")
    }

    #[test]
    fn a_role_has_the_rules_of_its_parts_once() {
        let (one, two) = (json!({"verbs": ["get"]}), json!({"verbs": ["list"]}));
        let (a, b) = (role("a", "x", None, json!([one, two])), role("b", "x", None, json!([two])));
        let whole = role("whole", "y", Some("x"), Value::Null);
        assert_eq!(plan(&[&b, &whole, &a]), [("whole".to_owned(), vec![one.clone(), two.clone()])]);
        let done = role("whole", "y", Some("x"), json!([one, two]));
        assert!(plan(&[&a, &b, &done]).is_empty());
        let emptied = role("whole", "y", Some("none"), json!([one]));
        assert_eq!(plan(&[&a, &emptied]), [("whole".to_owned(), vec![])]);
    }
}
