//! The caches of the controller manager: one of each kind, shared by all its controllers.
//!
//! Invariant: nobody but the informers writes them; what the controllers need to find quickly has an index.

use listwatch_proto::resource::{Kind, Object, OwnerReference};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::node::{Lease, Node};
use super::pod::Pod;
use crate::client::{Cached, Client, Decode};
use crate::runtime::{BY_OWNER, IndexerBuilder, Informer, ReflectorConfig, Stopped, Store, catch_up};

/// Index: objects without a controller, by namespace.
pub const ORPHANS: &str = "orphans";
/// Index: pods by the node they are on; under the empty name those that have none.
pub const BY_NODE: &str = "node";
/// Index: pods that have ended, all under the empty value.
pub const FINISHED: &str = "finished";

/// An object whose owners matter.
pub trait Owned: Send + Sync + 'static {
    /// `metadata.ownerReferences`.
    fn owners(&self) -> Vec<OwnerReference>;
    /// `metadata.finalizers`.
    fn has_finalizer(&self, finalizer: &str) -> bool;
    /// Whether it has a deletion timestamp.
    fn terminating(&self) -> bool;
}

macro_rules! owned {
    ($($type:ty),*) => {$(
        impl Owned for $type {
            fn owners(&self) -> Vec<OwnerReference> {
                self.owners.clone()
            }
            fn has_finalizer(&self, finalizer: &str) -> bool {
                self.finalizers.iter().any(|f| f == finalizer)
            }
            fn terminating(&self) -> bool {
                self.terminating
            }
        }
    )*};
}

owned!(Pod, Node, Lease);

impl Owned for Object {
    fn owners(&self) -> Vec<OwnerReference> {
        self.owner_references()
    }
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().any(|f| f == finalizer)
    }
    fn terminating(&self) -> bool {
        self.is_terminating()
    }
}

/// The feeders, before they run.
pub struct Informers {
    /// Of pods.
    pub pods: Informer<Pod>,
    /// Of nodes.
    pub nodes: Informer<Node>,
    /// Of Leases, those of the nodes and those of elections.
    pub leases: Informer<Lease>,
    /// Of namespaces.
    pub namespaces: Informer<Object>,
    /// Of deployments.
    pub deployments: Informer<Object>,
    /// Of replica sets.
    pub replica_sets: Informer<Object>,
}

/// The caches, to read.
#[derive(Clone)]
pub struct Caches {
    /// Pods, with [`BY_OWNER`], [`ORPHANS`], [`BY_NODE`] and [`FINISHED`].
    pub pods: Store<Pod>,
    /// Nodes, with [`BY_OWNER`].
    pub nodes: Store<Node>,
    /// Leases, with [`BY_OWNER`].
    pub leases: Store<Lease>,
    /// Namespaces, with [`BY_OWNER`].
    pub namespaces: Store<Object>,
    /// Deployments, with [`BY_OWNER`].
    pub deployments: Store<Object>,
    /// Replica sets, with [`BY_OWNER`] and [`ORPHANS`].
    pub replica_sets: Store<Object>,
}

/// The row of facts of a kind that this program was written for.
pub fn kind(group: &str, plural: &str) -> &'static Kind {
    Kind::by_plural(group, "", plural).expect("the controllers' kinds are served")
}

fn informer<T: Decode + Owned>(
    client: &Client,
    kind: &'static Kind,
    index: impl FnOnce(IndexerBuilder<T>) -> IndexerBuilder<T>,
) -> Informer<T> {
    let builder = IndexerBuilder::new()
        .index(BY_OWNER, |cached: &Cached<T>| cached.object.owners().into_iter().map(|owner| owner.uid));
    Informer::with(client, kind, ReflectorConfig::default(), index(builder))
}

fn orphan<T: Owned>(cached: &Cached<T>) -> Option<String> {
    let managed = cached.object.owners().iter().any(|owner| owner.controller == Some(true));
    (!managed).then(|| cached.key.namespace.clone())
}

impl Informers {
    /// Feeders of every kind that the controllers read.
    pub fn new(client: &Client) -> Self {
        Informers {
            pods: informer(client, kind("", "pods"), |index| {
                index
                    .index(ORPHANS, orphan)
                    .index(BY_NODE, |pod: &Cached<Pod>| Some(pod.node.to_string()))
                    .index(FINISHED, |pod: &Cached<Pod>| pod.is_finished().then(String::new))
            }),
            nodes: informer(client, kind("", "nodes"), |index| index),
            leases: informer(client, kind("coordination.k8s.io", "leases"), |index| index),
            namespaces: informer(client, kind("", "namespaces"), |index| index),
            deployments: informer(client, kind("apps", "deployments"), |index| index),
            replica_sets: informer(client, kind("apps", "replicasets"), |index| index.index(ORPHANS, orphan)),
        }
    }

    /// The caches they feed.
    pub fn caches(&self) -> Caches {
        Caches {
            pods: self.pods.store(),
            nodes: self.nodes.store(),
            leases: self.leases.store(),
            namespaces: self.namespaces.store(),
            deployments: self.deployments.store(),
            replica_sets: self.replica_sets.store(),
        }
    }

    /// Runs them all on tasks of this set.
    pub fn spawn(self, tasks: &mut JoinSet<()>, stop: &CancellationToken) {
        tasks.spawn(self.pods.run(stop.clone()));
        tasks.spawn(self.nodes.run(stop.clone()));
        tasks.spawn(self.leases.run(stop.clone()));
        tasks.spawn(self.namespaces.run(stop.clone()));
        tasks.spawn(self.deployments.run(stop.clone()));
        tasks.spawn(self.replica_sets.run(stop.clone()));
    }
}

impl Caches {
    /// Waits until each has its first full state.
    pub async fn wait_synced(&self) -> Result<(), Stopped> {
        self.pods.wait_synced().await?;
        self.nodes.wait_synced().await?;
        self.leases.wait_synced().await?;
        self.namespaces.wait_synced().await?;
        self.deployments.wait_synced().await?;
        self.replica_sets.wait_synced().await
    }

    /// Waits until each shows everything up to a revision of the server.
    pub async fn catch_up(&self, client: &Client, revision: i64) -> Result<(), Stopped> {
        let all = ReflectorConfig::default();
        tokio::try_join!(
            catch_up(client, kind("", "pods"), &all, &self.pods, revision),
            catch_up(client, kind("", "nodes"), &all, &self.nodes, revision),
            catch_up(client, kind("coordination.k8s.io", "leases"), &all, &self.leases, revision),
            catch_up(client, kind("", "namespaces"), &all, &self.namespaces, revision),
            catch_up(client, kind("apps", "deployments"), &all, &self.deployments, revision),
            catch_up(client, kind("apps", "replicasets"), &all, &self.replica_sets, revision),
        )
        .map(drop)
    }
}
