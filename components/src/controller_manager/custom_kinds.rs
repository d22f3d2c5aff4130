//! Kinds that are defined while the program runs, for the collector of garbage: who they own goes with them.
//!
//! Invariants: each of them is followed in one version, by a cache and a collector of its own, for as long as the server
//! serves it; nothing of one is judged before its cache has synced.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::{Kind, LearnedKind, learned};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::caches::{Caches, Informers, custom_informer, kind};
use super::garbage_collector::Graph;
use super::wiring::{collector, hook_graph};
use crate::client::{Client, Error};

/// The definitions are told by a watch; a version that began to be served a moment later is found by this.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// When the server could not be asked.
const RETRY: Duration = Duration::from_secs(1);

/// The kinds that the server serves beside those of the table, each in one version. They are learned by that.
pub(super) async fn served(client: &Client) -> Result<Vec<&'static Kind>, Error> {
    let answer = client.discover().await?;
    learned::learn(answer.resources.into_iter().map(LearnedKind::from));
    let mut kinds = learned::learned();
    kinds.sort_by_key(|kind| (kind.group, kind.plural));
    kinds.dedup_by_key(|kind| (kind.group, kind.plural));
    Ok(kinds)
}

/// Follows them.
pub(super) struct CustomKinds {
    client: Client,
    graph: Graph,
    caches: Caches,
    defined: Arc<Notify>,
}

impl CustomKinds {
    /// Hooked to the definitions, not yet running.
    pub(super) fn new(client: &Client, graph: Graph, informers: &mut Informers) -> Self {
        let defined = Arc::new(Notify::new());
        let definitions = kind("apiextensions.k8s.io", "customresourcedefinitions");
        for other in informers.others.iter_mut().filter(|other| other.kind() == definitions) {
            let defined = defined.clone();
            other.on_change(move |_| defined.notify_one());
        }
        CustomKinds { client: client.clone(), graph, caches: informers.caches(), defined }
    }

    /// Runs until told to stop, then waits for the collectors.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut followed: HashMap<&'static str, (&'static Kind, CancellationToken)> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let asked = tokio::select! {
                () = stop.cancelled() => break,
                asked = served(&self.client) => asked,
            };
            let pause = match asked {
                Ok(kinds) => {
                    self.adopt(kinds, &mut followed, &stop, &mut tasks);
                    LOOK_AGAIN
                }
                Err(error) => {
                    tracing::debug!(%error, "the kinds that are served are not known");
                    RETRY
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.defined.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Follows these kinds, and no others.
    fn adopt(
        &self,
        kinds: Vec<&'static Kind>,
        followed: &mut HashMap<&'static str, (&'static Kind, CancellationToken)>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) {
        followed.retain(|_, (kind, stop)| {
            let stays = kinds.contains(kind);
            if !stays {
                stop.cancel();
                self.graph.remove(kind);
            }
            stays
        });
        for kind in kinds {
            followed.entry(kind.key_prefix).or_insert_with(|| {
                let stop = stop.child_token();
                self.follow(kind, &stop, tasks);
                (kind, stop)
            });
        }
    }

    fn follow(&self, kind: &'static Kind, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        let mut informer = custom_informer(&self.client, kind);
        let store = informer.store();
        let collector = collector(kind, &self.caches).reads_kind(kind, &store);
        collector.reconciler().connect(self.graph.clone());
        self.graph.add(kind, Arc::new(store.clone()), collector.queue());
        hook_graph(&mut informer, &self.graph);
        tasks.spawn(informer.run(stop.clone()));
        tasks.spawn(collector.run(stop.clone()));
        let graph = self.graph.clone();
        tasks.spawn(async move {
            if store.wait_synced().await.is_ok() {
                graph.enqueue_owned_by_kind(kind);
            }
        });
    }
}
