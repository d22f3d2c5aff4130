//! Empties namespaces.

use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use listwatch_proto::resource::{KINDS, Kind, Object, ObjectKey};
use serde_json::{Value, json};

use super::{Remains, conditions};
use crate::client::{Api, Cached, DeleteParams, Error, ListParams, Patch, WriteParams};
use crate::controller_manager::caches::{Caches, kind};
use crate::controller_manager::custom_kinds::served;
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

    /// Deletes every object of a kind in the namespace, and counts those that are still there.
    async fn empty(&self, kind: &'static Kind, namespace: &str, remains: &mut Remains) -> Result<(), Error> {
        let objects = Api::<Object>::of_kind(&self.tools.client, kind);
        let list = objects.list(&ListParams::in_namespace(namespace)).await?.items;
        let (going, standing): (Vec<_>, Vec<_>) = list.into_iter().partition(|object| object.object.is_terminating());
        for object in &going {
            remains.object(kind, object.object.finalizers());
        }
        let delete = |object: Cached<Object>| {
            let objects = objects.clone();
            async move {
                let outcome = objects.delete(&object.key, &DeleteParams::uid(&*object.uid)).await;
                (object, outcome)
            }
        };
        let mut deletes = stream::iter(standing).map(delete).buffer_unordered(DELETES_AT_ONCE);
        while let Some((object, outcome)) = deletes.next().await {
            match outcome {
                Ok(deleted) if deleted.removed => {}
                Ok(deleted) => remains.object(kind, deleted.object.as_ref().unwrap_or(&object).object.finalizers()),
                Err(error) if error.is_not_found() => {}
                // Another one has come under the name, or the server is away: there is something, and it is tried again.
                Err(error) if error.is_conflict() => remains.object(kind, object.object.finalizers()),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => {
                    remains.object(kind, object.object.finalizers());
                    remains.failure(error);
                }
            }
        }
        Ok(())
    }

    /// Says what is left, if that has changed.
    async fn tell(&self, namespace: &Cached<Object>, remains: &Remains) -> Result<(), Error> {
        let Some(live) = self.namespaces.get_opt(&namespace.key).await?.filter(|live| live.uid == namespace.uid) else {
            return Ok(());
        };
        let held = live.object.at(&["status", "conditions"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let Some(conditions) = conditions(held, remains, self.tools.clock.now()) else { return Ok(()) };
        let patch = json!({
            "metadata": {"uid": live.uid, "resourceVersion": live.revision.to_string()},
            "status": {"conditions": conditions},
        });
        gone_is_fine(self.namespaces.patch_status(&live.key, &Patch::Merge(patch)).await)
    }

    /// Takes off the finalizer of a namespace that is empty.
    async fn finalize(&self, namespace: &Cached<Object>) -> Result<(), Error> {
        let Some(live) = self.namespaces.get_opt(&namespace.key).await?.filter(|live| live.uid == namespace.uid) else {
            return Ok(());
        };
        let mut object = live.object;
        let held = object.at(&["spec", "finalizers"]).and_then(Value::as_array).cloned().unwrap_or_default();
        if !held.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let left: Vec<Value> = held.into_iter().filter(|finalizer| finalizer != FINALIZER).collect();
        object.set(&["spec", "finalizers"], left);
        gone_is_fine(self.namespaces.update_with(&object, "finalize", &WriteParams::default()).await)
    }
}

fn gone_is_fine<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[async_trait]
impl Reconciler for NamespaceReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.caches.namespaces.get(key).filter(|n| n.object.is_terminating()) else {
            return Ok(Action::Done);
        };
        let pods = kind("", "pods");
        let mut remains = Remains::default();
        self.empty(pods, &key.name, &mut remains).await?;
        if remains.is_empty() {
            let served = served(&self.tools.client).await?;
            let all = KINDS.iter().chain(served);
            for kind in all.filter(|kind| kind.is_kept() && kind.namespaced && *kind != pods) {
                match self.empty(kind, &key.name, &mut remains).await {
                    // Its definition has gone in between, and its objects with it.
                    Err(error) if error.is_not_found() => {}
                    outcome => outcome?,
                }
            }
        }
        if remains.is_empty() {
            self.finalize(&namespace).await?;
            return Ok(Action::Done);
        }
        self.tell(&namespace, &remains).await?;
        Ok(Action::RequeueAfter(LOOK_AGAIN))
    }
}
