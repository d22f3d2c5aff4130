//! Which containers of which pods are meant.

use std::cmp::Reverse;

use listwatch_components::client::ListParams;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, LabelSelector, Object, ObjectKey};
use serde_json::Value;

use crate::commands::failure::Failure;
use crate::commands::session::{Session, kind_named};
use crate::terminal::tell;

/// The annotation that names the container meant when none is named (kubectl's own).
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// One container whose log is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) pod: ObjectKey,
    pub(super) container: String,
}

/// What was said of containers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Choice<'a> {
    pub(super) container: Option<&'a str>,
    pub(super) all_containers: bool,
    pub(super) all_pods: bool,
}

/// The pod of the name, or of the pods that an object selects the one that has most to tell (or all).
pub(super) async fn of_object(session: &Session, word: &str, choice: &Choice<'_>) -> Result<Vec<Source>, Failure> {
    let pods = kind_named("pods")?;
    let (kind, name) = match word.split_once('/') {
        None => (pods, word),
        Some((kind, name)) => (kind_named(kind)?, name),
    };
    let object = match session.api(kind).get(&session.key(kind, name)).await {
        Ok(object) => object.object,
        Err(error) if error.is_not_found() => {
            let text = format!("error from server (NotFound): {error} in namespace \"{}\"", session.namespace);
            return Err(Failure::plain(text));
        }
        Err(error) => return Err(error.into()),
    };
    if kind == pods {
        return of_pod(&object, choice);
    }
    let selector = object.at(&["spec", "selector"]).filter(|s| s.is_object());
    let Some(selector) = selector else {
        return Err(Failure::plain(format!("cannot get the logs from {}: it selects no pods", kind.kind)));
    };
    let selector = LabelSelector::from_json(selector).map_err(|e| Failure::plain(e.to_string()))?;
    let list = session.api(pods).list(&ListParams::in_namespace(session.namespace.as_str())).await?;
    let found: Vec<Object> = list.items.into_iter().map(|p| p.object).filter(|p| selector.matches_object(p)).collect();
    of_pods(kind, name, found, choice)
}

fn of_pods(kind: &Kind, name: &str, mut pods: Vec<Object>, choice: &Choice<'_>) -> Result<Vec<Source>, Failure> {
    pods.sort_by_cached_key(by_logging);
    let Some(first) = pods.first() else {
        return Err(Failure::plain(format!("no pods found for {} {name}", kind.singular)));
    };
    if choice.all_pods {
        return all_of(&pods, choice);
    }
    if pods.len() > 1 {
        tell!("Found {} pods, using pod/{}", pods.len(), first.name());
    }
    of_pod(first, choice)
}

/// The pods with these labels.
pub(super) async fn of_selector(
    session: &Session,
    selector: &str,
    choice: &Choice<'_>,
) -> Result<Vec<Source>, Failure> {
    let params = ListParams::in_namespace(session.namespace.as_str()).labels(selector);
    let list = session.api(kind_named("pods")?).list(&params).await?;
    if list.items.is_empty() {
        session.say_nothing_found(false);
    }
    let pods: Vec<Object> = list.items.into_iter().map(|p| p.object).collect();
    all_of(&pods, choice)
}

fn all_of(pods: &[Object], choice: &Choice<'_>) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for pod in pods {
        sources.extend(of_pod(pod, choice)?);
    }
    Ok(sources)
}

/// The order in which kubectl prefers pods: with a node, running, ready, ready for long, restarted often, old.
fn by_logging(pod: &Object) -> impl Ord + use<> {
    let phase = match pod.text(&["status", "phase"]) {
        "Unknown" => 1,
        "Pending" => 2,
        _ => 0,
    };
    let ready = pod.condition("Ready").filter(|condition| condition["status"] == "True");
    let since = ready.map(|condition| condition["lastTransitionTime"].as_str().unwrap_or_default().to_owned());
    let statuses = pod.at(&["status", "containerStatuses"]).and_then(Value::as_array);
    let restarts = statuses.into_iter().flatten().filter_map(|status| status["restartCount"].as_i64()).max();
    (
        pod.text(&["spec", "nodeName"]).is_empty(),
        phase,
        ready.is_none(),
        since,
        Reverse(restarts),
        pod.creation_timestamp().to_owned(),
    )
}

fn names(pod: &Object, field: &str) -> Vec<String> {
    let list = pod.at(&["spec", field]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
}

/// `a, b, first (init)`.
fn all_names(pod: &Object) -> String {
    let init = names(pod, "initContainers").into_iter().map(|name| name + " (init)");
    names(pod, "containers").into_iter().chain(init).collect::<Vec<_>>().join(", ")
}

/// The one container of a pod that is meant: see [`of_pod`].
///
/// # Errors
/// If the pod has none of that name.
pub(crate) fn container_of(pod: &Object, named: Option<&str>) -> Result<String, Failure> {
    let choice = Choice { container: named, ..Choice::default() };
    let mut found = of_pod(pod, &choice)?;
    let none = || Failure::plain(format!("pod {} has no containers", pod.name()));
    found.pop().map(|source| source.container).ok_or_else(none)
}

/// The named container, else the annotated one, else the first; says which, if there was a choice.
fn of_pod(pod: &Object, choice: &Choice<'_>) -> Result<Vec<Source>, Failure> {
    let (containers, init) = (names(pod, "containers"), names(pod, "initContainers"));
    let source = |container: &String| Source { pod: pod.key(), container: container.clone() };
    if choice.all_containers {
        return Ok(init.iter().chain(&containers).map(source).collect());
    }
    let is_there = |name: &str| containers.iter().chain(&init).any(|c| c == name);
    if let Some(name) = choice.container {
        if !is_there(name) {
            let (pod_name, all) = (pod.name(), all_names(pod));
            return Err(Failure::plain(format!("container {name} is not valid for pod {pod_name} out of: {all}")));
        }
        return Ok(vec![source(&name.to_owned())]);
    }
    if let Some(name) = pod.annotation(DEFAULT_CONTAINER).filter(|name| !name.is_empty()) {
        if is_there(name) {
            return Ok(vec![source(&name.to_owned())]);
        }
        tell!("Default container name {name} not found in pod {}", pod.name(), name = quote(&name));
    }
    let Some(first) = containers.first() else { return Ok(Vec::new()) };
    if containers.len() + init.len() > 1 && !choice.all_pods {
        tell!("Defaulted container {first} out of: {}", all_names(pod), first = quote(&first));
    }
    Ok(vec![source(first)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, more: Value) -> Object {
        let mut value = json!({
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": {"phase": "Running"},
        });
        json_patch_merge(&mut value, &more);
        Object::from_value(value).expect("a map")
    }

    fn json_patch_merge(value: &mut Value, more: &Value) {
        match (value, more) {
            (Value::Object(into), Value::Object(from)) => {
                from.iter().for_each(|(key, v)| json_patch_merge(into.entry(key.clone()).or_insert(Value::Null), v));
            }
            (value, more) => *value = more.clone(),
        }
    }

    fn containers(pod: &Object, choice: &Choice<'_>) -> Result<Vec<String>, String> {
        let sources = of_pod(pod, choice).map_err(|failure| failure.text())?;
        Ok(sources.into_iter().map(|source| source.container).collect())
    }

    #[test]
    fn one_container_is_chosen_as_kubectl_chooses() {
        let plain = pod("p", json!({}));
        let named = |name| Choice { container: Some(name), ..Choice::default() };
        assert_eq!(containers(&plain, &Choice::default()), Ok(vec!["a".to_owned()]));
        assert_eq!(containers(&plain, &named("i")), Ok(vec!["i".to_owned()]));
        let error = containers(&plain, &named("x")).expect_err("none");
        assert_eq!(error, "error: container x is not valid for pod p out of: a, b, i (init)");
        let annotated = pod("p", json!({"metadata": {"annotations": {DEFAULT_CONTAINER: "b"}}}));
        assert_eq!(containers(&annotated, &Choice::default()), Ok(vec!["b".to_owned()]));
        let all = Choice { all_containers: true, ..Choice::default() };
        assert_eq!(containers(&plain, &all), Ok(vec!["i".to_owned(), "a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn the_pod_with_most_to_tell_comes_first() {
        let ready = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"},
        ]}});
        let longer = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
        ]}});
        let mut pods = [
            pod("homeless", json!({"spec": {"nodeName": ""}})),
            pod("pending", json!({"status": {"phase": "Pending"}})),
            pod("unready", json!({})),
            pod("restarted", json!({"status": {"containerStatuses": [{"restartCount": 3}]}})),
            pod("ready", ready),
            pod("longer", longer),
        ];
        pods.sort_by_cached_key(by_logging);
        let order: Vec<_> = pods.iter().map(Object::name).collect();
        assert_eq!(order, ["longer", "ready", "restarted", "unready", "pending", "homeless"]);
    }
}
