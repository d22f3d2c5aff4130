//! Collects what has lost its owners.
//!
//! Invariants: an object is only deleted after the server has said that it is the one the cache shows and that none of its
//! owners is there; a delete names the uid and the version that was judged.

use async_trait::async_trait;
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

use super::graph::known;
use super::{FOREGROUND, Graph, Known, ORPHAN, OwnerState, Verdict, verdict};
use crate::client::{Api, DeleteParams, Error, Patch, Propagation};
use crate::controller_manager::ownership::release;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// Collects objects of one kind.
pub struct GarbageCollector {
    kind: &'static Kind,
    objects: Api<Object>,
    client: crate::client::Client,
    graph: std::sync::OnceLock<Graph>,
}

impl GarbageCollector {
    /// A collector of this kind; the graph is given by [`GarbageCollector::connect`] before it runs.
    pub fn new(client: &crate::client::Client, kind: &'static Kind) -> Self {
        let objects = Api::of_kind(client, kind);
        GarbageCollector { kind, objects, client: client.clone(), graph: std::sync::OnceLock::new() }
    }

    /// Gives the collector the graph, which is made of the queues of all collectors.
    pub fn connect(&self, graph: Graph) {
        // A second graph would be the same one.
        let _ = self.graph.set(graph);
    }

    /// Lets an owner go once nothing blocks it any more.
    async fn foreground(&self, graph: &Graph, owner: &Known) -> Result<(), Error> {
        let dependents = graph.dependents(&owner.uid);
        let blocks = |dependent: &Known| {
            dependent.owners.iter().any(|o| o.uid == owner.uid && o.block_owner_deletion == Some(true))
        };
        if dependents.iter().any(|(_, dependent)| blocks(dependent)) {
            for (kind, dependent) in &dependents {
                graph.enqueue(kind, &dependent.key);
            }
            return Ok(());
        }
        self.drop_finalizer(owner, FOREGROUND).await
    }

    /// Frees what an owner owns, then lets it go.
    async fn orphan(&self, graph: &Graph, owner: &Known) -> Result<(), Error> {
        for (kind, dependent) in graph.dependents(&owner.uid) {
            let patch = release(&dependent.uid, dependent.revision, &dependent.owners, &owner.uid);
            match Api::<Object>::of_kind(&self.client, kind).patch(&dependent.key, &Patch::Merge(patch)).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        self.drop_finalizer(owner, ORPHAN).await
    }

    async fn drop_finalizer(&self, owner: &Known, finalizer: &str) -> Result<(), Error> {
        let Some(live) = self.objects.get_opt(&owner.key).await?.filter(|live| live.uid == owner.uid) else {
            return Ok(());
        };
        let left: Vec<&str> = live.object.finalizers().filter(|held| *held != finalizer).collect();
        let left = if left.is_empty() { Value::Null } else { json!(left) };
        let patch = json!({"metadata": {
            "uid": live.uid, "resourceVersion": live.revision.to_string(), "finalizers": left,
        }});
        gone_is_fine(self.objects.patch(&owner.key, &Patch::Merge(patch)).await)
    }

    /// Judges an object by its owners, after a look at the server.
    async fn judge(&self, graph: &Graph, cached: &Known) -> Result<(), Error> {
        let settled = |owner| graph.cached_state(&cached.key, owner) == Some(OwnerState::Solid);
        if cached.owners.iter().all(settled) {
            return Ok(());
        }
        let live = self.objects.get_opt(&cached.key).await?;
        let Some(live) = live.filter(|live| live.uid == cached.uid).map(|live| known(&live)) else { return Ok(()) };
        let mut owners = Vec::new();
        for owner in &live.owners {
            owners.push((owner.clone(), graph.state(&live.key, owner).await?));
        }
        let version = live.revision.to_string();
        match verdict(&owners) {
            Verdict::Keep => Ok(()),
            Verdict::Strip(owners) => {
                let patch =
                    json!({"metadata": {"uid": live.uid, "resourceVersion": version, "ownerReferences": owners}});
                gone_is_fine(self.objects.patch(&live.key, &Patch::Merge(patch)).await)
            }
            Verdict::Delete { .. } if live.terminating => Ok(()),
            Verdict::Delete { waiting } => {
                let owns = !graph.dependents(&live.uid).is_empty();
                let propagation = if waiting && owns { Propagation::Foreground } else { Propagation::Background };
                let params = DeleteParams { propagation, ..DeleteParams::uid(&*live.uid).at_revision(live.revision) };
                gone_is_fine(self.objects.delete(&live.key, &params).await)
            }
        }
    }
}

fn gone_is_fine<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[async_trait]
impl Reconciler for GarbageCollector {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(graph) = self.graph.get() else { return Err("the collector was not connected".into()) };
        let Some(cached) = graph.get(self.kind, key) else { return Ok(Action::Done) };
        if cached.orphan {
            self.orphan(graph, &cached).await?;
        } else if cached.foreground {
            self.foreground(graph, &cached).await?;
        } else {
            self.judge(graph, &cached).await?;
        }
        Ok(Action::Done)
    }
}
