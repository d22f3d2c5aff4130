//! Every namespace has the authority of the API server's certificate, in the ConfigMap `kube-root-ca.crt`: pods know the
//! server by it (Kubernetes 1.36).

use async_trait::async_trait;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::{Value, json};

use super::caches::Caches;
use super::tools::Tools;
use crate::client::{Api, Error};
use crate::runtime::{Action, ReconcileError, Reconciler};

/// The ConfigMap of every namespace.
pub const NAME: &str = "kube-root-ca.crt";
const FILE: &str = "ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                           endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                           guaranteed across distributions of Kubernetes clusters.";

/// Publishes the authority; a key is a namespace.
pub struct RootCaReconciler {
    caches: Caches,
    config_maps: Api<Object>,
    /// PEM.
    authority: String,
}

impl RootCaReconciler {
    /// A reconciler over these caches. `authority`: PEM.
    pub fn new(caches: Caches, tools: &Tools, authority: String) -> Self {
        RootCaReconciler { caches, config_maps: tools.api("", "configmaps"), authority }
    }

    fn wanted(&self, namespace: &str) -> Object {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": NAME, "namespace": namespace,
                "annotations": {"kubernetes.io/description": DESCRIPTION},
            },
            "data": {FILE: self.authority},
        });
        Object::from_value(object).expect("a literal map")
    }
}

/// The object as it should be; `None` = it is so.
fn mended(live: &Object, wanted: &Object) -> Option<Object> {
    let annotation = ["metadata", "annotations", "kubernetes.io/description"];
    let same = live.at(&["data"]) == wanted.at(&["data"]) && live.at(&annotation).is_some();
    if same && live.at(&["binaryData"]).is_none() {
        return None;
    }
    let mut mended = live.clone();
    mended.set(&["data"], wanted.at(&["data"]).cloned().unwrap_or(Value::Null));
    mended.set(&annotation, wanted.text(&annotation));
    mended.remove(&["binaryData"]);
    Some(mended)
}

#[async_trait]
impl Reconciler for RootCaReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        if self.caches.namespaces.get(key).is_none_or(|namespace| namespace.object.is_terminating()) {
            return Ok(Action::Done);
        }
        let wanted = self.wanted(&key.name);
        let outcome = match self.config_maps.get_opt(&ObjectKey::new(&*key.name, NAME)).await? {
            None => self.config_maps.create(&wanted).await,
            Some(live) => match mended(&live.object, &wanted) {
                None => return Ok(Action::Done),
                Some(mended) => self.config_maps.update(&mended).await,
            },
        };
        match outcome {
            Err(error) if is_pointless(&error) => Ok(Action::Done),
            outcome => outcome.map(|_| Action::Done).map_err(Into::into),
        }
    }
}

/// The namespace goes, so there is nothing to come back for. Anything else passes, a quota that is full too.
fn is_pointless(error: &Error) -> bool {
    error.is_not_found() || error.is_namespace_terminating()
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::{Cause, Reason, Status};

    #[test]
    fn only_a_namespace_that_goes_is_given_up() {
        let forbidden = Status::new(Reason::Forbidden, "exceeded quota: q");
        assert!(!is_pointless(&Error::Status(Box::new(forbidden.clone()))));
        let cause = Cause { reason: "NamespaceTerminating".into(), ..Cause::default() };
        assert!(is_pointless(&Error::Status(Box::new(Status { causes: vec![cause], ..forbidden }))));
        assert!(is_pointless(&Error::Status(Box::new(Status::new(Reason::NotFound, "gone")))));
    }

    #[test]
    fn what_somebody_changed_is_put_right() {
        let wanted = Object::from_value(json!({
            "metadata": {"annotations": {"kubernetes.io/description": "d"}}, "data": {FILE: "PEM"},
        }))
        .expect("a map");
        assert_eq!(mended(&wanted, &wanted), None);
        let mut changed = wanted.clone();
        changed.set(&["data"], json!({FILE: "other", "x": "y"}));
        assert_eq!(mended(&changed, &wanted), Some(wanted.clone()));
        let mut bare = wanted.clone();
        bare.remove(&["metadata", "annotations"]);
        assert_eq!(mended(&bare, &wanted), Some(wanted));
    }
}
