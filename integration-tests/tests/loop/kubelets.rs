//! The test in the place of all kubelets.

use std::{
    collections::BTreeSet,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use listwatch_components::client::{Api, Cached, Client, DeleteParams, Patch};
use listwatch_components::runtime::{Change, IndexerBuilder, Informer, ReflectorConfig, Store};
use listwatch_proto::resource::Object;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::plane::{is_active, kind};

/// A pod with this in its spec runs, but never gets ready.
const NEVER_READY: &str = "bad";

/// The kubelets of all nodes: what is bound runs at once, what is to go is gone at once. Counts what it sees.
pub(super) struct Kubelets {
    pub(super) pods: Store<Object>,
    seen: Arc<Seen>,
    stop: CancellationToken,
}

/// Extremes since the last [`Kubelets::count_anew`].
struct Seen {
    /// The most pods that were active at the same time.
    most: AtomicUsize,
    /// The fewest that were ready.
    fewest_ready: AtomicUsize,
    /// The most sets that had a pod which had not ended.
    most_sets: AtomicUsize,
}

impl Seen {
    fn note(&self, pods: &[Arc<Cached<Object>>]) {
        let active = || pods.iter().map(|pod| &pod.object).filter(|pod| is_active(pod));
        let ready = active().filter(|pod| pod.condition("Ready").is_some_and(|c| c["status"] == "True")).count();
        let living = pods.iter().filter(|pod| !matches!(pod.object.text(&["status", "phase"]), "Succeeded" | "Failed"));
        let sets: BTreeSet<&str> = living.filter_map(|pod| pod.object.label("pod-template-hash")).collect();
        self.most.fetch_max(active().count(), Ordering::Relaxed);
        self.fewest_ready.fetch_min(ready, Ordering::Relaxed);
        self.most_sets.fetch_max(sets.len(), Ordering::Relaxed);
    }
}

impl Kubelets {
    pub(super) fn start(client: &Client) -> Self {
        let mut informer =
            Informer::<Object>::with(client, kind("pods"), ReflectorConfig::default(), IndexerBuilder::new());
        let pods = informer.store();
        let (sender, receiver) = mpsc::unbounded_channel();
        let seen = Arc::new(Seen {
            most: AtomicUsize::new(0),
            fewest_ready: AtomicUsize::new(usize::MAX),
            most_sets: AtomicUsize::new(0),
        });
        let (all, counted) = (pods.clone(), seen.clone());
        informer.on_change(move |change| {
            counted.note(&all.list());
            if let Change::Added(pod) | Change::Updated { new: pod, .. } = change {
                let _ = sender.send(pod.clone());
            }
        });
        let stop = CancellationToken::new();
        tokio::spawn(informer.run(stop.clone()));
        tokio::spawn(tend(Api::of_kind(client, kind("pods")), receiver));
        Kubelets { pods, seen, stop }
    }

    pub(super) fn most(&self) -> usize {
        self.seen.most.load(Ordering::Relaxed)
    }

    pub(super) fn fewest_ready(&self) -> usize {
        self.seen.fewest_ready.load(Ordering::Relaxed)
    }

    pub(super) fn most_sets(&self) -> usize {
        self.seen.most_sets.load(Ordering::Relaxed)
    }

    /// Forgets what was counted.
    pub(super) fn count_anew(&self) {
        self.seen.most.store(0, Ordering::Relaxed);
        self.seen.fewest_ready.store(usize::MAX, Ordering::Relaxed);
        self.seen.most_sets.store(0, Ordering::Relaxed);
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn tend(pods: Api<Object>, mut changed: mpsc::UnboundedReceiver<Arc<Cached<Object>>>) {
    while let Some(pod) = changed.recv().await {
        if pod.object.text(&["spec", "nodeName"]).is_empty() {
            continue;
        }
        // A server that is down is asked again until it answers; whatever it then says is the end of it.
        loop {
            let outcome = if pod.object.is_terminating() {
                pods.delete(&pod.key, &DeleteParams::uid(&*pod.uid).grace(0)).await.map(drop)
            } else if pod.object.text(&["status", "phase"]) == "Pending" {
                let spec = pod.object.at(&["spec"]).map(Value::to_string).unwrap_or_default();
                let ready = !spec.contains(NEVER_READY);
                let ready = if ready { "True" } else { "False" };
                let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
                let patch = json!({"metadata": {"uid": pod.uid}, "status": status});
                pods.patch_status(&pod.key, &Patch::Merge(patch)).await.map(drop)
            } else {
                break;
            };
            match outcome {
                Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => break,
            }
        }
    }
}
