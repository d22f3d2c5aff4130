//! The environment of a container and the expansion of `$(NAME)` in it and in the command line (Kubernetes 1.36).

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::facts::{FactError, Facts};

/// The variables that the pod asks for: those of whole ConfigMaps first, then the single ones in their order, with
/// references to earlier ones expanded. A later one of a name takes the place of an earlier.
pub fn environment(facts: &Facts<'_>, container: &Container) -> Result<Vec<(String, String)>, FactError> {
    let mut known = HashMap::new();
    let mut env: Vec<(String, String)> = Vec::new();
    let mut set = |name: String, value: String, known: &mut HashMap<String, String>| {
        known.insert(name.clone(), value.clone());
        match env.iter_mut().find(|(before, _)| *before == name) {
            Some(before) => before.1 = value,
            None => env.push((name, value)),
        }
    };
    for from in container.env_from.iter().flatten() {
        let Some(source) = &from.config_map_ref else {
            return Err(FactError::failed("envFrom other than configMapRef is not supported"));
        };
        let Some(map) = facts.config_map(&source.name, source.optional == Some(true))? else { continue };
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in map.data.iter().flatten() {
            set(format!("{prefix}{key}"), value.clone(), &mut known);
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            Some(_) => match value(facts, container, variable)? {
                Some(value) => value,
                // An optional one that is not there is not set.
                None => continue,
            },
            None => expand(variable.value.as_deref().unwrap_or_default(), &known),
        };
        set(variable.name.clone(), value, &mut known);
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

/// The value from elsewhere; `None` if it need not be there and is not.
fn value(facts: &Facts<'_>, container: &Container, variable: &EnvVar) -> Result<Option<String>, FactError> {
    let Some(source) = &variable.value_from else { return Ok(None) };
    if let Some(field) = &source.field_ref {
        return facts.field(&field.field_path, false).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return facts.resource(selector, Some(container)).map(Some);
    }
    if let Some(key) = &source.config_map_key_ref {
        let optional = key.optional == Some(true);
        let Some(map) = facts.config_map(&key.name, optional)? else { return Ok(None) };
        return match map.data.as_ref().and_then(|data| data.get(&key.key)) {
            Some(value) => Ok(Some(value.clone())),
            None if optional => Ok(None),
            None => {
                let namespace = facts.pod.metadata.namespace.as_deref().unwrap_or_default();
                Err(FactError::Failed(format!("couldn't find key {} in ConfigMap {namespace}/{}", key.key, key.name)))
            }
        };
    }
    let kinds = [(source.secret_key_ref.is_some(), "secretKeyRef"), (source.file_key_ref.is_some(), "fileKeyRef")];
    let kind = kinds.into_iter().find(|(present, _)| *present).map_or("an empty valueFrom", |(_, kind)| kind);
    Err(FactError::Failed(format!("env {}: valueFrom.{kind} is not supported", variable.name)))
}

#[cfg(test)]
mod tests {
    use super::{super::facts::tests::with, *};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn made(container: Value) -> Result<Vec<String>, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "x"}},
            "spec": {"nodeName": "node01", "containers": [container]},
        }))
        .expect("a pod");
        let container = &pod.spec.as_ref().expect("a spec").containers[0];
        let env = with(&pod, |facts| environment(&facts, container)).map_err(|error| error.to_string())?;
        Ok(env.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

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
        let env = made(json!({
            "name": "c", "resources": {"limits": {"cpu": "2"}},
            "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "ALL", "value": "$(POD)/$(APP)/$(CPU)/$(LATER)"},
                {"name": "LATER", "value": "l"},
            ],
        }));
        assert_eq!(env.expect("had"), ["POD=web", "APP=x", "CPU=2", "ALL=web/x/2/$(LATER)", "LATER=l"]);
    }

    #[test]
    fn config_maps_give_all_their_keys_or_one() {
        let env = made(json!({
            "name": "c",
            "envFrom": [
                {"configMapRef": {"name": "map"}}, {"prefix": "P_", "configMapRef": {"name": "map"}},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [
                {"name": "size", "value": "own"},
                {"name": "ONE", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "color"}}},
                {"name": "REF", "value": "$(P_size)"},
                {"name": "NO", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "none", "optional": true}}},
            ],
        }));
        assert_eq!(env.expect("had"), ["color=blue", "size=own", "P_color=blue", "P_size=big", "ONE=blue", "REF=big"]);
    }

    #[test]
    fn what_cannot_be_had_is_named() {
        let of = |source: Value| made(json!({"name": "c", "env": [{"name": "S", "valueFrom": source}]}));
        for (source, expected) in [
            (json!({"secretKeyRef": {"name": "s", "key": "k"}}), "env S: valueFrom.secretKeyRef is not supported"),
            (json!({"configMapKeyRef": {"name": "gone", "key": "k"}}), "configmap \"gone\" not found"),
            (json!({"configMapKeyRef": {"name": "map", "key": "k"}}), "couldn't find key k in ConfigMap default/map"),
            (
                json!({"configMapKeyRef": {"name": "later", "key": "k"}}),
                "the kubelet has not seen ConfigMap \"later\" yet",
            ),
        ] {
            assert_eq!(of(source), Err(expected.to_owned()));
        }
    }
}
