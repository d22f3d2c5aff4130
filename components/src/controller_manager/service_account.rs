//! Every namespace has a service account `default`: pods that name none run as it (Kubernetes 1.36).

use async_trait::async_trait;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::json;

use super::bare::Bare;
use super::caches::Caches;
use super::tools::Tools;
use crate::client::Api;
use crate::runtime::{Action, ReconcileError, Reconciler, Store};

/// The account that every namespace has.
pub const DEFAULT: &str = "default";

/// Makes the accounts; a key is a namespace.
pub struct ServiceAccountReconciler {
    caches: Caches,
    known: Option<Store<Bare>>,
    accounts: Api<Object>,
}

impl ServiceAccountReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: &Tools) -> Self {
        let known = caches.other("", "serviceaccounts");
        ServiceAccountReconciler { caches, known, accounts: tools.api("", "serviceaccounts") }
    }
}

#[async_trait]
impl Reconciler for ServiceAccountReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let stands = self.caches.namespaces.get(key).is_some_and(|namespace| !namespace.object.is_terminating());
        let account = ObjectKey::new(&*key.name, DEFAULT);
        if !stands || self.known.as_ref().is_some_and(|known| known.get(&account).is_some()) {
            return Ok(Action::Done);
        }
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT, "namespace": &*key.name},
        });
        let object = Object::from_value(object).expect("a literal map");
        match self.accounts.create(&object).await {
            // It is there already, or its namespace goes.
            Err(error) if error.is_already_exists() || error.is_not_found() || error.is_namespace_terminating() => {
                Ok(Action::Done)
            }
            outcome => outcome.map(|_| Action::Done).map_err(Into::into),
        }
    }
}
