//! The environment of a container and the expansion of `$(NAME)` in it and in the command line (Kubernetes 1.36).

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};

/// What is known of the pod's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Address of the node.
    pub host_ip: String,
    /// Address of the pod.
    pub pod_ip: String,
}

/// A variable that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("env {name}: {reason}")]
pub struct EnvError {
    /// The variable.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The variables that the pod asks for, in their order, references to earlier ones expanded.
pub fn environment(pod: &Pod, container: &Container, place: &Place) -> Result<Vec<(String, String)>, EnvError> {
    let mut known = HashMap::new();
    let mut env = Vec::new();
    for variable in container.env.iter().flatten() {
        let value =
            match value(pod, variable, place).map_err(|reason| EnvError { name: variable.name.clone(), reason })? {
                Some(value) => value,
                None => expand(variable.value.as_deref().unwrap_or_default(), &known),
            };
        known.insert(variable.name.clone(), value.clone());
        env.push((variable.name.clone(), value));
    }
    Ok(env)
}

/// Expands words of a command line.
pub fn expand_all(words: Option<&Vec<String>>, env: &[(String, String)]) -> Vec<String> {
    let known = env.iter().cloned().collect();
    words.into_iter().flatten().map(|word| expand(word, &known)).collect()
}

/// Replaces `$(NAME)` by its value; an unknown name stays as it is, and `$$` is one dollar.
pub fn expand(text: &str, known: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match known.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// The value from elsewhere; `None` if the variable has a plain one.
fn value(pod: &Pod, variable: &EnvVar, place: &Place) -> Result<Option<String>, String> {
    let Some(source) = &variable.value_from else { return Ok(None) };
    if let Some(field) = &source.field_ref {
        return field_value(pod, &field.field_path, place).map(Some);
    }
    let kinds = [
        (source.config_map_key_ref.is_some(), "configMapKeyRef"),
        (source.secret_key_ref.is_some(), "secretKeyRef"),
        (source.resource_field_ref.is_some(), "resourceFieldRef"),
        (source.file_key_ref.is_some(), "fileKeyRef"),
    ];
    let kind = kinds.into_iter().find(|(present, _)| *present).map_or("an empty valueFrom", |(_, kind)| kind);
    Err(format!("valueFrom.{kind} is not supported"))
}

fn field_value(pod: &Pod, path: &str, place: &Place) -> Result<String, String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let entry = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("']"));
    if let Some(key) = entry("metadata.labels['") {
        return Ok(meta.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default());
    }
    if let Some(key) = entry("metadata.annotations['") {
        return Ok(meta.annotations.as_ref().and_then(|list| list.get(key)).cloned().unwrap_or_default());
    }
    let value = match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" | "status.hostIPs" => Some(place.host_ip.clone()),
        "status.podIP" | "status.podIPs" => Some(place.pod_ip.clone()),
        _ => return Err(format!("fieldRef {path:?} is not supported")),
    };
    Ok(value.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_expanded_as_kubernetes_does() {
        let known = HashMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &known), expected, "{text}");
        }
    }

    #[test]
    fn fields_of_the_pod_and_earlier_variables_can_be_used() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "x"}},
            "spec": {"nodeName": "node01", "containers": [{"name": "c", "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "ALL", "value": "$(POD)/$(APP)/$(LATER)"},
                {"name": "LATER", "value": "l"},
            ]}]},
        }))
        .expect("a pod");
        let place = Place { host_ip: "127.0.0.1".into(), pod_ip: "127.1.1.1".into() };
        let container = &pod.spec.as_ref().expect("a spec").containers[0];
        let env = environment(&pod, container, &place).expect("supported");
        let values: Vec<_> = env.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["web", "x", "127.1.1.1", "web/x/$(LATER)", "l"]);
    }

    #[test]
    fn a_source_that_is_not_supported_is_named() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "env": [
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ]}]},
        }))
        .expect("a pod");
        let place = Place { host_ip: String::new(), pod_ip: String::new() };
        let error = environment(&pod, &pod.spec.as_ref().expect("a spec").containers[0], &place).expect_err("refused");
        assert_eq!(error.to_string(), "env S: valueFrom.secretKeyRef is not supported");
    }
}
