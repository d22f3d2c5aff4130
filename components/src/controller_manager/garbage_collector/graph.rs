//! Who owns what, over all caches; the collector's world as it is.
//!
//! Invariants: the graph is nothing of its own; it is the caches' owner indices, asked kind by kind. Kinds that are defined
//! while it is in use come and go; what a kind that is no longer served would say is not waited for, and that the server
//! does not find an object of it proves nothing.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;
use listwatch_proto::resource::{Kind, Object, ObjectKey, OwnerReference};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::World;
use super::absent::Absent;
use crate::client::{Api, DeleteParams, Error, Patch, Propagation};
use crate::controller_manager::owned::{Known, Members, known};
use crate::controller_manager::tools::Tools;
use crate::runtime::{EventType, RateLimitedQueue, Stopped, reference_to};

struct Entry {
    kind: &'static Kind,
    members: Arc<dyn Members>,
    queue: RateLimitedQueue<ObjectKey>,
    /// The kind is no longer served.
    gone: CancellationToken,
}

impl Entry {
    fn new(kind: &'static Kind, members: Arc<dyn Members>, queue: RateLimitedQueue<ObjectKey>) -> Arc<Self> {
        Arc::new(Entry { kind, members, queue, gone: CancellationToken::new() })
    }
}

/// All kinds that may own or be owned. Clones are the same graph.
#[derive(Clone)]
pub struct Graph(Arc<Shared>);

struct Shared {
    tools: Tools,
    entries: RwLock<Vec<Arc<Entry>>>,
    absent: Absent,
}

/// Makes a [`Graph`].
#[derive(Default)]
pub struct GraphBuilder(Vec<Arc<Entry>>);

impl GraphBuilder {
    /// Adds a kind, with the queue of its collector.
    pub fn add(&mut self, kind: &'static Kind, members: Arc<dyn Members>, queue: RateLimitedQueue<ObjectKey>) {
        self.0.push(Entry::new(kind, members, queue));
    }

    /// The graph.
    pub fn build(self, tools: Tools) -> Graph {
        Graph(Arc::new(Shared { tools, entries: RwLock::new(self.0), absent: Absent::default() }))
    }
}

impl Graph {
    /// A graph in the making.
    pub fn builder() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Adds a kind that has come to be served, with the queue of its collector.
    pub fn add(&self, kind: &'static Kind, members: Arc<dyn Members>, queue: RateLimitedQueue<ObjectKey>) {
        self.0.entries.write().push(Entry::new(kind, members, queue));
    }

    /// Takes a kind out that is no longer served.
    pub fn remove(&self, kind: &Kind) {
        self.0.entries.write().retain(|entry| {
            let stays = entry.kind != kind;
            if !stays {
                entry.gone.cancel();
            }
            stays
        });
    }

    /// Has everything looked at whose owner is of this kind: until now nobody could say whether it is there.
    pub fn enqueue_owned_by_kind(&self, kind: &Kind) {
        for entry in self.0.entries.read().iter() {
            entry.members.owned_by_kind(kind).into_iter().for_each(|key| entry.queue.add(key));
        }
    }

    /// The objects of a kind are the same in all its versions.
    fn entry(&self, kind: &Kind) -> Option<Arc<Entry>> {
        self.0.entries.read().iter().find(|entry| entry.kind.is_same_resource(kind)).cloned()
    }

    fn api(&self, kind: &'static Kind) -> Api<Object> {
        Api::of_kind(&self.0.tools.client, kind)
    }

    async fn merge(&self, kind: &'static Kind, of: &Known, field: &str, value: Value) -> Result<(), Error> {
        let mut patch = json!({"metadata": {"uid": of.uid, "resourceVersion": of.revision.to_string()}});
        patch["metadata"][field] = if value.as_array().is_some_and(Vec::is_empty) { Value::Null } else { value };
        gone_is_fine(self.api(kind).patch(&of.key, &Patch::Merge(patch)).await)
    }
}

fn gone_is_fine<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[async_trait]
impl World for Graph {
    fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Known> {
        self.entry(kind)?.members.get(key)
    }

    fn dependents(&self, uid: &str) -> Vec<(&'static Kind, Known)> {
        let of = |entry: &Arc<Entry>| {
            let kind = entry.kind;
            entry.members.owned_by(uid).into_iter().map(move |known| (kind, known)).collect::<Vec<_>>()
        };
        self.0.entries.read().iter().flat_map(of).collect()
    }

    fn exists_somewhere(&self, kind: &Kind, uid: &str) -> bool {
        self.entry(kind).is_some_and(|entry| entry.members.has_uid(uid))
    }

    fn enqueue(&self, kind: &Kind, key: &ObjectKey) {
        if let Some(entry) = self.entry(kind) {
            entry.queue.add(key.clone());
        }
    }

    fn absent(&self) -> &Absent {
        &self.0.absent
    }

    async fn catch_up(&self, revision: i64) -> Result<(), Stopped> {
        let client = &self.0.tools.client;
        let entries = self.0.entries.read().clone();
        let wait = |entry: Arc<Entry>| async move {
            tokio::select! {
                biased;
                () = entry.gone.cancelled() => Ok(()),
                outcome = entry.members.catch_up(client, entry.kind, revision) => outcome,
            }
        };
        try_join_all(entries.into_iter().map(wait)).await.map(drop)
    }

    async fn live(&self, kind: &'static Kind, key: &ObjectKey) -> Result<Option<Known>, Error> {
        match self.api(kind).get(key).await {
            Ok(cached) => Ok(Some(known(&cached))),
            // The one answer tells both, so that no kind can go between two.
            Err(error) if error.is_not_served() => {
                Err(Error::NotServed(format!("{}.{}/{}", kind.plural, kind.group, kind.version)))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn set_owners(&self, kind: &'static Kind, of: &Known, owners: &[OwnerReference]) -> Result<(), Error> {
        self.merge(kind, of, "ownerReferences", json!(owners)).await
    }

    async fn set_finalizers(&self, kind: &'static Kind, of: &Known, finalizers: &[String]) -> Result<(), Error> {
        self.merge(kind, of, "finalizers", json!(finalizers)).await
    }

    async fn delete(&self, kind: &'static Kind, of: &Known, propagation: Propagation) -> Result<(), Error> {
        let params = DeleteParams { propagation, ..DeleteParams::uid(&*of.uid).at_revision(of.revision) };
        gone_is_fine(self.api(kind).delete(&of.key, &params).await)
    }

    fn tell_misplaced(&self, kind: &'static Kind, of: &Known, owner: &OwnerReference) {
        let (namespace, about) = (&of.key.namespace, reference_to(kind, &of.key, &of.uid));
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in \
             namespace \"{namespace}\""
        );
        self.0.tools.recorder.event_about(about, EventType::Warning, "OwnerRefInvalidNamespace", message);
    }
}
