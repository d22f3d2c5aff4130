//! A pod that names what runs it gets its cost and its place (upstream's RuntimeClass plugin, Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Status, quota};
use serde_json::Value;

use super::super::Registry;

const OTHER_COST: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl Registry {
    /// Gives a new pod the cost, the node labels and the tolerations of its runtime class.
    pub(super) async fn admit_runtime_class(&self, kind: &'static Kind, pod: &mut Object) -> Result<(), Status> {
        let class = self.runtime_class_of(kind, pod).await?;
        if let Some(class) = class {
            apply(pod, &class).map_err(|why| Status::forbidden(kind, pod.name(), &why))?;
        }
        Ok(())
    }

    /// A pod costs beside its containers what its class says, and without a class nothing.
    pub(super) async fn admit_overhead(&self, kind: &'static Kind, pod: &Object) -> Result<(), Status> {
        let class = self.runtime_class_of(kind, pod).await?;
        let cost = class.as_ref().and_then(|class| class.at(&["overhead"])).filter(|cost| !cost.is_null());
        let own = pod.at(&["spec", "overhead"]).filter(|cost| !cost.is_null());
        let why = match (cost, own) {
            (Some(cost), own) if quota::amounts(cost.get("podFixed")) != quota::amounts(own) => OTHER_COST,
            (None, Some(_)) => "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            _ => return Ok(()),
        };
        Err(Status::forbidden(kind, pod.name(), why))
    }

    async fn runtime_class_of(&self, kind: &'static Kind, pod: &Object) -> Result<Option<Object>, Status> {
        let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
        let classes = Kind::by_api_version("node.k8s.io/v1", "RuntimeClass").expect("RuntimeClass is a served kind");
        match self.current(classes, "", name).await? {
            Some(class) => Ok(Some(class.object)),
            None => {
                let why = format!("pod rejected: RuntimeClass {} not found", quote(&name));
                Err(Status::forbidden(kind, pod.name(), &why))
            }
        }
    }
}

fn apply(pod: &mut Object, class: &Object) -> Result<(), String> {
    if let Some(cost) = class.at(&["overhead", "podFixed"]).filter(|cost| !cost.is_null()) {
        let own = quota::amounts(pod.at(&["spec", "overhead"]));
        if !own.is_empty() && own != quota::amounts(Some(cost)) {
            return Err(OTHER_COST.to_owned());
        }
        pod.set(&["spec", "overhead"], cost.clone());
    }
    let Some(scheduling) = class.at(&["scheduling"]).filter(|scheduling| !scheduling.is_null()) else { return Ok(()) };
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let own = pod.text(&["spec", "nodeSelector", key]);
        if !own.is_empty() && own != value {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
        pod.set(&["spec", "nodeSelector", key], value);
    }
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut tolerations = list(pod.at(&["spec", "tolerations"]));
    tolerations.extend(list(scheduling.get("tolerations")));
    if !tolerations.is_empty() {
        pod.set(&["spec", "tolerations"], merged(&tolerations));
    }
    Ok(())
}

/// The tolerations without those that another one includes.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (i, own) in all.iter().enumerate() {
        let before = merged.iter().any(|other| includes(other, own));
        let later = all[i + 1..].iter().any(|other| other != own && includes(other, own));
        if !before && !later {
            merged.push(own.clone());
        }
    }
    merged
}

/// Whether whatever a toleration lives with, another one lives with as well (upstream's `isSuperset`).
fn includes(whole: &Value, part: &Value) -> bool {
    let text = |toleration: &Value, key: &str| toleration[key].as_str().unwrap_or_default().to_owned();
    if whole == part {
        return true;
    }
    let (key, effect) = (text(whole, "key"), text(whole, "effect"));
    if key != text(part, "key") && !(key.is_empty() && text(whole, "operator") == "Exists") {
        return false;
    }
    if effect != text(part, "effect") && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute" {
        match (whole["tolerationSeconds"].as_i64(), part["tolerationSeconds"].as_i64()) {
            (None, _) => {}
            (Some(whole), Some(part)) if part <= whole => {}
            _ => return false,
        }
    }
    match text(whole, "operator").as_str() {
        "Exists" => true,
        "" | "Equal" => {
            matches!(text(part, "operator").as_str(), "" | "Equal") && text(whole, "value") == text(part, "value")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn a_class_brings_cost_and_place() {
        let class = object(json!({
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
        }));
        let mut pod = object(json!({"spec": {"tolerations": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}));
        apply(&mut pod, &class).expect("fits");
        assert_eq!(
            pod.at(&["spec"]),
            Some(&json!({"overhead": {"cpu": "10m"}, "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "k", "operator": "Exists"}]}))
        );
        let mut other = object(json!({"spec": {"nodeSelector": {"a": "c"}}}));
        assert_eq!(
            apply(&mut other, &class),
            Err("conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c".to_owned())
        );
        let mut dear = object(json!({"spec": {"overhead": {"cpu": "20m"}}}));
        assert_eq!(apply(&mut dear, &class), Err(OTHER_COST.to_owned()));
    }
}
