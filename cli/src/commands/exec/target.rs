//! Which pod and which container are meant.

use listwatch_components::client::ListParams;
use listwatch_proto::resource::{LabelSelector, Object};

use crate::commands::failure::Failure;
use crate::commands::logs::container_of;
use crate::commands::session::{Session, kind_named};

/// The pod of a name, or the first of those that an object (`deploy/web`, `svc/web`) selects.
pub(super) async fn pod_of(session: &Session, word: &str) -> Result<Object, Failure> {
    let pods = kind_named("pods")?;
    let (kind, name) = match word.split_once('/') {
        None => (pods, word),
        Some((kind, name)) => (kind_named(kind)?, name),
    };
    let object = match session.api(kind).get(&session.key(kind, name)).await {
        Ok(object) => object.object,
        Err(error) => return Err(session.explain_missing(kind, error).await.into()),
    };
    if kind == pods {
        return Ok(object);
    }
    let Some(selector) = selector_of(&object)? else {
        return Err(Failure::plain(format!("cannot attach to *{}.{}: it selects no pods", kind.version, kind.kind)));
    };
    let list = session.api(pods).list(&ListParams::in_namespace(object.namespace())).await?;
    let mut found: Vec<Object> =
        list.items.into_iter().map(|pod| pod.object).filter(|pod| selector.matches_object(pod)).collect();
    found.sort_by_key(|pod| pod.text(&["status", "phase"]) != "Running");
    let none = || Failure::plain(format!("no pods found for {} {name}", kind.singular));
    found.into_iter().next().ok_or_else(none)
}

/// A Service's own labels, or a workload's selector.
fn selector_of(object: &Object) -> Result<Option<LabelSelector>, Failure> {
    let Some(selector) = object.at(&["spec", "selector"]).filter(|selector| selector.is_object()) else {
        return Ok(None);
    };
    if object.kind_name() == "Service" || object.kind_name() == "ReplicationController" {
        let pairs = selector.as_object().into_iter().flatten();
        let pairs = pairs.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        return Ok(Some(LabelSelector::of_pairs(pairs)));
    }
    let selector = LabelSelector::from_json(selector).map_err(|problem| Failure::plain(problem.to_string()))?;
    Ok(Some(selector))
}

/// The path of a part of a container, `exec` or `attach`.
pub(super) fn path(pod: &Object, part: &str, query: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{}/{part}?{query}", pod.namespace(), pod.name())
}

/// The pod's container of this name, else the one that is meant if none is named; it must be running.
pub(super) fn running_container(pod: &Object, named: Option<&str>) -> Result<String, Failure> {
    let phase = pod.text(&["status", "phase"]);
    if matches!(phase, "Succeeded" | "Failed") {
        return Err(Failure::plain(format!(
            "cannot exec into a container in a completed pod; current phase is {phase}"
        )));
    }
    container_of(pod, named)
}
