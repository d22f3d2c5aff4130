//! The caches of the controller manager: one of each kind, shared by all its controllers.
//!
//! Invariant: nobody but the informers writes them; what the controllers need to find quickly has an index.

use std::sync::Arc;

use futures::future::try_join_all;
use listwatch_proto::resource::{KINDS, Kind, Object};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::bare::Bare;
use super::node::{Lease, Node};
use super::owned::{Members, Owned};
use super::pod::Pod;
use crate::client::{Cached, Client, Decode};
use crate::runtime::{BY_OWNER, IndexerBuilder, Informer, ReflectorConfig, Stopped, Store};

/// Index: objects without a controller, by namespace.
pub const ORPHANS: &str = "orphans";
/// Index: pods by the node they are on; under the empty name those that have none.
pub const BY_NODE: &str = "node";
/// Index: pods that have ended, all under the empty value.
pub const FINISHED: &str = "finished";

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
    /// Of resource quotas.
    pub quotas: Informer<Object>,
    /// Of disruption budgets.
    pub budgets: Informer<Object>,
    /// Of every other kind that may own or be owned.
    pub others: Vec<Informer<Bare>>,
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
    /// Resource quotas, with [`BY_OWNER`].
    pub quotas: Store<Object>,
    /// Disruption budgets, with [`BY_OWNER`].
    pub budgets: Store<Object>,
    /// Every other kind that may own or be owned, with [`BY_OWNER`].
    pub others: Vec<(&'static Kind, Store<Bare>)>,
}

/// The kinds that have a cache of their own here.
const READ: [(&str, &str); 8] = [
    ("", "pods"),
    ("", "nodes"),
    ("coordination.k8s.io", "leases"),
    ("", "namespaces"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("", "resourcequotas"),
    ("policy", "poddisruptionbudgets"),
];

/// The rest of the table of kinds. Events are no part of it: they are many, own nothing and go by themselves.
fn others() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.is_kept() && kind.kind != "Event" && !READ.contains(&(kind.group, kind.plural)))
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

/// A feeder of a kind that is defined while the program runs.
pub fn custom_informer(client: &Client, kind: &'static Kind) -> Informer<Bare> {
    informer(client, kind, |index| index)
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
            quotas: informer(client, kind("", "resourcequotas"), |index| index),
            budgets: informer(client, kind("policy", "poddisruptionbudgets"), |index| index),
            others: others().map(|kind| informer(client, kind, |index| index)).collect(),
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
            quotas: self.quotas.store(),
            budgets: self.budgets.store(),
            others: self.others.iter().map(|other| (other.kind(), other.store())).collect(),
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
        tasks.spawn(self.quotas.run(stop.clone()));
        tasks.spawn(self.budgets.run(stop.clone()));
        for other in self.others {
            tasks.spawn(other.run(stop.clone()));
        }
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
        self.replica_sets.wait_synced().await?;
        self.quotas.wait_synced().await?;
        self.budgets.wait_synced().await?;
        for (_, other) in &self.others {
            other.wait_synced().await?;
        }
        Ok(())
    }

    /// The cache of a kind that has none of its own here.
    pub fn other(&self, group: &str, plural: &str) -> Option<Store<Bare>> {
        let wanted = kind(group, plural);
        self.others.iter().find(|(kind, _)| *kind == wanted).map(|(_, store)| store.clone())
    }

    /// Every kind that may own or be owned, for the collector.
    pub fn members(&self) -> Vec<(&'static Kind, Arc<dyn Members>)> {
        let mut members: Vec<(&'static Kind, Arc<dyn Members>)> = vec![
            (kind("", "pods"), Arc::new(self.pods.clone())),
            (kind("", "nodes"), Arc::new(self.nodes.clone())),
            (kind("coordination.k8s.io", "leases"), Arc::new(self.leases.clone())),
            (kind("", "namespaces"), Arc::new(self.namespaces.clone())),
            (kind("apps", "deployments"), Arc::new(self.deployments.clone())),
            (kind("apps", "replicasets"), Arc::new(self.replica_sets.clone())),
            (kind("", "resourcequotas"), Arc::new(self.quotas.clone())),
            (kind("policy", "poddisruptionbudgets"), Arc::new(self.budgets.clone())),
        ];
        for (kind, other) in &self.others {
            members.push((kind, Arc::new(other.clone())));
        }
        members
    }

    /// Waits until each shows everything up to a revision of the server.
    pub async fn catch_up(&self, client: &Client, revision: i64) -> Result<(), Stopped> {
        let members = self.members();
        let waits = members.iter().map(|(kind, members)| members.catch_up(client, kind, revision));
        try_join_all(waits).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_but_events_is_collected() {
        let mut collected: Vec<_> = READ.iter().map(|(group, plural)| kind(group, plural)).chain(others()).collect();
        let mut served: Vec<_> = KINDS.iter().filter(|kind| kind.is_kept() && kind.kind != "Event").collect();
        collected.sort_by_key(|kind| kind.key_prefix);
        served.sort_by_key(|kind| kind.key_prefix);
        assert_eq!(collected, served);
    }
}
