//! Collects what has lost its owners, one queue a kind.

use std::sync::OnceLock;

use async_trait::async_trait;
use listwatch_proto::resource::{Kind, ObjectKey};

use super::Graph;
use super::collect::collect;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// Collects objects of one kind.
pub struct GarbageCollector {
    kind: &'static Kind,
    graph: OnceLock<Graph>,
}

impl GarbageCollector {
    /// A collector of this kind; the graph is given by [`GarbageCollector::connect`] before it runs.
    pub fn new(kind: &'static Kind) -> Self {
        GarbageCollector { kind, graph: OnceLock::new() }
    }

    /// Gives the collector the graph, which is made of the queues of all collectors.
    pub fn connect(&self, graph: Graph) {
        // A second graph would be the same one.
        let _ = self.graph.set(graph);
    }
}

#[async_trait]
impl Reconciler for GarbageCollector {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(graph) = self.graph.get() else { return Err("the collector was not connected".into()) };
        collect(graph, self.kind, key).await?;
        Ok(Action::Done)
    }
}
