//! Empties namespaces.

use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use listwatch_proto::resource::{KINDS, Kind, Object, ObjectKey};
use serde_json::Value;

use crate::client::{Api, Cached, DeleteParams, Error, ListParams, WriteParams};
use crate::controller_manager::caches::{Caches, kind};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// Deletes under way at the same time.
const DELETES_AT_ONCE: usize = 16;
/// Something is on its way out: its end is told by the watches, and this is only in case they have no eye on it.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The finalizer that this controller takes off.
const FINALIZER: &str = "kubernetes";

/// Empties namespaces.
pub struct NamespaceReconciler {
    caches: Caches,
    tools: Tools,
    namespaces: Api<Object>,
}

impl NamespaceReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let namespaces = tools.api("", "namespaces");
        NamespaceReconciler { caches, tools, namespaces }
    }

    /// Deletes every object of a kind in the namespace; tells how many are still there.
    async fn empty(&self, kind: &'static Kind, namespace: &str) -> Result<usize, Error> {
        let objects = Api::<Object>::of_kind(&self.tools.client, kind);
        let list = objects.list(&ListParams::in_namespace(namespace)).await?.items;
        let (going, standing): (Vec<_>, Vec<_>) = list.into_iter().partition(|object| object.object.is_terminating());
        let delete = |object: Cached<Object>| {
            let objects = objects.clone();
            async move { objects.delete(&object.key, &DeleteParams::uid(object.uid)).await }
        };
        let mut left = going.len();
        let mut deletes = stream::iter(standing).map(delete).buffer_unordered(DELETES_AT_ONCE);
        while let Some(outcome) = deletes.next().await {
            match outcome {
                Ok(deleted) => left += usize::from(!deleted.removed),
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    /// Takes off the finalizer of a namespace that is empty.
    async fn finalize(&self, namespace: &Cached<Object>) -> Result<(), Error> {
        let Some(live) = self.namespaces.get_opt(&namespace.key).await?.filter(|live| live.uid == namespace.uid) else {
            return Ok(());
        };
        let mut object = live.object;
        let held = object.at(&["spec", "finalizers"]).and_then(Value::as_array).cloned().unwrap_or_default();
        let left: Vec<Value> = held.into_iter().filter(|finalizer| finalizer != FINALIZER).collect();
        object.set(&["spec", "finalizers"], left);
        match self.namespaces.update_with(&object, "finalize", &WriteParams::default()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Reconciler for NamespaceReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.caches.namespaces.get(key).filter(|n| n.object.is_terminating()) else {
            return Ok(Action::Done);
        };
        let pods = kind("", "pods");
        let mut left = self.empty(pods, &key.name).await?;
        if left == 0 {
            for kind in KINDS.iter().filter(|kind| kind.namespaced && *kind != pods) {
                left += self.empty(kind, &key.name).await?;
            }
        }
        if left > 0 {
            return Ok(Action::RequeueAfter(LOOK_AGAIN));
        }
        self.finalize(&namespace).await?;
        Ok(Action::Done)
    }
}
