//! How many replicas are wanted of what the pods belong to.

use std::collections::HashMap;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, ObjectKey, OwnerReference};

use crate::client::{Api, Error};
use crate::controller_manager::caches::Caches;
use crate::controller_manager::pod::PodRef;
use crate::controller_manager::tools::Tools;

/// Why the replicas cannot be told.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    /// The server could not be asked.
    #[error(transparent)]
    Asked(#[from] Error),
    /// There is no answer, in words for the budget's condition.
    #[error("{0}")]
    Nobody(String),
}

/// The replicas wanted, and the names of pods that nobody manages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// The sum over all controllers.
    pub(super) wanted: i64,
    /// Pods without a controller.
    pub(super) unmanaged: Vec<String>,
}

/// Adds up what the controllers of these pods want, each once.
pub(super) async fn expected(caches: &Caches, tools: &Tools, pods: &[PodRef]) -> Result<Expected, Unknown> {
    let mut scales: HashMap<String, i64> = HashMap::new();
    let mut expected = Expected::default();
    for pod in pods {
        let Some(owner) = pod.controller() else {
            expected.unmanaged.push(pod.key.name.clone());
            continue;
        };
        let found = match in_caches(caches, &pod.key.namespace, owner) {
            Some(found) => Some(found),
            None if scales.contains_key(&owner.uid) => continue,
            None => ask(tools, &pod.key.namespace, owner).await?,
        };
        match found {
            Some((uid, replicas)) => drop(scales.insert(uid, replicas)),
            None => return Err(Unknown::Nobody(format!("found no controllers for pod {}", quote(&pod.key.name)))),
        }
    }
    expected.wanted = scales.values().sum();
    Ok(expected)
}

/// What a replica set wants, or the deployment that it belongs to.
fn in_caches(caches: &Caches, namespace: &str, owner: &OwnerReference) -> Option<(String, i64)> {
    if owner.kind != "ReplicaSet" || !owner.api_version.starts_with("apps/") {
        return None;
    }
    let set = caches.replica_sets.get(&ObjectKey::new(namespace, &*owner.name)).filter(|set| set.uid == owner.uid)?;
    match set.object.controller().filter(|above| above.kind == "Deployment") {
        None => Some((set.uid.clone(), replicas(&set.object))),
        Some(above) => {
            let deployment = caches.deployments.get(&ObjectKey::new(namespace, &*above.name))?;
            (deployment.uid == above.uid).then(|| (deployment.uid.clone(), replicas(&deployment.object)))
        }
    }
}

fn replicas(object: &Object) -> i64 {
    object.int(&["spec", "replicas"]).unwrap_or(1)
}

/// Asks the server for the scale of whatever else it is. `None`: it is gone.
async fn ask(tools: &Tools, namespace: &str, owner: &OwnerReference) -> Result<Option<(String, i64)>, Unknown> {
    let Some(kind) = Kind::by_api_version(&owner.api_version, &owner.kind) else {
        let (kind, version) = (&owner.kind, &owner.api_version);
        return Err(Unknown::Nobody(format!(
            "no matches for kind {kind} in version {version}",
            kind = quote(&kind),
            version = quote(&version)
        )));
    };
    if !kind.has_subresource("scale") {
        return Err(Unknown::Nobody(format!("{} does not implement the scale subresource", kind.name())));
    }
    let api: Api<Object> = Api::of_kind(&tools.client, kind);
    let scale = match api.get_scale(&ObjectKey::new(namespace, &*owner.name)).await {
        Err(error) if error.is_not_found() => return Ok(None),
        answer => answer?,
    };
    let replicas = scale.object.int(&["spec", "replicas"]).unwrap_or(0);
    Ok((scale.uid == owner.uid).then_some((scale.uid, replicas)))
}
