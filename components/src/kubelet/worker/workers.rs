//! Which pods have a worker, and what each is told.
//!
//! Invariants: one worker for each uid; a pod that takes the name of another waits until that one's worker is finished,
//! so two pods of one name never run together; nothing is ended before the API's pods have been seen once; a mirror pod
//! never runs, since it is only the picture of a static pod, of which a kubelet here has none.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use listwatch_proto::resource::ObjectKey;
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};

use super::{
    Context,
    pod::{Order, Verdict, Worker, is_ending},
};
use crate::{
    client::{Cached, DeleteParams},
    kubelet::runtime::seam::PodFound,
    runtime::{Backoff, BackoffPolicy, Queue},
};

/// Marks the picture of a static pod in the API (Kubernetes 1.36).
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Pauses while a mirror pod cannot be deleted.
const TURN_AWAY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), factor: 2.0, cap: Duration::from_secs(30), jitter: 0.5 };

/// Owns all workers; dropping it ends them and leaves their containers running.
pub(in crate::kubelet) struct Workers {
    context: Arc<Context>,
    /// Keys whose pods may have changed.
    queue: Queue<ObjectKey>,
    running: HashMap<String, Running>,
    /// The uids of the pods that the runtime had at the start.
    known: HashSet<String>,
    tasks: JoinSet<()>,
    /// The uid of each task.
    uids: HashMap<tokio::task::Id, String>,
    /// The uids of mirror pods that are being deleted.
    turned_away: HashSet<String>,
}

struct Running {
    key: ObjectKey,
    orders: watch::Sender<Order>,
}

impl Workers {
    /// No worker yet; `queue` is fed with the key of every pod that changes.
    pub(in crate::kubelet) fn new(context: Arc<Context>, queue: Queue<ObjectKey>) -> Self {
        Workers {
            context,
            queue,
            running: HashMap::new(),
            known: HashSet::new(),
            tasks: JoinSet::new(),
            uids: HashMap::new(),
            turned_away: HashSet::new(),
        }
    }

    /// Follows the pods of the node. Ends only by being dropped, or when the queue is closed.
    pub(in crate::kubelet) async fn run(mut self, found: Vec<PodFound>) {
        if self.context.pod_store.wait_synced().await.is_err() {
            return;
        }
        self.known = found.iter().map(|pod| pod.config.uid.clone()).collect();
        let mut pods = self.context.pod_store.list();
        for pod in pods.iter().filter(|pod| is_mirror(pod)) {
            self.look(&pod.key);
        }
        pods.retain(|pod| !is_mirror(pod));
        // Who was here first has the first claim, whatever the order in which they are heard of now.
        pods.sort_by_key(|pod| (created(pod), pod.key.to_string()));
        for pod in pods.iter().filter(|pod| self.keeps_its_place(pod)) {
            self.context.ledger.enter(&pod.uid, pod);
        }
        for pod in found {
            let key = ObjectKey::new(pod.config.namespace.as_str(), pod.config.name.as_str());
            let seen = self.context.pod_store.get(&key);
            let known = seen.is_some_and(|seen| seen.uid == pod.config.uid && !is_mirror(&seen));
            if !known {
                tracing::info!(pod = %key, uid = pod.config.uid, "the API has this pod no more; ending its containers");
                let (orders, wanted) = watch::channel(Order::Gone);
                let uid = pod.config.uid.clone();
                let worker = Worker::orphan(self.context.clone(), pod.config, wanted);
                self.spawn(uid, key, orders, worker);
            }
        }
        for pod in pods {
            self.look(&pod.key);
        }
        loop {
            tokio::select! {
                // A pod may have changed.
                key = self.queue.get() => match key {
                    Some(key) => {
                        self.look(&key);
                        self.queue.done(&key);
                    }
                    None => return,
                },
                // A worker has finished: a pod of the same name may be waiting for that.
                Some(finished) = self.tasks.join_next_with_id() => self.finished(finished),
            }
        }
    }

    /// Brings the workers of one name in line with the API.
    fn look(&mut self, key: &ObjectKey) {
        let mut pod = self.context.pod_store.get(key);
        if let Some(mirror) = pod.take_if(|pod| is_mirror(pod)) {
            self.turn_away(&mirror);
        }
        let mut others = false;
        for (uid, worker) in self.running.iter().filter(|(_, worker)| worker.key == *key) {
            match &pod {
                Some(pod) if pod.uid == *uid => {
                    worker.orders.send_replace(Order::Pod(pod.clone()));
                    return;
                }
                _ => {
                    others = true;
                    worker.orders.send_if_modified(|order| {
                        let new = !matches!(order, Order::Gone);
                        *order = Order::Gone;
                        new
                    });
                }
            }
        }
        if let Some(pod) = pod.filter(|_| !others) {
            self.start(pod);
        }
    }

    /// Deletes a mirror pod that mirrors nothing, as upstream's kubelet does, and tries again until it is gone.
    fn turn_away(&mut self, mirror: &Cached<Pod>) {
        if !self.turned_away.insert(mirror.uid.clone()) {
            return;
        }
        let (key, uid) = (mirror.key.clone(), mirror.uid.clone());
        tracing::info!(pod = %mirror.key, uid = mirror.uid, "deleting a mirror pod without a static pod");
        let pods = self.context.pods.clone();
        let task = self.tasks.spawn(async move {
            let mut backoff = Backoff::new(TURN_AWAY);
            loop {
                match pods.delete(&key, &DeleteParams::uid(uid.as_str()).grace(0)).await {
                    Ok(_) => return,
                    Err(error) if error.is_not_found() || error.is_conflict() => return,
                    Err(error) => tracing::warn!(pod = %key, %error, "cannot delete a mirror pod yet"),
                }
                tokio::time::sleep(backoff.next_delay()).await;
            }
        });
        self.uids.insert(task.id(), mirror.uid.clone());
    }

    /// Whether the pod was taken in an earlier life of the kubelet: a restart never turns away what runs already.
    fn keeps_its_place(&self, pod: &Cached<Pod>) -> bool {
        let started = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        self.known.contains(&pod.uid) || started && !is_ending(pod)
    }

    /// Judges a pod here and now, so that pods are taken in the order in which they come.
    fn judge(&self, pod: &Cached<Pod>) -> Verdict {
        if self.keeps_its_place(pod) {
            self.context.ledger.enter(&pod.uid, pod);
            return Verdict::Taken;
        }
        if is_ending(pod) {
            return Verdict::Taken;
        }
        let node = self.context.node_store.get(&ObjectKey::new("", self.context.node_name.as_str()));
        match node.map(|node| self.context.ledger.admit(&pod.uid, pod, &node.object)) {
            Some(Ok(())) => Verdict::Taken,
            Some(Err(rejection)) if !rejection.may_be_stale() => Verdict::Rejected(rejection),
            _ => Verdict::AskAgain,
        }
    }

    fn start(&mut self, pod: Arc<Cached<Pod>>) {
        let verdict = self.judge(&pod);
        let (orders, wanted) = watch::channel(Order::Pod(pod.clone()));
        let (uid, key) = (pod.uid.clone(), pod.key.clone());
        let worker = Worker::new(self.context.clone(), pod, verdict, wanted);
        self.spawn(uid, key, orders, worker);
    }

    fn spawn(&mut self, uid: String, key: ObjectKey, orders: watch::Sender<Order>, worker: Worker) {
        let task = self.tasks.spawn(worker.run());
        self.uids.insert(task.id(), uid.clone());
        self.running.insert(uid, Running { key, orders });
    }

    /// Forgets the worker. Should its pod still be there (the worker broke), it gets another one.
    fn finished(&mut self, outcome: Result<(tokio::task::Id, ()), JoinError>) {
        let id = match outcome {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "a pod worker broke");
                error.id()
            }
        };
        let uid = self.uids.remove(&id);
        if let Some(uid) = &uid {
            self.turned_away.remove(uid);
            self.known.remove(uid);
        }
        if let Some(worker) = uid.and_then(|uid| self.running.remove(&uid)) {
            self.queue.add(worker.key);
        }
    }
}

/// Whether it is the picture of a static pod.
fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR_ANNOTATION))
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_pod_is_told_by_its_annotation() {
        let mut pod = Pod::default();
        assert!(!is_mirror(&pod));
        pod.metadata.annotations = Some([(MIRROR_ANNOTATION.to_owned(), "mirror".to_owned())].into());
        assert!(is_mirror(&pod));
    }
}
